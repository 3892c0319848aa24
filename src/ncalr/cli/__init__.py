"""The command line: one file a command, each parsing its arguments, making one library call and printing."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `ncalr`; an error meant for the user is one line, not a traceback."""
    from ncalr.cli.app import app
    from ncalr.errors import NcalrError

    try:
        app()
    except NcalrError as error:
        print(f"ncalr: {error}", file=sys.stderr)
        raise SystemExit(2) from None
