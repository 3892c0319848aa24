"""Work that steps back for people: a training takes what is left of the processors, and all of it when nobody asks.

A server that has to wait for a training's slice of time at every step of a request waits many times over: the request
is parsed, stands in the writer's line, is synced, is answered. At the lowest priority the training is put aside the
moment anything else wants to run.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ncalr.errors import check_known

SETTING = "NCALR_TRAINING_PRIORITY"
PRIORITIES = ("idle", "low", "normal")


def step_back() -> None:
    """Let the calling thread, and those it starts from now on, run only where nobody else wants to.

    Linux has a class for such work; elsewhere it is the lowest niceness there is. On a machine that is never idle such
    a training hardly moves: NCALR_TRAINING_PRIORITY=low gives it a small share of its own, normal a full one.
    """
    wanted = os.environ.get(SETTING, "idle")
    check_known(SETTING, wanted, PRIORITIES)
    if wanted == "normal":
        return
    with suppress(OSError, AttributeError):
        os.nice(10 if wanted == "low" else 19)
    if wanted == "idle":
        with suppress(OSError, AttributeError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
