"""What every oracle must do. Each check takes an `OracleCase` and raises AssertionError.

case = testing.OracleCase(lambda: MyOracle(), ids=pool.ids, classes=10)

@pytest.mark.parametrize("check", testing.ORACLE_CHECKS, ids=lambda check: check.__name__)
def test_my_oracle(check):
    check(case)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.errors import BadInput
from ncalr.oracles.oracle import LATER, REFUSED, Answers, Changing, Oracle, remind


@dataclass(frozen=True)
class OracleCase:
    """An oracle to be checked.

    `make` gives a new oracle that has not been asked anything; two of them must answer alike. `ids` are those it knows,
    twelve or more. `steady` says whether asking again gives the same answer, as it must unless the oracle is there to
    change its mind or to be late.
    """

    make: Callable[[], Oracle]
    ids: Any
    classes: int
    steady: bool = True

    @property
    def all_ids(self) -> npt.NDArray[Any]:
        """The ids as an array of their own."""
        return np.array(self.ids)

    def labels(self, ids: Any, oracle: Oracle | None = None) -> list[int]:
        """What is said about these ids, by a new oracle unless one is given."""
        return [int(label) for label in (oracle or self.make()).answer(ids).labels]


def check_oracle(make: Callable[[], Oracle], ids: Any, classes: int, steady: bool = True) -> None:
    """Every check at once."""
    case = OracleCase(make, ids, classes, steady)
    for check in ORACLE_CHECKS:
        check(case)


def check_aligned(case: OracleCase) -> None:
    """An answer for each id, in the order asked; and by one name, or one for each."""
    asked = _mixed(case)
    answers = case.make().answer(asked)
    assert isinstance(answers, Answers), f"an oracle gives Answers, got {type(answers).__name__}"
    assert np.array_equal(answers.ids, asked), "ids are not those asked for, in their order"
    assert answers.labels.shape == asked.shape, f"{len(asked)} ids have answers of shape {answers.labels.shape}"
    assert answers.labels.dtype == np.int64, f"labels are {answers.labels.dtype}, not int64"
    assert isinstance(answers.by, str) or answers.by.shape == asked.shape, "`by` is not aligned with the ids"


def check_labels(case: OracleCase) -> None:
    """Each answer is a class, `REFUSED` or `LATER`."""
    found = set(case.labels(case.all_ids))
    strange = found - set(range(case.classes)) - {REFUSED, LATER}
    assert not strange, f"not a class, REFUSED or LATER: {sorted(strange)}"


def check_twice(case: OracleCase) -> None:
    """Asked twice, it says the same; one that is not steady says what a new one says that is asked as often."""
    first, second = case.make(), case.make()
    said = [case.labels(case.all_ids, first) for _ in range(4)]
    assert said == [case.labels(case.all_ids, second) for _ in range(4)], "two oracles made alike answer differently"
    if case.steady:
        assert said == said[:1] * 4, "asked again, it said something else"
    else:
        assert any(later != said[0] for later in said), "it is steady; say so in the case"


def check_order(case: OracleCase) -> None:
    """The order of asking does not matter, within a call and between calls."""
    wanted = dict(zip(case.all_ids.tolist(), case.labels(case.all_ids), strict=True))
    asked = _mixed(case)
    assert case.labels(asked) == [wanted[item] for item in asked.tolist()], "answers depend on the order of the ids"
    oracle = case.make()
    found = [case.labels([item], oracle)[0] for item in asked.tolist()]
    assert found == [wanted[item] for item in asked.tolist()], "answers depend on what was asked before"


def check_subset(case: OracleCase) -> None:
    """What is said about an item does not depend on its company."""
    ids, oracle = case.all_ids, case.make()
    whole = case.labels(ids)
    assert case.labels(ids[::3], oracle) == whole[::3], "answers depend on what else is asked"
    assert case.labels(ids[1::3], oracle) == whole[1::3], "answers depend on what was asked before"


def check_repeated(case: OracleCase) -> None:
    """An id that stands several times in a call has the same answer at each place, and was asked about once."""
    ids, oracle = case.all_ids, case.make()
    asked = np.concatenate([ids, ids[::-1], ids[:3]])
    once = case.labels(ids)
    found = case.labels(asked, oracle)
    assert found == [*once, *once[::-1], *once[:3]], "an id that repeats has several answers"
    other = case.make()
    case.labels(ids, other)
    assert case.labels(ids, oracle) == case.labels(ids, other), "an id that repeats counts as several askings"


def check_unknown(case: OracleCase) -> None:
    """An id that is not known is BadInput that names it, and the call has not been made."""
    ids, oracle = case.all_ids, case.make()
    stranger = "no-such-item" if ids.dtype.kind == "U" else int(ids.max()) + 1
    for asked in ([stranger], [*ids.tolist(), stranger], [stranger, *ids.tolist()]):
        try:
            oracle.answer(asked)
        except BadInput as error:
            assert str(stranger) in str(error), f"the error does not name {stranger!r}: {error}"
        except Exception as error:
            raise AssertionError(f"expected BadInput, got {type(error).__name__}: {error}") from error
        else:
            raise AssertionError(f"{stranger!r} is not an item and was answered")
    assert case.labels(ids, oracle) == case.labels(ids), "a question that was refused changed later answers"


def check_empty(case: OracleCase) -> None:
    """No ids have no answers."""
    nothing: list[Any] = [[], case.all_ids[:0]]
    for asked in nothing:
        answers = case.make().answer(asked)
        assert len(answers.ids) == len(answers.labels) == 0, "no ids were asked about and some were answered"


def check_lists(case: OracleCase) -> None:
    """Ids may come in a list."""
    assert case.labels(case.all_ids.tolist()) == case.labels(case.all_ids), "a list is answered differently"


def check_untouched(case: OracleCase) -> None:
    """The ids stay as they are, and writing to an answer does not change the next."""
    asked, oracle = _mixed(case), case.make()
    before, other = asked.copy(), case.make()
    answers = oracle.answer(asked)
    case.labels(asked, other)
    assert np.array_equal(asked, before), "the ids were written to"
    if answers.labels.flags.writeable:
        answers.labels[...] = 0
    assert case.labels(asked, oracle) == case.labels(asked, other), "an answer is a view of what the oracle knows"


def check_remembers(case: OracleCase) -> None:
    """A new oracle that is told what was asked goes on like the one that was asked; what it is not told was not."""
    ids = case.all_ids
    askings = [ids, ids[::2], ids[1::3], ids[::2]]
    asked, told = case.make(), case.make()
    for part in askings:
        asked.answer(part)
    told.answer(ids[:5])
    for _ in range(2):
        remind(told, [part.tolist() for part in askings])
    same = case.labels(ids, told) == case.labels(ids, asked)
    assert same, "told what was asked before, it answers differently; an oracle that counts needs `remember`"
    remind(told, [])
    assert case.labels(ids, told) == case.labels(ids), "told that nothing was asked, it is not as a new one"


def check_changes(case: OracleCase) -> None:
    """Changes are about ids that were given, each once, and asking for them changes nothing: it may be done again."""
    ids = case.all_ids
    askings = [ids[::2], ids[1::2], ids[:3], ids[:3]]
    oracle, other, told = case.make(), case.make(), case.make()
    if not (isinstance(oracle, Changing) and isinstance(told, Changing)):
        return
    for part in askings:
        oracle.answer(part)
        other.answer(part)
    remind(told, [part.tolist() for part in askings])
    answers = oracle.changes(ids)
    assert isinstance(answers, Answers), f"an oracle gives Answers, got {type(answers).__name__}"
    found = dict(zip(answers.ids.tolist(), answers.labels.tolist(), strict=True))
    assert found.keys() <= set(ids.tolist()), "changes are about ids that were not given"
    assert len(found) == len(answers), "an id has several changes"
    strange = set(found.values()) - set(range(case.classes)) - {REFUSED, LATER}
    assert not strange, f"not a class, REFUSED or LATER: {sorted(strange)}"
    for place, asked in ((oracle, ids), (told, ids.tolist()), (oracle, ids[::3]), (oracle, [])):
        wanted = {item: found[item] for item in np.asarray(asked).tolist() if item in found}
        again = place.changes(asked)
        same = dict(zip(again.ids.tolist(), again.labels.tolist(), strict=True)) == wanted
        assert same, "changes differ when asked for again, after a restart, or in other company"
    assert case.labels(ids, oracle) == case.labels(ids, other), "asking for changes counts as asking"


ORACLE_CHECKS: list[Callable[[OracleCase], None]] = [
    check_aligned,
    check_labels,
    check_twice,
    check_order,
    check_subset,
    check_repeated,
    check_unknown,
    check_empty,
    check_lists,
    check_untouched,
    check_remembers,
    check_changes,
]


def _mixed(case: OracleCase) -> npt.NDArray[Any]:
    return np.asarray(np.random.default_rng(7).permutation(case.all_ids))
