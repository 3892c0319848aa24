"""GLAD: how able the annotator is and how hard the item is, together.

Whitehill et al., "Whose vote should count more: optimal integration of labels from labelers of unknown expertise"
(2009). With ability alpha_j and the item's clarity beta_i = exp(b_i),

    P(j is right about i) = sigma(alpha_j beta_i),     wrong classes alike, (1 - sigma) / (c - 1) each
    priors: alpha ~ N(1, 1), b ~ N(1, 1); class shares: those of the answers

An annotator with alpha = 0 throws a coin, one below 0 is wrong on purpose. The authors alternate an E-step with
gradient steps; the gradient of the M-step at the current posterior is that of the marginal likelihood (Fisher's
identity), so here L-BFGS climbs the marginal log posterior density itself, with one E-step a gradient. Stop: a gain
below 1e-5, or 100 iterations.

With three answers an item its clarity is mostly prior; GLAD is for items seen by many. `difficulty` is 1 / beta.
Accuracy is the expected share of right answers; its interval takes the posterior as if accuracies alone were unknown,
and where all items are equally hard it covers less than it states (86 to 97 % instead of 95 % in simulated crowds).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, log_expit

from ncalr.votes.answers import Floats, Votes
from ncalr.votes.consensus import Consensus, conclude, likeliest
from ncalr.votes.em import UNCHECKED, check_stopping, class_shares, everywhere, normalised, unsettled
from ncalr.votes.information import coin_worth, expected_accuracy

_PRIOR = 1.0  # mean of ability and of log clarity; their variance is 1
_FARTHEST = 8.0  # of log clarity from 0: a long first step must not overflow


def glad(votes: Votes, *, seed: int = 0, tolerance: float = 1e-5, iterations: int = 100) -> Consensus:
    """The posterior under abilities and difficulties.

    >>> found = glad(Votes.from_matrix([[0, 0, 0, 0], [1, 1, 0, 1], [0, 1, 0, 1], [1, 1, 1, 1]], classes=2))
    >>> found.difficulty.argmax().item()
    2
    """
    check_stopping(tolerance, iterations)
    inner = votes.answered
    parameters, objective, notes = _climbed(inner, tolerance, iterations)
    ability, log_clarity = np.split(parameters, [len(votes.annotators)])
    unchecked = notes == (UNCHECKED,)
    posterior = everywhere(votes, inner.shares if unchecked else _density(inner, ability, log_clarity)[2])
    difficulty = np.full(len(votes.items), np.exp(-_PRIOR))
    difficulty[votes.answers > 0] = np.exp(-log_clarity)
    return conclude(
        votes,
        "glad",
        posterior,
        likeliest(posterior, votes, seed),
        expected_accuracy(votes, posterior),
        coin_worth(votes, posterior),
        difficulty=difficulty,
        objective=objective,
        notes=notes,
    )


def _climbed(votes: Votes, tolerance: float, iterations: int) -> tuple[Floats, tuple[float, ...], tuple[str, ...]]:
    """Abilities and log clarities, one after the other, at the top of the density; the way there; notes."""
    from scipy.optimize import Bounds, minimize

    a = len(votes.annotators)
    start = np.full(a + len(votes.items), _PRIOR)
    if not votes.checked.any():
        return start, (), (UNCHECKED,)

    def downhill(parameters: Floats) -> tuple[float, Floats]:
        value, slope, _ = _density(votes, parameters[:a], parameters[a:])
        return -value, -slope

    trace: list[float] = []

    def watch(intermediate_result: Any) -> None:  # SciPy goes by this name
        trace.append(-float(intermediate_result.fun))

    far = np.where(np.arange(len(start)) < a, np.inf, _FARTHEST)
    # SciPy's tolerance is a share of the value, ours a gain
    options = {"maxiter": iterations, "ftol": tolerance / max(abs(downhill(start)[0]), 1.0), "gtol": 0.0}
    found = minimize(
        downhill, start, jac=True, method="L-BFGS-B", bounds=Bounds(-far, far), callback=watch, options=options
    )
    return found.x, tuple(trace), (unsettled(iterations),) if found.nit >= iterations else ()


def _density(votes: Votes, ability: Floats, log_clarity: Floats) -> tuple[float, Floats, Floats]:
    """The log posterior density of the parameters up to a constant, its gradient, and the posterior of the classes."""
    n, c = votes.shares.shape
    clarity = np.exp(log_clarity)[votes.item]
    strength = ability[votes.annotator] * clarity
    # log sigma(x) - log sigma(-x) = x
    gain = np.bincount(votes.item * c + votes.label, strength + np.log(c - 1), minlength=n * c).reshape(n, c)
    posterior, likelihood = normalised(np.log(class_shares(votes.shares)[0]) + gain)
    value = likelihood + float(log_expit(-strength).sum())
    surplus = posterior[votes.item, votes.label] - expit(strength)
    slope = np.concatenate(
        [
            np.bincount(votes.annotator, surplus * clarity, minlength=len(ability)) - (ability - _PRIOR),
            np.bincount(votes.item, surplus * strength, minlength=n) - (log_clarity - _PRIOR),
        ]
    )
    away = ((ability - _PRIOR) ** 2).sum() + ((log_clarity - _PRIOR) ** 2).sum()
    return value - float(away) / 2, slope, posterior
