"""The command line: one file a command, each parsing its arguments, making one library call and printing."""

from __future__ import annotations

import errno
import sys
import warnings
from typing import Any

ADVICE = {
    errno.ENOSPC: "free some space or choose another place",
    errno.EDQUOT: "free some space or choose another place",
    errno.ENOENT: "make the folder first, or look at how the name is written",
    errno.ENOTDIR: "a file is in the way; choose another place",
    errno.EEXIST: "a file is in the way; choose another place",
    errno.EISDIR: "it is a folder; give a file another name",
    errno.EACCES: "choose another place, or change its permissions",
    errno.EPERM: "choose another place, or change its permissions",
    errno.EROFS: "choose another place",
}
"""What to do about a file that cannot be used."""


def main() -> None:
    """Run `ncalr`; an error meant for the user is one line, not a traceback.

    So is a file that cannot be used, and a package that is not installed.
    """
    from ncalr.cli.app import app
    from ncalr.errors import NcalrError

    warnings.showwarning = _notes_in_one_line(warnings.showwarning)
    try:
        app()
    except NcalrError as error:
        print(f"ncalr: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except ModuleNotFoundError as error:
        from ncalr.cli.doctor import EXTRAS

        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        extra, use = EXTRAS[module]
        print(f"ncalr: {module} is not installed ({use}): pip install 'ncalr[{extra}]'", file=sys.stderr)
        raise SystemExit(2) from None
    except OSError as error:
        if error.errno not in ADVICE:
            raise
        what = (error.strerror or str(error)).lower()
        print(f"ncalr: {f'{error.filename}: ' if error.filename else ''}{what}; {ADVICE[error.errno]}", file=sys.stderr)
        raise SystemExit(2) from None


def _notes_in_one_line(others: Any) -> Any:
    """How warnings are shown: notes as the notes of a query are, others as they were."""
    from ncalr.errors import Note

    def show(message: Any, category: Any, *where: Any, **more: Any) -> None:
        if issubclass(category, Note):
            print(f"note: {message}", file=sys.stderr)
        else:
            others(message, category, *where, **more)

    return show
