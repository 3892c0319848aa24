"""Label noise: exact counts, the structure of the transitions, independence of order, clear errors."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import truncnorm

from ncalr.acquire.lottery import Lottery
from ncalr.acquire.spec import Spec
from ncalr.errors import BadInput, NotFinite, UnknownName
from ncalr.oracles import Noisy, Truth, noise, noises, noisy_labels, standardised
from ncalr.oracles.noise import CIFAR10_PAIRS, CIFAR100_SUPERCLASSES, next_in_superclass

CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def balanced(classes, each, seed=0):
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(classes), each))


def counts(clean, noisy, classes):
    """How many items of each class got each label."""
    return np.bincount(clean * classes + noisy, minlength=classes * classes).reshape(classes, classes)


def wrong(clean, noisy):
    return int((clean != noisy).sum())


@pytest.mark.parametrize(("rate", "n"), [(0.0, 50), (0.2, 1000), (0.2, 1003), (0.29, 100), (0.57, 100), (1.0, 77)])
def test_symmetric_is_exact(rate, n):
    clean = np.arange(n) % 7
    expected = {(0.0, 50): 0, (0.2, 1000): 200, (0.2, 1003): 200, (0.29, 100): 29, (0.57, 100): 57, (1.0, 77): 77}
    assert wrong(clean, noisy_labels(clean, 7, f"symmetric(rate={rate})", 3)) == expected[rate, n]


def test_symmetric_goes_to_every_other_class_alike():
    clean = balanced(5, 4000)
    table = counts(clean, noisy_labels(clean, 5, "symmetric(rate=0.5)", 0), 5)
    assert np.trace(table) == 10_000
    off = table[~np.eye(5, dtype=bool)]
    assert np.abs(off - 500).max() < 5 * np.sqrt(500)


def test_inclusive_hits_as_many_and_spares_one_in_k():
    clean = balanced(4, 5000)
    assert wrong(clean, noisy_labels(clean, 4, "symmetric(rate=1, inclusive=false)", 1)) == 20_000
    inclusive = noisy_labels(clean, 4, "symmetric(rate=0.4, inclusive=true)", 1)
    exclusive = noisy_labels(clean, 4, "symmetric(rate=0.4)", 1)
    assert wrong(clean, exclusive) == 8000
    sigma = np.sqrt(8000 * 0.25 * 0.75)
    assert abs(wrong(clean, inclusive) - 8000 * (1 - 1 / 4)) < 4 * sigma
    assert not (exclusive == clean)[inclusive != clean].any(), "the same items are hit"


def test_a_coin_for_each_item():
    clean = balanced(10, 2000)
    found = [wrong(clean, noisy_labels(clean, 10, "symmetric(rate=0.3, exact=false)", seed)) for seed in range(20)]
    sigma = np.sqrt(20_000 * 0.3 * 0.7)
    assert len(set(found)) > 10
    assert abs(np.mean(found) - 6000) < 4 * sigma / np.sqrt(20)
    assert 0.5 * sigma < np.std(found) < 1.6 * sigma


def test_both_ways_to_write_a_flag():
    clean = balanced(4, 50)
    for text in ("symmetric(rate=0.4, inclusive=true)", "symmetric(rate=0.4, inclusive=True)"):
        spec = Spec("symmetric", {"rate": 0.4, "inclusive": True})
        assert np.array_equal(noisy_labels(clean, 4, text, 0), noisy_labels(clean, 4, spec, 0))
    with pytest.raises(BadInput, match="inclusive must be true or false, got 'maybe'"):
        noisy_labels(clean, 4, "symmetric(rate=0.4, inclusive=maybe)", 0)


@pytest.mark.parametrize("rate", [0.1, 0.4, 1.0])
def test_cifar10_pairs(rate):
    clean = balanced(10, 100)
    table = counts(clean, noisy_labels(clean, 10, f"asymmetric_cifar10(rate={rate})", 0), 10)
    named = {"truck": "automobile", "bird": "airplane", "deer": "horse", "cat": "dog", "dog": "cat"}
    expected = np.diag(np.full(10, 100))
    for source, target in named.items():
        expected[CIFAR10.index(source), CIFAR10.index(source)] -= round(100 * rate)
        expected[CIFAR10.index(source), CIFAR10.index(target)] += round(100 * rate)
    assert np.array_equal(table, expected)
    assert table.sum() - np.trace(table) == round(1000 * rate / 2)


def test_counts_are_exact_in_each_class():
    clean = np.repeat([9, 2, 4, 3, 5, 0], [7, 10, 3, 1, 99, 4])
    table = counts(clean, noisy_labels(clean, 10, "asymmetric_cifar10(rate=0.5)", 0), 10)
    assert {pair: int(table[pair]) for pair in CIFAR10_PAIRS.items()} == {
        (9, 1): 3,
        (2, 0): 5,
        (4, 7): 1,
        (3, 5): 0,
        (5, 3): 49,
    }


def test_cifar100_superclasses_and_their_circles():
    superclass, following = np.array(CIFAR100_SUPERCLASSES), next_in_superclass()
    assert np.bincount(superclass).tolist() == [5] * 20
    assert sorted(following.tolist()) == list(range(100))
    for kind in range(100):
        circle = [kind]
        for _ in range(5):
            circle.append(int(following[circle[-1]]))
        assert circle[5] == kind
        assert sorted(circle[:5]) == np.flatnonzero(superclass == superclass[kind]).tolist()
    falls = sum(following[kind] < kind for kind in range(100))
    assert falls == 20, "one step back to the first in each superclass"


def test_cifar100_knows_what_belongs_together():
    # apple, mushroom, orange, pear, sweet_pepper; beaver, dolphin, otter, seal, whale
    following = next_in_superclass()
    assert following[[0, 51, 53, 57, 83]].tolist() == [51, 53, 57, 83, 0]
    assert following[[4, 30, 55, 72, 95]].tolist() == [30, 55, 72, 95, 4]


def test_cifar100_stays_in_the_superclass():
    clean = balanced(100, 50)
    noisy = noisy_labels(clean, 100, "asymmetric_cifar100(rate=0.4)", 5)
    superclass = np.array(CIFAR100_SUPERCLASSES)
    table = counts(clean, noisy, 100)
    assert np.array_equal(superclass[clean], superclass[noisy])
    assert np.diag(table).tolist() == [30] * 100
    assert table[np.arange(100), next_in_superclass()].tolist() == [20] * 100
    assert table.sum() - np.trace(table) == 2000
    assert np.bincount(superclass[noisy]).tolist() == [250] * 20


def test_pairs():
    clean = balanced(3, 10)
    assert np.array_equal(noisy_labels(clean, 3, "pairs(rate=1)", 0), (clean + 1) % 3)
    table = counts(clean, noisy_labels(clean, 3, "pairs(rate=0.3, to=[[0, 2], [2, 0]])", 0), 3)
    assert table.tolist() == [[7, 0, 3], [0, 10, 0], [3, 0, 7]]
    braces = noisy_labels(clean, 3, "pairs(rate=0.3, to={0: 2, 2: 0})", 0)
    assert counts(clean, braces, 3).tolist() == table.tolist()
    coin = noisy_labels(clean, 3, "pairs(rate=0.3, exact=false)", 0)
    assert set(((coin - clean) % 3).tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("[[0, 0]]", "different classes"),
        ("[[0, 3]]", "different classes of 0..2"),
        ("[[0, 1], [0, 2]]", "once on the left"),
        ("[[0, 1], [2]]", "pairs of class numbers"),
        ("[0, 1]", "pairs of class numbers"),
        ("all", "pairs of class numbers"),
        ("[]", "pairs of class numbers"),
        ("[[0.0, 1.0]]", "pairs of class numbers"),
    ],
)
def test_pairs_that_are_none(to, words):
    with pytest.raises(BadInput, match=words):
        noisy_labels([0, 1, 2], 3, f"pairs(rate=0.3, to={to})", 0)


def vectors(n, d=32, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d), np.float32)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_instance_noise_is_as_frequent_as_it_should_be(rate):
    clean = balanced(10, 2000)
    noisy = noisy_labels(clean, 10, f"instance(rate={rate})", 0, vectors(20_000))
    expected = truncnorm((0 - rate) / 0.1, (1 - rate) / 0.1, loc=rate, scale=0.1).mean()
    assert abs(np.mean(clean != noisy) - expected) < 4 * np.sqrt(rate / 20_000)
    assert abs(expected - {0.1: 0.1288, 0.3: 0.3004, 0.5: 0.5}[rate]) < 1e-4


def test_how_hard_an_item_is_belongs_to_it():
    clean = balanced(5, 200)
    draws = [noisy_labels(clean, 5, "instance(rate=0.5)", 0, vectors(1000), draw=draw) for draw in range(150)]
    often = np.mean([draw != clean for draw in draws], axis=0)
    coin = np.sqrt(0.25 / 150)  # what is left where every item is equally hard: 0.041
    assert abs(np.std(often) - np.hypot(coin, 0.1)) < 0.015
    flat = [noisy_labels(clean, 5, "instance(rate=0.5, spread=0)", 0, vectors(1000), draw=draw) for draw in range(150)]
    assert abs(np.std(np.mean([draw != clean for draw in flat], axis=0)) - coin) < 0.01


def test_instance_noise_follows_the_features():
    clean = balanced(6, 500)
    strong = 10 * vectors(3000, d=64)
    first, other = (
        noisy_labels(clean, 6, "instance(rate=0.5)", 0, strong[rows]) for rows in (slice(None), slice(None, None, -1))
    )
    hit = first != clean
    assert np.array_equal(hit, other != clean), "features say where to, not how often"
    assert np.mean(first[hit] != other[hit]) > 0.5
    same = np.repeat(strong[:1], 3000, axis=0)
    alike = noisy_labels(clean, 6, "instance(rate=0.5)", 0, same)
    table = counts(clean, alike, 6)
    np.fill_diagonal(table, 0)
    assert (table > 0).sum(axis=1).tolist() == [1] * 6, "items that look alike are mistaken for the same class"


def test_each_class_has_weights_of_its_own_that_outlast_a_draw():
    clean = balanced(20, 50)
    same = np.repeat(10 * vectors(1, d=64), 1000, axis=0)
    tables = [counts(clean, noisy_labels(clean, 20, "instance(rate=1)", 0, same, draw=draw), 20) for draw in range(2)]
    for table in tables:
        np.fill_diagonal(table, 0)
    targets = [table.argmax(axis=1).tolist() for table in tables]
    assert targets[0] == targets[1]
    assert len(set(targets[0])) > 5, "with one projection for all, all but one class would go to the same"


def test_instance_noise_without_features_is_symmetric():
    clean = balanced(4, 5000)
    table = counts(clean, noisy_labels(clean, 4, "instance(rate=0.6)", 0, np.zeros((20_000, 3))), 4)
    off = table[~np.eye(4, dtype=bool)]
    assert np.abs(off - off.mean()).max() < 5 * np.sqrt(off.mean())
    assert off.min() > 0


def test_instance_noise_is_a_softmax():
    """One feature that is 1: the odds of targets are exp(w_j - w_k), and features of 2 square them."""
    clean = np.zeros(300_000, np.int64)
    odds = []
    for size in (1.0, 2.0):
        noisy = noisy_labels(clean, 3, "instance(rate=1)", 0, np.full((300_000, 1), size, np.float32))
        odds.append((noisy == 1).sum() / (noisy == 2).sum())
    assert abs(np.log(odds[1]) - 2 * np.log(odds[0])) < 0.05
    assert abs(np.log(odds[0])) > 0.1


def test_instance_noise_does_not_depend_on_block_or_precision():
    clean = balanced(3, 1500)
    features = vectors(4500)
    whole = noisy_labels(clean, 3, "instance(rate=0.4)", 0, features)
    order = np.random.default_rng(1).permutation(4500)
    mixed = noisy_labels(clean[order], 3, "instance(rate=0.4)", 0, features[order], ids=order)
    assert np.mean(mixed != whole[order]) < 0.001  # a product may be rounded differently in another block
    assert np.array_equal(noisy_labels(clean, 3, "instance(rate=0.4)", 0, features.astype(np.float64)), whole)


def test_instance_noise_of_rate_nothing_is_none():
    assert noisy_labels([0, 1, 2], 3, "instance(rate=0)", 0).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("features", "error", "words"),
    [
        (None, BadInput, "needs features"),
        (np.zeros((4, 2, 2, 3), np.uint8), BadInput, "standardised makes them of images"),
        (np.zeros((4, 2), np.uint8), BadInput, "floating-point"),
        (np.zeros((3, 2)), BadInput, "4 flat standardised"),
        (np.full((4, 2), np.nan), NotFinite, "NaN or infinity"),
    ],
)
def test_features_that_cannot_be_used(features, error, words):
    with pytest.raises(error, match=words):
        noisy_labels([0, 1, 2, 0], 3, "instance(rate=0.1)", 0, features)


def test_standardised():
    images = np.random.default_rng(0).integers(0, 256, (2500, 4, 4, 3)).astype(np.uint8)
    images[..., 1] = 7
    flat = standardised(images)
    assert (flat.shape, flat.dtype) == ((2500, 48), np.float32)
    shaped = flat.reshape(2500, 4, 4, 3)
    np.testing.assert_allclose(shaped.mean(axis=(0, 1, 2), dtype=np.float64), 0, atol=1e-6)
    np.testing.assert_allclose(shaped.std(axis=(0, 1, 2), dtype=np.float64), [1, 0, 1], atol=1e-5)
    by_hand = (images[..., 0] - images[..., 0].mean()) / images[..., 0].std()
    np.testing.assert_allclose(shaped[..., 0], by_hand, atol=1e-5)
    np.testing.assert_allclose(standardised([[1.0, 5.0], [3.0, 5.0]]), [[-1, 0], [1, 0]])
    with pytest.raises(BadInput, match=r"shape \(3,\)"):
        standardised([1.0, 2.0, 3.0])


def test_confusion():
    clean = balanced(3, 10_000)
    matrix = np.array([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]])
    table = counts(clean, noisy_labels(clean, 3, "confusion", 0, matrix=matrix), 3) / 10_000
    assert np.abs(table - matrix).max() < 4 * np.sqrt(0.25 / 10_000)
    assert (table[matrix == 0] == 0).all()
    certain = noisy_labels(clean, 3, "confusion", 0, matrix=np.eye(3)[[1, 2, 0]])
    assert np.array_equal(certain, (clean + 1) % 3)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (None, "needs matrix"),
        (np.eye(3), r"shape \(2, 2\)"),
        ([[0.5, 0.4], [0, 1]], "row 0 sums to 0.9"),
        ([[8, 2], [1, 9]], "row 0 sums to 10"),
        ([[1.5, -0.5], [0, 1]], "below 0"),
        ([[1, 0], [np.nan, 1]], "not finite"),
    ],
)
def test_matrices_that_are_none(matrix, words):
    with pytest.raises(BadInput, match=words):
        noisy_labels([0, 1], 2, "confusion", 0, matrix=matrix)


def test_given():
    assert noisy_labels([0, 1, 2], 3, "given", 0, given=[2, 1, 0]).tolist() == [2, 1, 0]
    for bad, words in (([0, 1], "3, one an item"), ([0, 1, 3], "0..2"), (None, "needs given"), ([0.5, 1, 2], "whole")):
        with pytest.raises(BadInput, match=words):
            noisy_labels([0, 1, 2], 3, "given", 0, given=bad)


SPECS = [
    "symmetric(rate=0.3)",
    "symmetric(rate=0.3, inclusive=true, exact=false)",
    "pairs(rate=0.3)",
    "asymmetric_cifar10(rate=0.3)",
    "instance(rate=0.3)",
    "confusion",
]
EXTRA = {"features": vectors(600), "matrix": np.full((10, 10), 0.1)}


@pytest.mark.parametrize("spec", SPECS)
def test_the_seed_decides(spec):
    clean = balanced(10, 60)
    before = clean.copy()
    first = noisy_labels(clean, 10, spec, 4, **EXTRA)
    assert first.dtype == np.int64
    assert np.array_equal(clean, before)
    assert np.array_equal(first, noisy_labels(clean, 10, spec, 4, **EXTRA))
    assert not np.array_equal(first, noisy_labels(clean, 10, spec, 5, **EXTRA))
    assert not np.array_equal(first, noisy_labels(clean, 10, spec, [4, 1], **EXTRA))
    assert not np.array_equal(first, noisy_labels(clean, 10, spec, 4, draw=1, **EXTRA))


@pytest.mark.parametrize("spec", [spec for spec in SPECS if "instance" not in spec])
def test_an_item_keeps_its_noise_wherever_it_stands(spec):
    clean = balanced(10, 60)
    names = np.array([f"item-{place}" for place in range(600)])
    order = np.random.default_rng(2).permutation(600)
    for ids in (np.arange(600), names):
        whole = noisy_labels(clean, 10, spec, 0, ids=ids, **EXTRA)
        assert np.array_equal(noisy_labels(clean[order], 10, spec, 0, ids=ids[order], **EXTRA), whole[order])


def test_more_noise_hits_the_same_items_and_more():
    clean = balanced(10, 60)
    few, many = (noisy_labels(clean, 10, f"symmetric(rate={rate})", 0) for rate in (0.2, 0.4))
    assert (many != clean)[few != clean].all()


def test_noise_shares_no_draws_with_a_strategy_under_the_same_seed():
    clean = balanced(10, 2000)
    hit = noisy_labels(clean, 10, "symmetric(rate=0.5)", 0) != clean
    for purpose in range(8):
        first = np.argsort(Lottery(0, np.arange(20_000)).uniform(purpose))[:2000]
        assert abs(hit[first].mean() - 0.5) < 4 * np.sqrt(0.25 / 2000)


@pytest.mark.parametrize("rate", ["-0.1", "1.01", "1e999", "true", "'0.2'", "lots", "[0.1]"])
@pytest.mark.parametrize("name", ["symmetric", "pairs", "asymmetric_cifar10", "instance"])
def test_rates_that_are_none(name, rate):
    with pytest.raises(BadInput, match=r"rate must be a (finite number|number from 0 to 1)"):
        noisy_labels(np.arange(10), 10, f"{name}(rate={rate})", 0, vectors(10))


@pytest.mark.parametrize(("name", "right"), [("asymmetric_cifar10", 10), ("asymmetric_cifar100", 100)])
@pytest.mark.parametrize("classes", [2, 9, 11, 99, 101])
def test_class_counts_that_do_not_fit(name, right, classes):
    with pytest.raises(BadInput, match=f"made for {right} classes, got {classes}"):
        noisy_labels([0, 1], classes, f"{name}(rate=0.1)", 0)


def test_names_and_options_that_are_not_known():
    with pytest.raises(UnknownName, match="Did you mean 'symmetric'"):
        noisy_labels([0], 2, "symetric(rate=0.1)", 0)
    with pytest.raises(UnknownName, match=r"option of noise 'symmetric' called 'rates'. Did you mean 'rate'"):
        noisy_labels([0], 2, "symmetric(rates=0.1)", 0)
    with pytest.raises(BadInput, match=r"needs rate: write symmetric\(rate=0.2\)"):
        noisy_labels([0], 2, "symmetric", 0)
    with pytest.raises(BadInput, match="given as text"):
        noisy_labels([0], 2, 0.2, 0)


@pytest.mark.parametrize(
    ("labels", "classes", "more", "words"),
    [
        ([0, 2], 2, {}, "0..1 for 2 classes; got 2"),
        ([0, -1], 2, {}, "got -1"),
        ([0.0, 1.0], 2, {}, "whole numbers"),
        ([[0, 1]], 2, {}, "a list"),
        ([0, 1], 0, {}, "classes must be"),
        ([0, 1], True, {}, "classes must be"),
        ([0, 0], 1, {}, "one class"),
        ([0, 1], 2, {"ids": [1]}, "2 labels need 2 ids, got 1"),
        ([0, 1], 2, {"ids": [1, 1]}, "must not repeat"),
        ([0, 1], 2, {"draw": -1}, "draw must be"),
        ([0, 1], 2, {"seed": 0.5}, "seed must be"),
    ],
)
@pytest.mark.parametrize("spec", ["symmetric(rate=0.5)", "pairs(rate=0.5)"])
def test_inputs_that_cannot_be_used(labels, classes, more, words, spec):
    with pytest.raises(BadInput, match=words):
        noisy_labels(labels, classes, spec, **{"seed": 0, **more})


def test_one_class_without_noise_is_fine():
    for spec in ("symmetric(rate=0)", "symmetric(rate=1, inclusive=true)", "pairs(rate=0)"):
        assert noisy_labels([0, 0], 1, spec, 0).tolist() == [0, 0]
    assert noisy_labels([], 3, "symmetric(rate=0.5)", 0).tolist() == []


def test_ones_own_noise():
    @noise("backwards_for_a_test")
    def backwards(clean, *, by=0):
        """The classes from behind."""
        return clean.classes - 1 - clean.labels + by

    known = noises()["backwards_for_a_test"]
    assert (known.summary, known.options) == ("The classes from behind.", {"by": 0})
    assert noisy_labels([0, 1, 2], 3, "backwards_for_a_test", 0).tolist() == [2, 1, 0]
    with pytest.raises(BadInput, match=r"what noise 'backwards_for_a_test' makes of labels must lie in 0..2"):
        noisy_labels([0, 1, 2], 3, "backwards_for_a_test(by=1)", 0)
    with pytest.raises(BadInput, match="already"):
        noise("symmetric")(backwards)


def test_the_built_in_kinds_are_known():
    expected = {"symmetric", "pairs", "asymmetric_cifar10", "asymmetric_cifar100", "instance", "confusion", "given"}
    assert expected <= set(noises())
    assert all(kind.summary for kind in noises().values())


def test_a_noisy_oracle_is_the_noise_on_the_truth():
    clean = balanced(10, 60)
    ids = np.random.default_rng(3).permutation(6000)[:600]
    oracle = Noisy(Truth(ids, clean, 10), "symmetric(rate=0.2)", seed=9)
    assert np.array_equal(oracle.answer(ids).labels, noisy_labels(clean, 10, "symmetric(rate=0.2)", 9, ids=ids))
    assert oracle.answer(ids).by == "symmetric(rate=0.2)"
    assert wrong(clean, oracle.labels) == 120


def test_fresh_noise_is_another_draw_each_time():
    clean = balanced(10, 100)
    truth = Truth(np.arange(1000), clean, 10)
    oracle = Noisy(truth, "symmetric(rate=0.2)", seed=9, fresh=True)
    said = [oracle.answer(truth.ids).labels for _ in range(30)]
    assert [wrong(clean, labels) for labels in said] == [200] * 30
    assert all(not np.array_equal(first, second) for first, second in pairwise(said))
    often = np.mean([labels != clean for labels in said], axis=0)
    assert abs(np.std(often) - np.sqrt(0.2 * 0.8 / 30)) < 0.01, "draws are independent"
    for draw in range(3):
        assert np.array_equal(said[draw], noisy_labels(clean, 10, "symmetric(rate=0.2)", 9, draw=draw))


def test_fresh_noise_counts_by_item():
    truth = Truth(np.arange(1000), balanced(10, 100), 10)
    one, two = (Noisy(truth, "pairs(rate=0.5)", seed=9, fresh=True) for _ in range(2))
    first, second = one.answer(truth.ids).labels, one.answer(truth.ids).labels
    assert np.array_equal(two.answer(truth.ids[:500]).labels, first[:500])
    assert np.array_equal(two.answer(truth.ids).labels, np.concatenate([second[:500], first[500:]]))


def test_given_labels_cannot_be_drawn_anew():
    with pytest.raises(BadInput, match="cannot be drawn anew"):
        Noisy(Truth([1, 2], [0, 1], 2), "given", given=[1, 1], fresh=True)
