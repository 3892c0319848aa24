"""What to learn from several answers an item: labels, or distributions, and which items to ask about again."""

from __future__ import annotations

from typing import Any

import numpy as np

from ncalr.loop.answers import WITH_MODEL, Doubts, Policy, most_wanted
from ncalr.loop.state import Line, State
from ncalr.loop.voice import Voice, votes_of
from ncalr.votes import Consensus, aggregate, bayes, crowdlab, doubts, gains

DIGITS = 4  # of a probability that goes into the journal


def agreed(policy: Policy, state: State, voice: Voice | None, classes: int, seed: int) -> Line:
    """The labels that the answers come to where these are others than the state has, for a line of the journal."""
    if not policy.collects or not state.labels:
        return {}
    ids = list(state.labels)
    classes = voice.classes if voice is not None else max(classes, max(state.labels.values()) + 1, 2)
    found = _consensus(policy.method, state, ids, voice, classes, seed)
    labels = found.labels.tolist()
    other = [(item, label) for item, label in zip(ids, labels, strict=True) if label != state.labels[item]]
    said: Line = {"ids": [item for item, _ in other], "labels": [label for _, label in other]}
    if policy.soft:
        said["soft"] = found.posterior.round(DIGITS).tolist()
    return {"consensus": said} if other or policy.soft else {}


def doubted(policy: Doubts, k: int, picks: list[Any], state: State, voice: Voice, seed: list[int]) -> list[Any]:
    """Which labelled items to spend some of k answers on, where `picks` are the new items to be had for all of them."""
    ids = [*state.labels, *picks]
    votes = votes_of(state, ids, voice.classes)
    probs = voice.of(ids)
    if policy.method == "bayes":
        wanted = gains(votes, bayes(votes, probs, seed=seed[0], temperature=1.0))
    else:
        wanted = doubts(votes, crowdlab(votes, probs, seed=seed[0]))
    value = dict(zip(ids, wanted.tolist(), strict=True))
    old = state.open_again(policy.cap)
    both = [*old, *picks]
    order = most_wanted([value[item] for item in both], np.array(both), seed)
    again = [int(at) for at in order if at < len(old)]
    count = policy.share(k, sum(at < len(old) for at in order[:k]), len(picks), len(old))
    return [old[at] for at in again[:count]]


def _consensus(method: str, state: State, ids: list[Any], voice: Voice | None, classes: int, seed: int) -> Consensus:
    """By the named method; by majority where that wants a model and there is none yet."""
    votes = votes_of(state, ids, classes)
    if method == "majority" or method in WITH_MODEL:
        if voice is not None:
            tempered = {"temperature": 1.0} if method == "bayes" else {}  # the voice is
            return aggregate(votes, method, probs=voice.of(ids), seed=seed, **tempered)
        return aggregate(votes, "majority", seed=seed)
    return aggregate(votes, method, seed=seed)
