"""Long tails and held-out classes, as options of every dataset."""

from __future__ import annotations

import numpy as np
import pytest

from ncalr.data import load
from ncalr.errors import BadInput, UnknownName


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def test_known_classes_are_learned_and_the_others_are_kept_apart(digits):
    found = load("digits(known=8)")
    assert found.classes == [str(n) for n in range(8)]
    assert found.apart.classes == ["8", "9"]
    assert sorted([*found.pool.ids, *found.apart.pool.ids]) == sorted(digits.pool.ids)
    assert set(found.labels) == set(range(8))
    assert set(found.apart.labels) == {8, 9}
    assert set(found.apart.test_labels) == {8, 9}
    truth = dict(zip(digits.pool.ids.tolist(), digits.labels.tolist(), strict=True))
    assert [truth[i] for i in found.pool.ids.tolist()] == found.labels.tolist()
    assert len(found.test) + len(found.apart.test) == len(digits.test)
    first = int(found.apart.pool.ids[0])
    place = int(np.flatnonzero(digits.pool.ids == first)[0])
    assert (found.apart.pool.read(slice(0, 1)) == digits.pool.read(slice(place, place + 1))).all()


def test_drawn_classes_are_numbered_anew(digits):
    found = load("digits(known=5, view_seed=3)")
    assert found.classes + found.apart.classes != [str(n) for n in range(10)]
    names = np.array(found.classes + found.apart.classes)
    truth = dict(zip(digits.pool.ids.tolist(), digits.labels.tolist(), strict=True))
    for pool, labels in ((found.pool, found.labels), (found.apart.pool, found.apart.labels)):
        assert [int(n) for n in names[labels]] == [truth[i] for i in pool.ids.tolist()]


def test_the_share_of_the_known_classes_that_may_be_labelled(digits):
    found = load("digits(known=6, share=0.5)")
    known = int((digits.labels < 6).sum())
    assert len(found.pool) == round(known / 2)
    assert len(found.apart.pool) == len(digits.pool) - len(found.pool)
    assert (found.apart.labels < 6).sum() == known - len(found.pool)


def test_a_long_tail_keeps_the_test_set(digits):
    found = load("digits(tail=0.1)")
    counts = np.bincount(found.labels)
    assert counts[0] == np.bincount(digits.labels)[0] or counts[0] == counts.max()
    assert counts[-1] == pytest.approx(0.1 * np.bincount(digits.labels).max(), abs=1)
    assert (np.diff(counts) <= 0).all()
    assert len(found.test) == len(digits.test)
    assert found.apart.test is None


def test_a_seed_draws_other_items():
    one, other = (set(load(f"digits(tail=0.1, view_seed={s})").pool.ids.tolist()) for s in (0, 1))
    assert len(one) == len(other)
    assert one != other


def test_bad_views():
    with pytest.raises(BadInput, match="between 1 and 9 can be known, got known=10"):
        load("digits(known=10)")
    with pytest.raises(BadInput, match="share"):
        load("digits(known=5, share=0)")
    with pytest.raises(BadInput, match="nothing is left in the pool"):
        load("digits(known=1, share=0.0001)")
    with pytest.raises(UnknownName, match="Did you mean 'known'"):
        load("digits(knwon=8)")
