"""The consensus methods by name, for configuration files and the command line.

| name        | annotators differ in | needs a model | take it for                                                     |
|-------------|----------------------|---------------|-----------------------------------------------------------------|
| majority    | nothing              | no            | a first look; three or more good annotators                     |
| one_coin    | accuracy             | no            | many classes, few answers an annotator                          |
| dawid_skene | confusions           | no            | systematic mistakes, at least some 5 answers a class and person |
| glad        | ability; items too   | no            | many answers an item, items of uneven difficulty                |
| crowdlab    | agreement            | yes           | one or two answers an item and a decent model                   |
| bayes       | accuracy             | yes           | the same, and the posterior is to be learnt from                |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any

from ncalr.errors import BadInput, check_known
from ncalr.votes.answers import Votes
from ncalr.votes.bayes import bayes
from ncalr.votes.consensus import Consensus
from ncalr.votes.crowdlab import crowdlab
from ncalr.votes.dawid_skene import dawid_skene
from ncalr.votes.glad import glad
from ncalr.votes.majority import majority
from ncalr.votes.one_coin import one_coin

METHODS: Mapping[str, Callable[..., Consensus]] = MappingProxyType(
    {
        "majority": majority,
        "one_coin": one_coin,
        "dawid_skene": dawid_skene,
        "glad": glad,
        "crowdlab": crowdlab,
        "bayes": bayes,
    }
)


def aggregate(votes: Votes, method: str = "dawid_skene", **options: Any) -> Consensus:
    """The consensus by the method of this name; options are the keyword arguments of its function.

    >>> aggregate(Votes.from_matrix([[0, 0, 1]], classes=2), "majority").labels.tolist()
    [0]
    """
    check_known("consensus method", method, METHODS)
    if not isinstance(votes, Votes):
        raise BadInput(
            f"votes must be Votes, got {type(votes).__name__}; make them with Votes.from_matrix or Votes.from_long"
        )
    known = {name: one for name, one in signature(METHODS[method]).parameters.items() if name != "votes"}
    for option in options:
        check_known(f"option of the consensus method {method}", option, known)
    if "probs" in known and known["probs"].default is Parameter.empty and options.get("probs") is None:
        raise BadInput(f"{method} needs the model's out-of-sample probabilities: probs=, a row for each of votes.items")
    return METHODS[method](votes, **options)
