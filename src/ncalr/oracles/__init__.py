"""Oracles: answers for ids, right, wrong, late or none (`oracle.Oracle`)."""

from ncalr.oracles.annotators import Annotators
from ncalr.oracles.hesitant import Corrected, Refusing, Slow
from ncalr.oracles.named import oracle_of
from ncalr.oracles.noise import Clean, Noise, Noisy, noise, noises, noisy_labels, standardised
from ncalr.oracles.oracle import LATER, REFUSED, Answers, Changing, Oracle, Remembering, Truth, changes, remind

__all__ = [
    "LATER",
    "REFUSED",
    "Annotators",
    "Answers",
    "Changing",
    "Clean",
    "Corrected",
    "Noise",
    "Noisy",
    "Oracle",
    "Refusing",
    "Remembering",
    "Slow",
    "Truth",
    "changes",
    "noise",
    "noises",
    "noisy_labels",
    "oracle_of",
    "remind",
    "standardised",
]
