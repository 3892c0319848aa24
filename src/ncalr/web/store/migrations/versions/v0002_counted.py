"""Leases know whether a lottery decided to show the model's guess; the answers given are counted.

Of leases from before it is not known, so none of them counts in the effect of suggestions.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

COUNTED = "purpose = 'label' AND kind IN ('label', 'none', 'broken')"


def upgrade() -> None:
    op.add_column("lease", sa.Column("drawn", sa.Boolean, nullable=False, server_default=sa.false()))
    if op.get_bind().execute(sa.text("SELECT count(*) FROM project")).scalar():
        op.execute(f"INSERT INTO counter (name, value) SELECT 'answers', count(*) FROM vote WHERE {COUNTED}")  # noqa: S608
        op.execute(
            "INSERT INTO counter (name, value) SELECT 'partial', count(*) FROM vote "  # noqa: S608
            f"WHERE {COUNTED} AND item_id IN (SELECT item_id FROM state WHERE status = 'open')"
        )


def downgrade() -> None:
    op.execute("DELETE FROM counter WHERE name IN ('answers', 'partial')")
    op.drop_column("lease", "drawn")
