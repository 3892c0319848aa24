"""What every pool must do. Each check takes a `PoolCase` and raises AssertionError.

case = testing.PoolCase(lambda: MyPool("/data"))

@pytest.mark.parametrize("check", testing.POOL_CHECKS, ids=lambda check: check.__name__)
def test_my_pool(check):
    check(case)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.data.pool import Pool, positions_of
from ncalr.errors import BadInput


@dataclass(frozen=True)
class PoolCase:
    """A pool to be checked: three items or more, few enough to be read at once.

    `make` opens it, every time anew; `items` is what it should hold, where that is known.
    """

    make: Callable[[], Pool]
    items: Any = None

    @cached_property
    def pool(self) -> Pool:
        """The pool that most checks look at."""
        return self.make()

    @cached_property
    def all(self) -> npt.NDArray[Any]:
        """All its items, as they were when first read."""
        return np.array(self.pool.read(np.arange(len(self.pool))))


def check_pool(make: Callable[[], Pool], items: Any = None) -> None:
    """Every check at once."""
    case = PoolCase(make, items)
    for check in POOL_CHECKS:
        check(case)


def check_ids(case: PoolCase) -> None:
    """Ids are whole numbers or texts, as many as items, each once."""
    ids = case.pool.ids
    assert isinstance(case.pool, Pool), "not a Pool: it lacks one of ids, shape, dtype, read, len"
    assert isinstance(ids, np.ndarray), f"ids are {type(ids).__name__}, expected an array"
    assert ids.ndim == 1, f"ids have shape {ids.shape}, expected (n,)"
    assert ids.dtype.kind in "iuU", f"ids are {ids.dtype}, expected whole numbers or texts"
    assert len(ids) == len(case.pool), f"{len(ids)} ids, {len(case.pool)} items"
    assert len(np.unique(ids)) == len(ids), "ids repeat"
    assert positions_of(case.pool, ids[::-1]).tolist() == list(range(len(ids)))[::-1], "ids are not found by their ids"


def check_permanent(case: PoolCase) -> None:
    """Reading changes no id, and opening the pool again gives the same ids and items."""
    before = np.array(case.pool.ids)
    case.pool.read(slice(0, 2))
    assert np.array_equal(case.pool.ids, before), "reading changed the ids"
    again = case.make()
    assert np.array_equal(again.ids, before), "opened again, the pool has other ids"
    assert np.array_equal(again.read(np.arange(len(again))), case.all), "opened again, the pool has other items"


def check_length(case: PoolCase) -> None:
    """Len is the number of items that can be read."""
    assert len(case.pool) >= 3, f"a case needs three items or more, this one has {len(case.pool)}"
    assert len(case.all) == len(case.pool), f"{len(case.all)} items were read, len says {len(case.pool)}"
    assert len(case.pool.read(slice(None))) == len(case.pool), "slice(None) does not read all"


def check_form(case: PoolCase) -> None:
    """Items have the shape and the dtype that the pool says, however many are read."""
    assert isinstance(case.pool.shape, tuple), f"shape is {case.pool.shape!r}, expected a tuple"
    assert isinstance(case.pool.dtype, np.dtype), f"dtype is {case.pool.dtype!r}, expected a NumPy dtype"
    for positions in (slice(None), slice(0, 1), np.array([1]), np.array([], np.intp), slice(0, 0)):
        found = case.pool.read(positions)
        assert isinstance(found, np.ndarray), f"read gave {type(found).__name__}, expected an array"
        count = len(np.arange(len(case.pool))[positions])
        assert found.shape == (count, *case.pool.shape), f"read({positions!r}) has shape {found.shape}"
        assert found.dtype == case.pool.dtype, f"read({positions!r}) is {found.dtype}, the pool {case.pool.dtype}"


def check_items(case: PoolCase) -> None:
    """The items are those given in the case."""
    assert case.items is None or np.array_equal(case.all, case.items), "the items are not those of the case"


def check_order(case: PoolCase) -> None:
    """Items come in the order asked for: one by one, backwards, shuffled, repeated."""
    n = len(case.pool)
    shuffled = np.random.default_rng(0).permutation(n)
    for positions in (np.arange(n)[::-1], shuffled, np.array([n - 1, 0, n - 1, 0, 0]), np.repeat(shuffled[:2], 3)):
        same = np.array_equal(case.pool.read(positions), case.all[positions])
        assert same, f"read({positions[:6].tolist()}...) gave other items, or another order"
    for place in {0, 1, n // 2, n - 1}:
        alone = case.pool.read(np.array([place]))
        assert np.array_equal(alone, case.all[[place]]), f"item {place} alone is not item {place} among all"


def check_slices(case: PoolCase) -> None:
    """A slice reads what it reads of a list, with steps, backwards, and past the end."""
    n = len(case.pool)
    for part in (
        slice(1, None),
        slice(0, 2),
        slice(None, None, 2),
        slice(None, None, -1),
        slice(1, n + 10),
        slice(n, None),
    ):
        assert np.array_equal(case.pool.read(part), case.all[part]), f"read({part}) is not what it is of a list"


def check_untouched(case: PoolCase) -> None:
    """Writing to what was read does not alter the pool."""
    whole = np.array(case.all)
    for positions in (slice(None), np.arange(len(case.pool)), slice(0, 1)):
        found = case.pool.read(positions)
        if found.flags.writeable and found.size:
            found[...] = found[::-1].copy() if len(found) > 1 else whole[-1:]
        same = np.array_equal(case.pool.read(np.arange(len(whole))), whole)
        if not same:  # mend it: the case serves other checks
            found[...] = whole[positions]
        assert same, f"writing to what read({positions!r}) gave altered the pool"


def check_out_of_range(case: PoolCase) -> None:
    """A position that is not there is an IndexError or BadInput, alone and among others."""
    n = len(case.pool)
    for positions in ([n], [0, n], [-n - 1], [10**9]):
        try:
            case.pool.read(np.array(positions))
        except (IndexError, BadInput):
            continue
        except Exception as error:
            raise AssertionError(f"expected IndexError or BadInput, got {type(error).__name__}: {error}") from error
        raise AssertionError(f"read({positions}) of {n} items was accepted")


POOL_CHECKS: list[Callable[[PoolCase], None]] = [
    check_ids,
    check_permanent,
    check_length,
    check_form,
    check_items,
    check_order,
    check_slices,
    check_untouched,
    check_out_of_range,
]
