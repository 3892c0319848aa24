"""Strategies and selectors by name: one decorator adds one, clashes and undeclared reads are errors."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from ncalr.acquire import Evidence, Strategy, add, registry, resolve, selector, selectors, strategies, strategy
from ncalr.acquire.query import query
from ncalr.acquire.registry import Bound, bind, options_of
from ncalr.acquire.spec import Spec, parse
from ncalr.errors import BadInput, MissingEvidence, NotFinite, UnknownName
from ncalr.types import Selection

pytestmark = pytest.mark.usefixtures("one_thread")

PROBS = np.array([[0.9, 0.1], [0.6, 0.4], [0.5, 0.5], [0.7, 0.3]])


@pytest.fixture(autouse=True)
def registries(monkeypatch):
    """Whatever a test registers is gone after it."""
    strategies()
    monkeypatch.setattr(registry, "_STRATEGIES", dict(registry._STRATEGIES))
    monkeypatch.setattr(registry, "_SELECTORS", dict(registry._SELECTORS))


# -- a strategy of one's own -----------------------------------------------------------------------------------


def test_one_decorator_adds_a_strategy(backend):
    @strategy("doubt", needs={"outputs"}, rowwise=True, cites="us", cost="one pass")
    def doubt(evidence, *, power=1.0):
        """Doubt: the margin to some power."""
        outputs = evidence["outputs"]
        return evidence.backend.uncertainty(outputs.values, "margin", outputs.are_logits) ** power

    picks = query("doubt", 4, probs=PROBS)
    assert picks.ids.tolist() == [2, 1, 3, 0]
    np.testing.assert_allclose(query("doubt(power=2)", 4, probs=PROBS).scores, picks.scores**2)
    assert query("doubt", 1, probs=PROBS, power=-1.0).ids.tolist() == [0]
    assert strategies()["doubt"].summary == "Doubt: the margin to some power."
    assert strategies()["doubt"].options == {"power": 1.0}
    assert list(picks.parts) == ["doubt"]
    with pytest.raises(UnknownName, match="'doubt' called 'powr'"):
        query("doubt(powr=2)", 1, probs=PROBS)


def test_parts_and_their_fusion(backend):
    def worst(parts, backend, *, weight=1.0):
        return weight * backend.xp.minimum(parts["high"], parts["low"])

    @strategy("both", needs={"features"}, fuse=worst)
    def both(evidence, *, shift=0.0):
        features = evidence["features"]
        return {"high": features[:, 0] + shift, "low": features[:, 1]}

    features = np.array([[1.0, 5], [3, 2], [0, 9]])
    picks = query("both(weight=2, shift=1)", 3, features=features)
    assert picks.ids.tolist() == [0, 1, 2] or picks.ids.tolist() == [1, 0, 2]
    assert picks.scores.tolist() == [4, 4, 2]
    assert sorted(picks.parts) == ["high", "low"]
    assert strategies()["both"].options == {"shift": 0.0, "weight": 1.0}


def test_a_strategy_that_only_selects():
    add("spread", None, needs={"features"}, select="k_center", summary="Far apart.")
    assert query("spread", 2, features=np.array([[0.0], [1], [9]])).ids.tolist() != []
    assert strategies()["spread"].summary == "Far apart."


def test_a_selector_without_values_over_a_strategy_without_scores_reports_zeros():
    @selector("head")
    def head(scored, evidence, k, lottery):
        """The first k."""
        return Selection(np.arange(k))

    picks = query("coreset(select=head)", 2, features=np.eye(3))
    assert picks.ids.tolist() == [0, 1]
    assert picks.scores.tolist() == [0, 0]
    assert selectors()["head"].summary == "The first k."


def test_a_strategy_object_needs_no_registry():
    def first(evidence):
        return evidence["features"][:, 0]

    mine = Strategy("mine", frozenset({"features"}), first, "The first feature.")
    features = np.array([[1.0], [3], [2]])
    picks = query(mine, 3, features=features)
    assert picks.ids.tolist() == [1, 2, 0]
    assert picks.strategy == "mine"
    assert query(mine, 1, features=features, select="stochastic_top_k(coldness=1e9)").ids.tolist() == [1]
    assert "mine" not in strategies()


def test_a_rowwise_strategy_sees_chunks_and_a_whole_one_does_not(monkeypatch):
    sizes = {"rows": [], "whole": []}

    def watch(name, rowwise):
        @strategy(name, needs={"features"}, rowwise=rowwise)
        def score(evidence):
            sizes[name].append(evidence.n)
            return evidence["features"][:, 0]

    watch("rows", True)
    watch("whole", False)
    monkeypatch.setattr("ncalr.kernels.host.Host.chunk_bytes", 1)
    features = np.random.default_rng(0).normal(size=(2500, 2))
    assert query("rows", 5, features=features).ids.tolist() == query("whole", 5, features=features).ids.tolist()
    assert sizes == {"rows": [1024, 1024, 452], "whole": [2500]}


def test_scores_that_are_not_finite_are_an_error():
    @strategy("broken", needs={"features"})
    def broken(evidence):
        return np.where(np.arange(evidence.n) == 2, np.nan, 0.0)

    with pytest.raises(NotFinite, match=r"'broken' gave 1 scores \(broken\) that are not finite, the first for item 2"):
        query("broken", 1, features=np.ones((4, 1)))


# -- evidence must be declared ---------------------------------------------------------------------------------


def test_scores_of_another_shape_are_an_error():
    @strategy("wide", needs={"outputs"}, rowwise=True)
    def wide(evidence):
        return evidence["outputs"].values

    with pytest.raises(BadInput, match=r"'wide' must return one number an item, .*\(4,\); wide has shape \(4, 2\)"):
        query("wide", 1, probs=PROBS)


def test_evidence_that_there_is_none_of_is_an_error():
    with pytest.raises(UnknownName, match=r"strategy 'odd' could need called 'feature'\. Did you mean 'features'"):
        add("odd", None, needs={"feature"})


def test_reading_what_was_not_declared_is_an_error():
    @strategy("sly", needs={"features"})
    def sly(evidence):
        return evidence["logits"][:, 0]

    with pytest.raises(MissingEvidence, match="read 'logits', which it did not declare; add it to its needs or wants"):
        query("sly", 1, features=np.eye(3), logits=np.eye(3))


def test_a_selector_too_reads_only_what_it_declared():
    @selector("sly", needs={"predictions"})
    def sly(scored, evidence, k, lottery):
        return Selection(evidence["features"][:k])

    with pytest.raises(MissingEvidence, match="read 'features', which it did not declare"):
        query("margin", 1, probs=PROBS, features=np.eye(4), select="sly")


def test_what_is_wanted_is_read_where_given():
    seen = []

    @strategy("greedy", needs={"features"}, wants={"outputs"})
    def greedy(evidence):
        seen.append("outputs" in evidence)
        return evidence["features"][:, 0]

    query("greedy", 1, features=np.eye(4))
    query("greedy", 1, features=np.eye(4), probs=PROBS)
    assert seen == [False, True]


def test_evidence_that_was_not_given_is_an_error(backend):
    pool = Evidence({}, backend, 3, 0)
    with pytest.raises(MissingEvidence, match="no features were given; pass features="):
        pool["features"]


def test_a_score_may_share_work_between_its_chunks(monkeypatch):
    made = []

    @strategy("sharing", needs={"features"}, rowwise=True)
    def sharing(evidence):
        offset = evidence.once("offset", lambda: made.append(1) or 5.0)
        return evidence["features"][:, 0] + offset

    monkeypatch.setattr("ncalr.kernels.host.Host.chunk_bytes", 1)
    query("sharing", 1, features=np.ones((5000, 2)))
    assert made == [1]


# -- names -----------------------------------------------------------------------------------------------------


def test_two_strategies_of_one_name_are_an_error():
    with pytest.raises(BadInput, match="there is a strategy 'ncal' already; choose another name"):

        @strategy("ncal", needs={"features"})
        def mine(evidence):
            return evidence["features"][:, 0]

    assert strategies()["ncal"].cites == "Goel et al. 2025"


def test_the_same_function_may_register_again():
    score = strategies()["margin"].score
    again = add("margin", score, needs={"outputs"}, rowwise=True)
    assert again.score is score


def test_a_clash_of_strategies_that_only_select_is_an_error():
    with pytest.raises(BadInput, match="there is a strategy 'coreset' already"):
        add("coreset", None, needs={"features"}, select="kmeans_pp")


def test_two_selectors_of_one_name_are_an_error():
    with pytest.raises(BadInput, match="top_k"):

        @selector("top_k")
        def mine(scored, evidence, k, lottery):
            return Selection(np.arange(k))


def test_names_come_sorted():
    assert list(strategies()) == sorted(strategies())
    assert list(selectors()) == sorted(selectors())
    assert {"ncal", "random", "coreset", "cdal", "badge", "sisome"} <= set(strategies())


def test_every_strategy_is_described():
    for name, made in strategies().items():
        assert made.name == name
        assert made.summary.endswith(".")
        assert made.cost
        assert made.cites or name == "random"
        bind(made.select)


# -- entry points ----------------------------------------------------------------------------------------------


class Entry:
    """An entry point of another package."""

    def load(self):
        @strategy("theirs", needs={"features"})
        def theirs(evidence):
            """Theirs."""
            return evidence["features"][:, 0]


def test_entry_points_of_other_packages_are_loaded(monkeypatch):
    asked = []
    monkeypatch.setattr(registry, "entry_points", lambda group: asked.append(group) or [Entry()])
    registry._load.cache_clear()
    try:
        assert query("theirs", 1, features=np.array([[1.0], [2.0]])).ids.tolist() == [1]
        assert asked == ["ncalr.strategies"]
        strategies()
        assert asked == ["ncalr.strategies"]  # once
    finally:
        registry._load.cache_clear()


def test_a_broken_package_stops_no_other(monkeypatch):
    class Broken:
        dist, value = None, "acme_al"

        def load(self):
            raise ModuleNotFoundError("No module named 'acme_al'")

    monkeypatch.setattr(registry, "entry_points", lambda group: [Broken(), Entry()])
    registry._load.cache_clear()
    try:
        with pytest.warns(UserWarning, match=r"acme_al are left out: .*No module named 'acme_al'.*uninstall"):
            assert {"margin", "theirs"} <= strategies().keys()
    finally:
        registry._load.cache_clear()


# -- files and cells of one's own ------------------------------------------------------------------------------

MINE = """
import ncalr

@ncalr.strategy("{name}", needs={{"features"}})
def mine(evidence):
    "Mine."
    return evidence["features"][:, 0]
"""


@pytest.fixture
def files(monkeypatch, tmp_path):
    """Name these files; what they register goes with the test."""
    monkeypatch.setattr(registry, "_STRATEGIES", dict(strategies()))

    def name(*paths):
        monkeypatch.setenv("NCALR_STRATEGIES", os.pathsep.join(map(str, paths)))
        registry._load.cache_clear()

    yield name
    monkeypatch.delenv("NCALR_STRATEGIES", raising=False)
    registry._load.cache_clear()


def test_files_with_strategies_are_loaded_by_name(files, tmp_path):
    (tmp_path / "one_of_mine.py").write_text(MINE.format(name="mine_one"))
    (tmp_path / "two_of_mine.py").write_text(MINE.format(name="mine_two"))
    files(tmp_path / "one_of_mine.py", tmp_path / "two_of_mine.py")
    assert query("mine_one", 1, features=np.array([[1.0], [2.0]])).ids.tolist() == [1]
    assert strategies()["mine_two"].summary == "Mine."


def test_a_file_with_strategies_is_a_module_as_others_are(files, tmp_path):
    """A dataclass looks for its module by name."""
    head = "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    a: int\n"
    (tmp_path / "class_of_mine.py").write_text(head + MINE.format(name="mine_class"))
    files(tmp_path / "class_of_mine.py")
    assert strategies()["mine_class"].score is sys.modules["class_of_mine"].mine
    files(tmp_path / "class_of_mine.py")
    assert strategies()["mine_class"].score is sys.modules["class_of_mine"].mine, "not loaded twice"


def test_a_script_with_strategies_may_be_named_too(tmp_path):
    """The variable stays exported while the file that it names is run."""
    path = tmp_path / "script_of_mine.py"
    path.write_text(MINE.format(name="mine_script") + "\nprint(ncalr.strategies()['mine_script'].score is mine)")
    named = {**os.environ, "NCALR_STRATEGIES": str(path)}
    done = subprocess.run([sys.executable, path], env=named, capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


def test_a_file_that_cannot_be_loaded_is_named(files, tmp_path):
    (tmp_path / "broken_of_mine.py").write_text("1 / 0")
    files(tmp_path / "broken_of_mine.py")
    for _ in range(2):  # it is not taken for loaded
        with pytest.raises(BadInput, match=r"NCALR_STRATEGIES: .*broken_of_mine\.py cannot be loaded \(ZeroDivision"):
            strategies()
    files(tmp_path / "no_such.py")
    with pytest.raises(BadInput, match=r"no_such\.py, expected a Python file with strategies"):
        strategies()
    files()
    with pytest.raises(UnknownName, match=r"one of your own: NCALR_STRATEGIES=FILE\.py"):
        resolve("mine_three")


def test_a_cell_that_is_run_again_replaces_its_strategy(files):
    cell = MINE.format(name="mine_cell")
    space = {"__name__": "notebook"}
    exec(cell, space)
    exec(cell.replace("[:, 0]", "[:, 0] * -1"), space)
    assert query("mine_cell", 1, features=np.array([[1.0], [2.0]])).ids.tolist() == [0]
    with pytest.raises(BadInput, match="there is a strategy 'mine_cell' already"):
        exec(cell, {"__name__": "elsewhere"})
    with pytest.raises(BadInput, match="there is a strategy 'margin' already"):
        exec(MINE.format(name="margin"), space)


# -- plans -----------------------------------------------------------------------------------------------------


def test_options_given_apart_come_on_top_of_the_spec():
    plan = resolve("ncal(fusion=rank, sign=-1)", {"sign": 1})
    assert plan.options == {"fusion": "rank", "sign": 1}
    assert str(plan.spec) == "ncal(fusion=rank, sign=1)"
    assert resolve(parse("ncal")).select.selector.name == "top_k"


def test_a_plan_needs_what_its_halves_need():
    plan = resolve("margin(select=filtered(then=k_center))")
    assert plan.needs == {"outputs", "features"}
    assert plan.wants == {"labelled_features"}


def test_a_selector_may_be_given_bound_or_as_a_spec():
    bound = bind(Spec("quota", {"cap": 3}))
    assert isinstance(bound, Bound)
    assert bind(bound) is bound
    features = np.eye(4)
    for select in ("k_center", Spec("k_center"), bind("k_center")):
        assert len(query("margin", 2, probs=PROBS, features=features, select=select)) == 2


def test_options_are_the_keywords_after_the_star():
    def function(a, b=1, *, c=2, d="x"):
        return a, b, c, d

    assert options_of(function) == {"c": 2, "d": "x"}
    assert options_of(None) == {}


def test_options_a_strategy_does_not_have_go_to_its_selector():
    plan = resolve("probcover(radius=0.5)")
    assert plan.select.options == {"kernel": "ball", "radius": 0.5}
    assert plan.options == {}
    mixed = resolve("ncal", {"fusion": "rank", "multiple": 2, "select": "filtered"})
    assert mixed.options == {"fusion": "rank"}
    assert mixed.select.options == {"multiple": 2}
    with pytest.raises(UnknownName, match="Did you mean 'radius'"):
        resolve("probcover(radus=0.5)")
