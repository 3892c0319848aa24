"""Keep GNU's OpenMP, which runs the threads of numba and torch, usable in forked processes.

A forked child inherits OpenMP's record of its threads but none of the threads. The first loop that hands work to them
waits for ever; numba therefore ends such a child (SIGTERM). Two steps around each fork prevent both. The forking thread
gives its idle threads up (`omp_pause_resource_all` of OpenMP 5.0), so that parent and child start new ones at their
next loop. The child then tells numba that it is a process of its own. Results do not change.

Several copies of OpenMP may be loaded, because wheels bring their own: the threads of all are given up.

Where OpenMP is older than GCC 9 and has no such call, a child gets an error at its first loop.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Any

from ncalr.errors import NcalrError

SOFT = 1  # omp_pause_soft: threads go, the values that they keep to themselves stay


class Forked(NcalrError):
    """The compiled loops cannot run in this forked process."""


@cache
def library() -> Any:
    """Return GNU's OpenMP, or None where there is none."""
    try:
        return ctypes.CDLL("libgomp.so.1")
    except OSError:
        return None


def check() -> None:
    """Raise in a forked child whose OpenMP threads could not be given up before the fork."""
    if _broken:
        raise Forked(
            "This process was forked after OpenMP started threads, and OpenMP before GCC 9 cannot start them anew. "
            "Start processes with multiprocessing.get_context('spawn')."
        )


_losing = False  # whether the child of the next fork loses threads for good
_broken = False  # whether this process lost them


def _before() -> None:
    """Give up the idle OpenMP threads of the thread that forks."""
    global _losing
    pauses = [getattr(copy, "omp_pause_resource_all", None) for copy in _copies()]
    _losing = any(pause is None or pause(SOFT) != 0 for pause in pauses)


def _in_child() -> None:
    """Remember whether threads were lost; if not, tell numba, which refuses to run in a child of its first process."""
    global _broken
    _broken = _losing
    pool = sys.modules.get("numba.np.ufunc.omppool")
    if pool is not None and not _broken:
        ctypes.CFUNCTYPE(None, ctypes.c_int)(pool.launch_threads)(0)  # 0: note the process, start nothing


def _copies() -> list[Any]:
    """Return every copy of GNU's OpenMP that this process has loaded."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as lines:
            paths = {line.split(maxsplit=5)[-1].strip() for line in lines if "libgomp" in line}
        return [ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW) for path in sorted(paths)]
    except OSError:  # no /proc, or a file that was replaced
        return []


if sys.platform == "linux":
    os.register_at_fork(before=_before, after_in_child=_in_child)
