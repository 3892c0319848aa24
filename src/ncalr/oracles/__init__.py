"""Oracles: answers for ids, right, wrong, late or none (`oracle.Oracle`)."""

from ncalr.oracles.hesitant import Refusing, Slow
from ncalr.oracles.noise import Clean, Noise, Noisy, noise, noises, noisy_labels, standardised
from ncalr.oracles.oracle import LATER, REFUSED, Answers, Oracle, Truth

__all__ = [
    "LATER",
    "REFUSED",
    "Answers",
    "Clean",
    "Noise",
    "Noisy",
    "Oracle",
    "Refusing",
    "Slow",
    "Truth",
    "noise",
    "noises",
    "noisy_labels",
    "standardised",
]
