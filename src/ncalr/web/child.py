"""Our own modules as processes of their own, which find no other modules where somebody stands.

`python -m` and `python -c` look for modules in the current folder first. Whoever starts `ncalr label .` inside a folder
of pictures from elsewhere would run a `resource.py` that lies between the pictures.
"""

from __future__ import annotations

import sys

_START = "import sys; sys.path[:] = filter(None, sys.path); from {module} import main; main(*sys.argv[1:])"


def command(module: str, *words: str) -> list[str]:
    """The command line that runs `main(*words)` of a module."""
    return [sys.executable, "-c", _START.format(module=module), *words]
