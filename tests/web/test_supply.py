"""What the labelling server is installed with: locked with hashes, and asked about."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements" / "web.lock").read_text()


def test_every_locked_version_has_hashes_and_none_names_a_host():
    entries = re.findall(r"^([a-z0-9-]+)==(\S+)[^\n]*\\\n((?:    --hash=sha256:[0-9a-f]{64}[^\n]*\n?)+)", LOCK, re.M)
    names = [name for name, *_ in entries]
    assert len(names) == len(set(names)) == len(re.findall(r"^[a-z]", LOCK, re.M))
    assert {"fastapi", "uvicorn", "sqlalchemy", "alembic", "httpx", "pillow", "psycopg"} <= set(names)
    assert "://" not in LOCK
    assert "index" not in LOCK


def test_the_lock_is_what_is_tested():
    pinned = dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", (ROOT / "constraints.txt").read_text(), re.M))
    locked = dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", LOCK, re.M))
    assert {name: version for name, version in locked.items() if name in pinned} == {
        name: pinned[name] for name in locked if name in pinned
    }


def audit(tmp_path, answer):
    """Run the audit with a stand-in for pip-audit that answers this, or nothing at all."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "audit").write_text((ROOT / ".ci" / "audit").read_text())
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "accepted.txt").write_text("# none\nGHSA-known  # why\n")
    python = tmp_path / "python"
    out = "import sys; out = sys.argv[sys.argv.index('-o') + 1]; open('asked', 'w').write(' '.join(sys.argv))\n"
    write = (
        f"open(out, 'w').write({json.dumps(answer)!r})\n" if answer is not None else "sys.exit('no route to host')\n"
    )
    python.write_text(f"#!{sys.executable}\n{out}{write}")
    python.chmod(0o755)
    command = [sys.executable, str(tmp_path / ".ci" / "audit"), str(python)]
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)


WEAK = {"id": "GHSA-new", "fix_versions": ["1.1"], "description": "bad"}


@pytest.mark.parametrize(
    ("answer", "code", "word"),
    [
        ({"dependencies": [{"name": "a", "version": "1", "vulns": []}]}, 0, "no known weakness"),
        ({"dependencies": [{"name": "a", "version": "1", "vulns": [WEAK]}]}, 1, "GHSA-new, mended in 1.1"),
        (None, 0, "going on without"),
    ],
)
def test_a_known_weakness_fails_and_an_unreachable_service_does_not(tmp_path, answer, code, word):
    done = audit(tmp_path, answer)
    assert (done.returncode, word in done.stdout) == (code, True), done
    assert "--ignore-vuln GHSA-known" in (tmp_path / "asked").read_text()
