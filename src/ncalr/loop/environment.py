"""What a run is made by: versions, code, machine. A run that is resumed elsewhere says from which round on.

`environment.json` holds what the run began with, and under `later` what it was resumed with, where that was something
else: the same facts, and the first round that was made by them.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from ncalr.data.fields import check_fields, dict_of, is_count, is_text, list_of, record
from ncalr.data.files import write_whole
from ncalr.data.received import inside, read_object

FILE = "environment.json"
MADE_BY = ("python", "processor", "cores", "versions", "code", "gpu", "cuda", "cudnn")
"""Facts by which two environments are told apart. Threads are not among them: a run keeps those it began with."""
LIBRARIES = ("numpy", "scipy", "numba", "torch", "scikit-learn")

Facts = dict[str, Any]


def environment() -> Facts:
    """Versions, code and machine; torch's threads where it is in use, and its GPU where there is one."""
    from ncalr import __version__

    versions = {"ncalr": __version__}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": platform.machine(),  # processor() starts a program, which holds a killed run's lock
        "cores": os.cpu_count(),
        **_torch_facts(),
        "versions": versions,
        "code": code(),
    }


@cache
def code() -> str:
    """A digest of the package's own sources: the same version may be different code."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def keep_environment(folder: Path, number: int) -> None:
    """Write down by what a run goes on with a round, where that is something else than before."""
    path = folder / FILE
    if not path.exists():
        return
    known, now = _read(folder), environment()
    later = [one for one in known.get("later", []) if one["round"] < number]
    last = later[-1] if later else known
    if any(last.get(name) != now.get(name) for name in MADE_BY):
        later.append({"round": number, **now})
    if later != known.get("later", []):
        write_whole(path, json.dumps({**known, "later": later}, indent=1))


def read_environments(folder: Path) -> list[Facts]:
    """By what the rounds of a run were made, the first first; nothing where it is not known."""
    if not (folder / FILE).exists():
        return []
    known = _read(folder)
    return [known, *known.get("later", [])]


def threads_of(folder: Path) -> int | None:
    """How many threads of torch a run began with; None where that is not known."""
    return _read(folder).get("threads") if (folder / FILE).exists() else None


def _read(folder: Path) -> Facts:
    """What a run keeps of its environment, as far as it is read again, checked."""
    path = inside(folder, FILE)
    known = read_object(path, "remove it, and the run goes on without it")
    kinds = {"versions": dict_of(is_text), "threads": lambda value: is_count(value) and 0 < value < 10_000}
    later = list_of(record({**kinds, "round": is_count}, needed=("round",)))
    check_fields(known, {**kinds, "later": later}, str(path))
    return known


def _torch_facts() -> Facts:
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    found: Facts = {"threads": torch.get_num_threads()}
    if torch.cuda.is_available():
        cudnn = torch.backends.cudnn.version()
        found |= {"gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda, "cudnn": cudnn}
    return found
