"""What the predictions did over the checkpoints: flips (FF), dispersion, forgetting, margins, and the recorder."""

from ncalr.dynamics.recorder import Recorder
from ncalr.dynamics.scores import (
    aum,
    flips,
    forgetting_events,
    label_dispersion,
    temporal_discrepancy,
    variance,
)

__all__ = [
    "Recorder",
    "aum",
    "flips",
    "forgetting_events",
    "label_dispersion",
    "temporal_discrepancy",
    "variance",
]
