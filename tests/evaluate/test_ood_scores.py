"""The nine OOD scores against slow references, against a collapsed network worked out by hand, and at the door."""

from __future__ import annotations

import math
import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import ledoit_wolf
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from ncalr.errors import BadInput, MissingEvidence, NotFinite, UnknownName
from ncalr.evaluate import ood_covariance, ood_neighbours, ood_scores
from ncalr.evaluate.ood import fit
from ncalr.evaluate.ood_neighbours import Bank, largest
from ncalr.geometry import ClassStatistics

NINE = (
    "msp",
    "max_logit",
    "energy",
    "mahalanobis",
    "relative_mahalanobis",
    "knn",
    "vim",
    "neco",
    "nci",
)
steady = settings(deadline=None, derandomize=True, max_examples=60)


class Problem:
    """A labelled set, a head and items; class 3 of six has no labels."""

    def __init__(self, seed: int = 0, n: int = 90, d: int = 7, spread: float = 1.0) -> None:
        rng = np.random.default_rng(seed)
        self.labels = rng.choice([0, 1, 2, 4, 5], n)
        centres = 2 * rng.normal(size=(6, d)) + 1
        mixing = rng.normal(size=(d, d))
        draw = partial(rng.normal, size=(n, d))
        self.features = (centres[self.labels] + spread * draw() @ mixing).astype(np.float32)
        self.weight, self.bias = rng.normal(size=(6, d)), rng.normal(size=6)
        self.items = (rng.normal(size=(25, d)) @ mixing * 3).astype(np.float32)

    def score(self, spec: str) -> np.ndarray:
        detectors = fit(self.features, self.labels, weight=self.weight, bias=self.bias, scores=[spec])
        return detectors.score(self.items)[spec]

    def notes(self, spec: str) -> str:
        return "\n".join(fit(self.features, self.labels, weight=self.weight, bias=self.bias, scores=[spec]).notes)


class Slow:
    """Every score as the papers print it, one item at a time, in float64."""

    def __init__(self, problem: Problem) -> None:
        self.features, self.items = problem.features.astype(np.float64), problem.items.astype(np.float64)
        self.labels, self.weight, self.bias = problem.labels, problem.weight, problem.bias
        self.present = np.unique(self.labels)
        self.means = {c: self.features[self.labels == c].mean(axis=0) for c in self.present}
        self.mean = self.features.mean(axis=0)
        self.away = np.array([z - self.means[c] for z, c in zip(self.features, self.labels, strict=True)])
        self.d = self.features.shape[1]

    def logits(self, z: np.ndarray) -> list[float]:
        return [float(w @ z + b) for w, b in zip(self.weight, self.bias, strict=True)]

    def each(self, rule: Any) -> np.ndarray:
        return np.array([rule(z) for z in self.items])

    def msp(self, temperature: float = 1.0) -> np.ndarray:
        def rule(z: np.ndarray) -> float:
            powers = [math.exp(logit / temperature) for logit in self.logits(z)]
            return max(powers) / sum(powers)

        return self.each(rule)

    def max_logit(self) -> np.ndarray:
        return self.each(lambda z: max(self.logits(z)))

    def energy(self, temperature: float = 1.0) -> np.ndarray:
        return self.each(
            lambda z: temperature * math.log(sum(math.exp(logit / temperature) for logit in self.logits(z)))
        )

    def inside(self, shrinkage: float | None) -> np.ndarray:
        plain = self.away.T @ self.away / len(self.away)
        share = ledoit_wolf(self.away, assume_centered=True)[1] if shrinkage is None else shrinkage
        return (1 - share) * plain + share * np.trace(plain) / self.d * np.eye(self.d)

    def mahalanobis(self, shrinkage: float | None = None) -> np.ndarray:
        inverse = np.linalg.pinv(self.inside(shrinkage))
        return self.each(lambda z: max(-(z - m) @ inverse @ (z - m) for m in self.means.values()))

    def relative_mahalanobis(self, shrinkage: float | None = None) -> np.ndarray:
        between = np.cov(np.array([self.means[c] for c in self.labels]).T, bias=True)
        inverse = np.linalg.inv(self.inside(shrinkage) + between)
        return self.mahalanobis(shrinkage) + self.each(lambda z: (z - self.mean) @ inverse @ (z - self.mean))

    def knn(self, k: int) -> np.ndarray:
        bank = [z / np.linalg.norm(z) for z in self.features]

        def rule(z: np.ndarray) -> float:
            here = z / np.linalg.norm(z)
            return -sorted(((here - other) ** 2).sum() for other in bank)[k - 1]

        return self.each(rule)

    def vim(self, dimensions: int, alpha: float | None = None) -> np.ndarray:
        origin = -np.linalg.pinv(self.weight) @ self.bias
        first = np.linalg.svd(self.features - origin)[2][:dimensions]

        def residual(z: np.ndarray) -> float:
            return float(np.linalg.norm((z - origin) - first.T @ (first @ (z - origin))))

        if alpha is None:
            tops = [max(self.logits(z)) for z in self.features]
            alpha = float(np.mean(tops) / np.mean([residual(z) for z in self.features]))
        return self.energy() - alpha * self.each(residual)

    def neco(self, dimensions: int, times: bool = False) -> np.ndarray:
        scaler = StandardScaler().fit(self.features)
        principal = PCA(dimensions).fit(scaler.transform(self.features))
        scaled = scaler.transform(self.items)
        share = np.linalg.norm(principal.transform(scaled), axis=1) / np.linalg.norm(scaled, axis=1)
        return share * self.max_logit() if times else share

    def nci(self, alpha: float = 1e-4) -> np.ndarray:
        def rule(z: np.ndarray) -> float:
            w = self.weight[int(np.argmax(self.logits(z)))]
            return float(w @ (z - self.mean) / np.linalg.norm(z - self.mean) + alpha * sum(abs(z)))

        return self.each(rule)


# -- against the slow references ------------------------------------------------------------------------------

CASES = {
    "msp": Slow.msp,
    "msp(temperature=2.5)": partial(Slow.msp, temperature=2.5),
    "max_logit": Slow.max_logit,
    "energy": Slow.energy,
    "energy(temperature=0.5)": partial(Slow.energy, temperature=0.5),
    "mahalanobis": Slow.mahalanobis,
    "mahalanobis(shrinkage=0)": partial(Slow.mahalanobis, shrinkage=0.0),
    "mahalanobis(shrinkage=0.3)": partial(Slow.mahalanobis, shrinkage=0.3),
    "relative_mahalanobis": Slow.relative_mahalanobis,
    "relative_mahalanobis(shrinkage=0.0)": partial(Slow.relative_mahalanobis, shrinkage=0.0),
    "knn": partial(Slow.knn, k=18),  # 90 items of five classes
    "knn(k=1)": partial(Slow.knn, k=1),
    "knn(k=90)": partial(Slow.knn, k=90),
    "vim": partial(Slow.vim, dimensions=3),
    "vim(dimensions=6)": partial(Slow.vim, dimensions=6),
    "vim(alpha=0.25)": partial(Slow.vim, dimensions=3, alpha=0.25),
    "neco": partial(Slow.neco, dimensions=4),
    "neco(dimensions=2, max_logit=True)": partial(Slow.neco, dimensions=2, times=True),
    "nci": Slow.nci,
    "nci(alpha=0.1)": partial(Slow.nci, alpha=0.1),
}


@pytest.mark.parametrize("spec", CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_against_the_slow_reference(spec: str, seed: int) -> None:
    problem = Problem(seed)
    close = 1e-5 if spec.startswith("knn") else 1e-9
    np.testing.assert_allclose(problem.score(spec), CASES[spec](Slow(problem)), rtol=close, atol=1e-12)


def test_every_score_is_in_the_registry() -> None:
    known = ood_scores.scores()
    assert tuple(known) == NINE
    assert {spec.split("(")[0] for spec in CASES} == set(NINE)
    assert {name for name, score in known.items() if "head" in score.needs} == {"vim", "nci"}
    assert {name for name, score in known.items() if "logits" in score.needs} == {"msp", "max_logit", "energy"}
    assert {name for name, score in known.items() if "labels" in score.needs} == {
        "mahalanobis",
        "relative_mahalanobis",
    }
    assert known["knn"].summary.startswith("Squared distance to the k-th nearest")
    assert all(score.cites for score in known.values())


def test_all_nine_by_default_and_each_with_its_own_options() -> None:
    problem = Problem()
    detectors = fit(problem.features, problem.labels, weight=problem.weight, bias=problem.bias)
    assert tuple(detectors.score(problem.items)) == NINE
    twice = fit(problem.features, problem.labels, scores=["knn(k=2)", "knn(k=3)"]).score(problem.items)
    assert (twice["knn(k=2)"] > twice["knn(k=3)"]).all()


def test_without_a_head_the_default_leaves_out_what_needs_one() -> None:
    problem = Problem()
    detectors = fit(problem.features, problem.labels)
    assert tuple(detectors.fitted) == (*NINE[:6], "neco")
    assert detectors.notes[-1] == "nci, vim: left out, no last layer was passed"


@pytest.mark.parametrize("spec", NINE)
def test_blocks_do_not_matter(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem()
    whole = problem.score(spec)
    monkeypatch.setattr(ood_covariance, "BLOCK_BYTES", 8 * 7 * 4)
    monkeypatch.setattr(ood_neighbours, "_BANK_ROWS", 11)
    monkeypatch.setattr(ood_neighbours, "_ITEM_ROWS", 3)
    np.testing.assert_allclose(problem.score(spec), whole, rtol=1e-5 if spec == "knn" else 1e-10)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("spec", NINE)
def test_kinds_of_numbers_and_tensors(spec: str, kind: type) -> None:
    problem = Problem()
    problem.features, problem.items = problem.features.astype(np.float16), problem.items.astype(np.float16)
    wanted = problem.score(spec)
    problem.features, problem.items = problem.features.astype(kind), problem.items.astype(kind)
    np.testing.assert_allclose(problem.score(spec), wanted, rtol=1e-12)
    problem.features, problem.items = torch.from_numpy(problem.features), torch.from_numpy(problem.items)
    problem.weight = torch.from_numpy(problem.weight).requires_grad_()
    np.testing.assert_allclose(problem.score(spec), wanted, rtol=1e-12)


def test_turning_the_space_changes_nothing() -> None:
    problem = Problem(d=6)
    turn = np.linalg.qr(np.random.default_rng(5).normal(size=(6, 6)))[0]
    specs = [name for name in NINE if name not in ("neco", "nci")] + ["nci(alpha=0)"]  # those look at dimensions
    before = fit(problem.features, problem.labels, weight=problem.weight, bias=problem.bias, scores=specs)
    after = fit(problem.features @ turn, problem.labels, weight=problem.weight @ turn, bias=problem.bias, scores=specs)
    wanted, found = before.score(problem.items), after.score(problem.items @ turn)
    for name in specs:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-6)


def test_given_logits_are_used_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ood_covariance, "BLOCK_BYTES", 8 * 7 * 4)
    problem = Problem()
    logits = np.random.default_rng(1).normal(size=(25, 4))
    headless = fit(problem.features, problem.labels, scores=["msp", "max_logit", "energy", "neco(max_logit=True)"])
    found = headless.score(problem.items, logits)
    np.testing.assert_allclose(found["max_logit"], logits.max(axis=1))
    np.testing.assert_allclose(found["energy"], np.log(np.exp(logits).sum(axis=1)))
    share = fit(problem.features, problem.labels, scores=["neco"]).score(problem.items)["neco"]
    np.testing.assert_allclose(found["neco(max_logit=True)"], share * logits.max(axis=1))


def test_logits_given_beside_a_head_come_first() -> None:
    problem = Problem()
    detectors = fit(problem.features, problem.labels, weight=problem.weight, scores=["max_logit"])
    assert (detectors.score(problem.items, np.full((25, 6), 3.0))["max_logit"] == 3).all()
    without_bias = (problem.items @ problem.weight.T).max(axis=1)
    np.testing.assert_allclose(detectors.score(problem.items)["max_logit"], without_bias)


# -- a collapsed network, by hand -----------------------------------------------------------------------------
# Three classes of five items each, all equal to the corners of a triangle in the first two of four dimensions; the rows
# of the head are four times the corners. The covariance of all is 1/2 in the plane and 0 outside: 1/4 a dimension.

ROOT = math.sqrt(3) / 2
CORNERS = np.array([[0, 1, 0, 0], [-ROOT, -0.5, 0, 0], [ROOT, -0.5, 0, 0]])
PLACES = {
    "corner": CORNERS[0],  # logits 4, -2, -2
    "half": CORNERS[0] / 2,  # logits 2, -1, -1
    "between": (CORNERS[0] + CORNERS[1]) / 2,  # logits 1, 1, -2; squared distance 3/4 to the two corners
    "opposite": -CORNERS[0],  # logits -4, 2, 2; squared distance 1 to the other corners
    "middle": np.zeros(4),  # logits 0
    "outside": np.array([0, 0, 1.0, 0]),  # logits 0; squared distance 2 to every corner
}
BY_HAND = {
    "msp": {
        "corner": 1 / (1 + 2 * math.exp(-6)),
        "half": 1 / (1 + 2 * math.exp(-3)),
        "opposite": 1 / (2 + math.exp(-6)),
        "between": 1 / (2 + math.exp(-3)),
        "middle": 1 / 3,
        "outside": 1 / 3,
    },
    "max_logit": {"corner": 4, "half": 2, "opposite": 2, "between": 1, "middle": 0, "outside": 0},
    "energy": {
        "corner": math.log(math.exp(4) + 2 * math.exp(-2)),
        "opposite": math.log(2 * math.exp(2) + math.exp(-4)),
        "half": math.log(math.exp(2) + 2 * math.exp(-1)),
        "between": math.log(2 * math.e + math.exp(-2)),
        "middle": math.log(3),
        "outside": math.log(3),
    },
    # squared distance to the nearest corner over 1/4
    "mahalanobis": {"corner": 0, "half": -1, "between": -3, "opposite": -4, "middle": -4, "outside": -8},
    # and the squared length in the plane over 1/4 + 1/2, outside it over 1/4
    "relative_mahalanobis": {
        "corner": 4 / 3,
        "half": -1 + 1 / 3,
        "between": -3 + 1 / 3,
        "opposite": -4 + 4 / 3,
        "middle": -4,
        "outside": -8 + 4,
    },
    # the 5th nearest: the direction's own corner, or one at 60 degrees; a zero is 1 from every direction
    "knn": {"corner": 0, "half": 0, "between": -1, "opposite": -1, "middle": -1, "outside": -2},
    # residual 1 outside the plane, alpha = 4 / 1e-4
    "vim": {
        "corner": math.log(math.exp(4) + 2 * math.exp(-2)),
        "half": math.log(math.exp(2) + 2 * math.exp(-1)),
        "middle": math.log(3),
        "outside": math.log(3) - 40000,
    },
    "neco": {"corner": 1, "half": 1, "between": 1, "opposite": 1, "middle": 0, "outside": 0},
    "nci(alpha=0)": {"corner": 4, "half": 4, "between": 2, "opposite": 2, "middle": 0, "outside": 0},
    "nci": {"corner": 4.0001, "half": 4.00005, "outside": 0.0001, "middle": 0},
}


@pytest.mark.parametrize("spec", BY_HAND)
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_collapsed_features_by_hand(spec: str, kind: type) -> None:
    labels = np.repeat(np.arange(3), 5)
    detectors = fit(CORNERS[labels].astype(kind), labels, weight=4 * CORNERS, scores=[spec])
    found = detectors.score(np.array(list(PLACES.values())))[spec]
    values = dict(zip(PLACES, found.tolist(), strict=True))
    for place, wanted in BY_HAND[spec].items():
        assert values[place] == pytest.approx(wanted, rel=2e-6, abs=2e-6), place


def test_collapsed_features_say_so() -> None:
    labels = np.repeat(np.arange(3), 5)
    notes = fit(CORNERS[labels], labels, weight=4 * CORNERS).notes
    assert [note for note in notes if note.startswith("mahalanobis: no spread inside the classes (each class's")]
    assert [note for note in notes if note.startswith("vim: 2 directions hold all labelled features")]
    assert [note for note in notes if note.startswith("knn: k = 5, the mean number of labels a class, instead of 50")]


def test_a_spread_below_single_precision_is_none() -> None:
    labels = np.repeat(np.arange(3), 5)
    noise = 1e-9 * np.random.default_rng(0).normal(size=(15, 4))
    detectors = fit(CORNERS[labels] + noise, labels, scores=["mahalanobis"])
    found = detectors.score(np.array(list(PLACES.values())))["mahalanobis"]
    np.testing.assert_allclose(found, [BY_HAND["mahalanobis"][place] for place in PLACES], atol=1e-6)


def test_nearly_collapsed_features_keep_their_order() -> None:
    """Spread of a ten-thousandth of the distance between classes: single precision alone would shuffle the items."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 40)
    features = 10 * CORNERS[labels] + 1e-3 * rng.normal(size=(120, 4))
    steps = np.linspace(0, 1, 9)[:, None] * np.array([1.0, 0, 0.3, 0]) * 4e-3
    items = 10 * CORNERS[0] + steps
    found = fit(features, labels, scores=["mahalanobis", "knn(k=40)"]).score(items)
    for name, values in found.items():
        assert (np.diff(values) < 0).all(), name
    assert "covariance inside the classes shrunk by" in fit(features, labels, scores=["mahalanobis"]).notes[0]
    exact = [-sorted(((x - z) ** 2).sum() for z in _rows(features))[39] for x in _rows(items)]
    np.testing.assert_allclose(found["knn(k=40)"], exact, rtol=1e-6)


def _rows(items: np.ndarray) -> list[np.ndarray]:
    """Each item at length 1."""
    return [z / np.linalg.norm(z) for z in items]


# -- covariances ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(400, 5), (60, 30), (12, 40)])
def test_ledoit_wolf_is_that_of_scikit_learn(n: int, d: int) -> None:
    problem = Problem(3, n=n, d=d)
    statistics = ClassStatistics.from_labelled(problem.features, problem.labels, 6)
    found = ood_covariance.moments(problem.features, problem.labels, statistics)
    away = problem.features - statistics.means[problem.labels]
    covariance, share = ledoit_wolf(away, assume_centered=True)
    assert found.ledoit_wolf == pytest.approx(share, rel=1e-9)
    np.testing.assert_allclose(ood_covariance.shrink(found.within, found.ledoit_wolf), covariance, atol=1e-10)
    np.testing.assert_allclose(found.total, np.cov(problem.features.T.astype(float), bias=True), atol=1e-10)
    assert f"shrunk by {share:.3g} (Ledoit-Wolf)" in problem.notes("mahalanobis")


def test_ledoit_wolf_by_hand() -> None:
    sphere = ood_covariance.Moments(10, np.zeros(2), np.eye(2), np.zeros((2, 2)), fourth=60.0)
    assert sphere.ledoit_wolf == 0  # the covariance is the sphere already
    for fourth, share in [(10.0, 0), (10 - 1e-9, 0), (15.0, 0.1), (1000.0, 1)]:  # (fourth / 10 - 1) / 10 over 1/2
        line = ood_covariance.Moments(10, np.zeros(2), np.diag([1.0, 0.0]), np.zeros((2, 2)), fourth)
        assert line.ledoit_wolf == pytest.approx(share)


def test_a_singular_covariance_is_shrunk_at_least_a_little() -> None:
    """Mirrored pairs: Ledoit and Wolf's share is 0, and the direction without spread must still be seen."""
    features = np.array([[1.0, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]])
    detectors = fit(features, [0, 0, 1, 1], scores=["mahalanobis", "mahalanobis(shrinkage=0)"])
    found = detectors.score([[1.0, 0, 0], [1.0, 0, 1]])
    assert found["mahalanobis"][0] == pytest.approx(0, abs=1e-9)
    assert found["mahalanobis"][1] == pytest.approx(-3e6, rel=1e-6)  # variance 1e-6 * (1/3) there
    assert found["mahalanobis(shrinkage=0)"].tolist() == pytest.approx([0, 0])
    assert any("shrunk by 1e-06 (Ledoit-Wolf)" in note for note in detectors.notes)
    assert any("2 directions without spread inside the classes left out" in note for note in detectors.notes)


def test_directions_without_spread_are_left_out_wherever_they_point() -> None:
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    flat, labels = rng.normal(size=(40, 4)), np.arange(40) % 2
    whole = np.column_stack([flat, np.ones((40, 2))]) @ turn
    items = rng.normal(size=(5, 4))
    wanted = fit(flat, labels, scores=["mahalanobis(shrinkage=0)"]).score(items)
    detectors = fit(whole, labels, scores=["mahalanobis(shrinkage=0)"])
    found = detectors.score(np.column_stack([items, np.full((5, 2), 9.0)]) @ turn)
    np.testing.assert_allclose(found["mahalanobis(shrinkage=0)"], wanted["mahalanobis(shrinkage=0)"], rtol=1e-8)
    assert "2 directions without spread inside the classes left out" in detectors.notes[1]


def test_one_item_a_class_gives_euclidean_distances() -> None:
    features = np.array([[2.0, 0], [0, 2]])  # variances 1 and 1
    detectors = fit(features, [0, 1], scores=["mahalanobis", "relative_mahalanobis"])
    found = detectors.score([[2.0, 1], [0, 0]])
    assert found["mahalanobis"].tolist() == pytest.approx([-1, -4])
    assert all("no spread inside the classes (every class has one item)" in note for note in detectors.notes)


def test_one_point_alone() -> None:
    detectors = fit(np.ones((3, 2)), [0, 0, 0], scores=["mahalanobis"])
    assert detectors.score([[1.0, 1], [1, 3]])["mahalanobis"].tolist() == pytest.approx([0, -4])


def test_some_classes_of_one_item_are_reported() -> None:
    features = np.random.default_rng(0).normal(size=(8, 3))
    notes = fit(features, [0, 0, 0, 0, 0, 1, 2, 2], scores=["mahalanobis"]).notes
    assert "mahalanobis: 1 classes have one item and add nothing to the covariance inside the classes" in notes


def test_more_dimensions_than_items() -> None:
    problem = Problem(n=12, d=40)
    np.testing.assert_allclose(problem.score("mahalanobis"), Slow(problem).mahalanobis(), rtol=1e-8)


# -- neighbours -----------------------------------------------------------------------------------------------


@steady
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 5),
    columns=st.integers(1, 400),
    k=st.integers(1, 60),
    values=st.sampled_from([3, 1000]),
)
def test_the_largest_of_each_row(seed: int, rows: int, columns: int, k: int, values: int) -> None:
    table = np.random.default_rng(seed).integers(0, values, (rows, columns)).astype(np.float32)
    found = np.sort(largest(table.copy(), k), axis=1)
    assert np.array_equal(found, np.sort(table, axis=1)[:, -k:])


def test_features_of_zeros_have_a_distance() -> None:
    bank = np.array([[0.0, 0], [0, 0], [3, 0], [0, 5]])
    found = fit(bank, [0, 0, 1, 1], scores=["knn(k=1)", "knn(k=3)"]).score([[0.0, 0], [2, 0], [-1, 0]])
    assert found["knn(k=1)"].tolist() == pytest.approx([0, 0, -1])  # zeros are 0 apart, and 1 from any direction
    assert found["knn(k=3)"].tolist() == pytest.approx([-1, -1, -2])


def test_an_item_of_the_bank_is_at_distance_zero() -> None:
    problem = Problem()
    problem.items = problem.features
    found = problem.score("knn(k=1)")
    assert (found <= 0).all()
    np.testing.assert_allclose(found, 0, atol=1e-14)


def test_short_distances_are_computed_in_float64() -> None:
    rng = np.random.default_rng(0)
    bank = 1 + 1e-5 * rng.normal(size=(200, 16))
    items = 1 + 1e-5 * rng.normal(size=(30, 16))
    exact = [sorted(((x - z) ** 2).sum() for z in _rows(bank))[9] for x in _rows(items)]
    np.testing.assert_allclose(Bank(bank).kth_squared(items, 10), exact, rtol=1e-4)
    assert max(exact) < 1e-8  # a hundredth of what single precision can tell apart


def test_neighbours_never_make_the_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ood_neighbours, "_BANK_ROWS", 4096)
    rng = np.random.default_rng(0)
    features, items = (rng.normal(size=(n, 4)).astype(np.float32) for n in (20000, 3000))
    detectors = fit(features, np.zeros(20000, int), scores=["knn"])
    tracemalloc.start()
    detectors.score(items)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6  # the table would have 240 MB


# -- defaults for small sets ----------------------------------------------------------------------------------


def test_defaults_for_large_sets_need_no_note() -> None:
    problem = Problem(n=400, d=7)
    assert problem.notes("knn") == ""
    np.testing.assert_allclose(problem.score("knn"), Slow(problem).knn(50), rtol=1e-5)


def test_fewer_labels_than_classes_leave_one_neighbour() -> None:
    assert "knn: k = 1" in "\n".join(fit(np.eye(3), [0, 1, 2], scores=["knn"]).notes)


@pytest.mark.parametrize(("d", "directions"), [(2, 1), (3, 1), (767, 383), (768, 512), (2047, 512), (2048, 1000)])
def test_directions_of_vim(d: int, directions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    monkeypatch.setattr(ood_scores, "_principal", lambda matrix: kept.append(len(matrix)) or np.ones((d, d)))
    monkeypatch.setattr(ood_scores, "_below", lambda dimensions, d: kept.append(dimensions) or dimensions)
    fit(np.ones((2, d)) * [[1], [2]], [0, 1], weight=np.ones((2, d)), scores=["vim"])
    assert directions in kept


@pytest.mark.parametrize(("classes", "note"), [(9, "3 dimensions instead of 8"), (1, "1 dimensions instead of 0")])
def test_directions_of_neco_in_few_dimensions(classes: int, note: str) -> None:
    rng = np.random.default_rng(0)
    detectors = fit(rng.normal(size=(18, 4)), np.arange(18) % classes, scores=["neco"])
    assert note in detectors.notes[0]


def test_a_dimension_that_never_moves_is_only_centred() -> None:
    problem = Problem()
    problem.features[:, 2] = 5.0
    np.testing.assert_allclose(problem.score("neco"), Slow(problem).neco(4), rtol=1e-9)


def test_the_origin_of_vim_is_not_made_of_rounding() -> None:
    """A collapsed head's rows sum to 0; in single precision almost, and the last digit must not be inverted."""
    problem = Problem()
    problem.weight -= problem.weight.mean(axis=0)
    problem.bias += 3
    wanted = problem.score("vim")
    problem.weight = problem.weight.astype(np.float32)
    np.testing.assert_allclose(problem.score("vim"), wanted, rtol=1e-4, atol=1e-4)


def test_vim_says_when_a_residual_speaks_for_an_item() -> None:
    problem = Problem()
    problem.weight = np.zeros((6, 7))
    problem.bias = np.full(6, -2.0)
    assert "the mean largest logit is -2, so that a residual speaks for an item" in problem.notes("vim")


# -- what cannot be used --------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["vim", "nci"])
def test_a_missing_head(spec: str) -> None:
    problem = Problem()
    with pytest.raises(MissingEvidence, match=r"vim and nci need the last layer: pass weight= \(classes, d\)"):
        fit(problem.features, problem.labels, scores=[spec])


@pytest.mark.parametrize("spec", ["msp", "max_logit", "energy", "neco(max_logit=True)"])
def test_missing_logits(spec: str) -> None:
    problem = Problem()
    detectors = fit(problem.features, problem.labels, scores=[spec])
    with pytest.raises(MissingEvidence, match="need logits: pass weight= and bias= when fitting, or give each set as"):
        detectors.score(problem.items)


def test_a_typo_names_the_nearest() -> None:
    problem = Problem()
    with pytest.raises(UnknownName, match=r"no OOD score 'mahalanobs'\. Did you mean 'mahalanobis'"):
        fit(problem.features, problem.labels, scores=["mahalanobs"])
    with pytest.raises(UnknownName, match="no option of OOD score 'knn' called 'kk'"):
        fit(problem.features, problem.labels, scores=["knn(kk=3)"])


def test_no_scores() -> None:
    with pytest.raises(BadInput, match="no scores given; choose among msp, "):
        fit(np.eye(2), [0, 1], scores=[])


def test_one_score_as_a_text() -> None:
    assert list(fit(np.eye(2), [0, 1], scores="knn").fitted) == ["knn"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("knn(k=0)", "k must be a whole number from 1 to 90, the number of labelled items; got 0"),
        ("knn(k=91)", "k must be a whole number from 1 to 90"),
        ("knn(k=2.0)", "k must be a whole number"),
        ("knn(k=True)", "k must be a whole number"),
        ("vim(dimensions=7)", "dimensions must be a whole number from 1 to 6, the number of dimensions less 1; got 7"),
        ("vim(dimensions=0)", "dimensions must be a whole number from 1 to 6"),
        ("vim(alpha=much)", "alpha must be a number, got 'much'"),
        ("neco(dimensions=7)", "dimensions must be a whole number from 1 to 6"),
        ("nci(alpha=1e999)", "alpha must be a number, got inf"),
        ("energy(temperature=0)", "temperature must be more than 0, got 0"),
        ("msp(temperature=-1)", "temperature must be more than 0, got -1"),
        ("msp(temperature=True)", "temperature must be a number, got True"),
        ("mahalanobis(shrinkage=1.5)", r"shrinkage must be 'auto' \(Ledoit-Wolf\) or a number from 0 to 1, got 1.5"),
        ("mahalanobis(shrinkage=some)", "shrinkage must be 'auto'"),
        ("relative_mahalanobis(shrinkage=-0.1)", "shrinkage must be 'auto'"),
    ],
)
def test_options_that_cannot_be(spec: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Problem().score(spec)


@pytest.mark.parametrize("spec", ["vim", "neco"])
def test_one_dimension_has_no_subspace(spec: str) -> None:
    with pytest.raises(BadInput, match="vim and neco need features of 2 dimensions or more, got 1"):
        fit(np.ones((3, 1)), [0, 1, 1], weight=np.ones((2, 1)), scores=[spec])


def test_nan_is_counted_and_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ood_covariance, "BLOCK_BYTES", 8 * 7 * 10)
    problem = Problem()
    detectors = fit(problem.features, problem.labels, scores=["knn"])
    problem.features[[31, 70], [4, 2]] = np.nan, np.inf
    with pytest.raises(NotFinite, match=r"labelled features: 2 values are NaN or infinite, the first at \[31, 4\]"):
        fit(problem.features, problem.labels, scores=["knn"])
    problem.items[12, 0] = -np.inf
    with pytest.raises(NotFinite, match=r"features of svhn: 1 values are NaN or infinite, the first at \[12, 0\]"):
        detectors.score(problem.items, what="svhn")
    problem.bias[3] = np.nan
    with pytest.raises(NotFinite, match=r"bias: 1 values are NaN or infinite, the first at \[3\]"):
        fit(np.eye(7)[:6], np.arange(6), weight=problem.weight, bias=problem.bias)


def test_halves_whose_sum_is_too_large_are_fine() -> None:
    features = np.full((40, 3), 60000, np.float16) * np.eye(3, dtype=np.float16)[np.arange(40) % 3]
    found = fit(features, np.arange(40) % 3, scores=["knn"]).score(features)["knn"]
    np.testing.assert_allclose(found, 0, atol=1e-12)


def test_features_too_large_to_be_squared() -> None:
    detectors = fit(np.eye(3), [0, 1, 1], scores=["mahalanobis"])
    with pytest.raises(NotFinite, match="mahalanobis of items: 1 scores are NaN or infinite, the first of item 1"):
        detectors.score([[1.0, 0, 0], [1e200, 0, 0]])


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (np.ones((4, 6)), "features of items have 6 dimensions, those of the labelled set 7; take both from the same"),
        (np.ones((0, 7)), "items: no items; a set needs at least one"),
        (np.ones((4, 7, 1)), r"features of items must have shape \(items, d\), got \(4, 7, 1\)"),
        (np.ones((4, 0)), r"features of items must have shape \(items, d\), got \(4, 0\)"),
        (5.0, r"features of items must be an array of numbers, got float64 of shape \(\)"),
        ([["a"]], "features of items must be an array of numbers, got <U1"),
        ([[1.0], [1.0, 2.0]], "features of items cannot be made an array"),
    ],
)
def test_items_that_cannot_be_scored(items: Any, message: str) -> None:
    problem = Problem()
    with pytest.raises(BadInput, match=message):
        fit(problem.features, problem.labels, scores=["knn"]).score(items)


@pytest.mark.parametrize("shape", [(25, 5), (24, 6), (25,)])
def test_logits_of_another_shape(shape: tuple[int, ...]) -> None:
    problem = Problem()
    detectors = fit(problem.features, problem.labels, weight=problem.weight, scores=["msp"])
    with pytest.raises(BadInput, match=r"logits of items must have shape \(25, 6\), a row an item; got"):
        detectors.score(problem.items, np.ones(shape))
    headless = fit(problem.features, problem.labels, scores=["msp"])
    if shape != (25, 5):
        with pytest.raises(BadInput, match=r"logits of items must have shape \(25, classes\), a row an item; got"):
            headless.score(problem.items, np.ones(shape))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"features": np.ones((0, 3)), "labels": np.zeros(0, int)}, "no labelled items"),
        ({"labels": [0, 1, 1]}, r"4 labelled features need as many labels, whole numbers; got int64 of \(3,\)"),
        ({"labels": [0.0, 1.0, 1.0, 0.0]}, "got float64"),
        ({"labels": [0, 1, 2, -1]}, r"labels must lie in 0..2, got -1..2 \(1 outside\)"),
        ({"weight": np.ones((2, 3))}, r"labels must lie in 0..1, got 0..2 \(1 outside\); leave out items without"),
        ({"classes": 2}, r"labels must lie in 0..1, got 0..2"),
        ({"classes": 0}, "classes must be a whole number from 1 on, got 0"),
        ({"classes": 2.5}, "classes must be a whole number from 1 on, got 2.5"),
        ({"classes": 4, "weight": np.ones((3, 3))}, "weight has 3 rows, one a class, but classes = 4"),
        ({"weight": np.ones((3, 4))}, r"weight must have shape \(classes, 3\), a row a class .* got \(3, 4\)"),
        ({"weight": np.ones(3)}, r"weight must have shape \(classes, 3\)"),
        ({"weight": np.ones((0, 3))}, r"weight must have shape \(classes, 3\)"),
        ({"weight": np.ones((3, 3)), "bias": np.ones(2)}, r"bias must have shape \(3,\), one number a class; got"),
        ({"bias": np.ones(3)}, "a bias without weights"),
    ],
)
def test_a_labelled_set_that_cannot_be(given: dict[str, Any], message: str) -> None:
    whole = {"features": np.arange(12.0).reshape(4, 3), "labels": [0, 1, 2, 0], "scores": ["knn"], **given}
    with pytest.raises(BadInput, match=message):
        fit(**whole)
