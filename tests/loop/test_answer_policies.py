"""Several answers an item: who is asked how often, what is learnt, and that a killed run ends the same."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from crowded import IDS, learner, people, plan, setting, world
from hypothesis import given
from hypothesis import strategies as st

from ncalr.errors import BadInput, UnknownName
from ncalr.loop.answers import Doubts, most_wanted, policy
from ncalr.loop.journal import Journal, without_times
from ncalr.loop.labels import agreed
from ncalr.loop.run import Plan, run
from ncalr.loop.state import State, replay
from ncalr.oracles import LATER, REFUSED, Annotators, Answers, Corrected, Refusing, Slow, Truth

POLICIES = (
    "votes(n=3)",
    "votes(n=2, method=crowdlab)",
    "votes(n=3, method=dawid_skene)",
    "doubts",
    "doubts(new=0.5)",
    "doubts(method=bayes)",
)
BUDGETS = (40, 80, 120, 160)
QUESTIONS = ("ids", "labels", "by", "again", "consensus", "temperature", "heard", "answers")


def lines_of(folder):
    return [without_times(line) for line in Journal(folder).lines()]


def second_opinions(line):
    return sum(len(call["ids"]) for call in line.get("again", []))


@pytest.fixture(scope="module", params=[(p, k) for p in POLICIES for k in ("people", "hesitant", "late")], ids=str)
def whole(request, tmp_path_factory):
    """A run that was never killed."""
    answers, kind = request.param
    folder = tmp_path_factory.mktemp("whole")
    state = run(plan(answers=answers), setting(kind), learner(), folder)
    return answers, kind, folder, state


@pytest.mark.filterwarnings("ignore:the last line")
@pytest.mark.parametrize("seed", range(4))
def test_cut_at_any_byte_it_ends_the_same(whole, tmp_path, seed):
    answers, kind, folder, _ = whole
    content = (folder / "journal.jsonl").read_bytes()
    (tmp_path / "journal.jsonl").write_bytes(content[: random.Random(seed).randrange(len(content) + 1)])
    state = run(plan(answers=answers), setting(kind), learner(), tmp_path)
    assert lines_of(tmp_path) == lines_of(folder)
    assert state == replay(Journal(tmp_path).lines())


def test_a_budget_counts_answers_and_nobody_is_asked_too_often(whole):
    answers, kind, folder, state = whole
    lines = lines_of(folder)
    cap = policy(answers).cap
    spent = [line["answers"] for line in lines if "answers" in line]
    assert spent == sorted(spent)
    assert spent[-1] == state.answers == BUDGETS[-1]
    if kind == "people":
        assert spent == list(BUDGETS)
    assert lines[-1]["stop"] == "budget"
    assert max(map(len, state.votes.values())) <= cap
    for said in state.votes.values():
        assert len({by for by, _ in said}) == len(said), "somebody was asked twice"
    assert list(state.votes) == list(state.labels)
    asked = Counter(item for ids in state.askings for item in ids)
    assert all(len(said) <= asked[item] for item, said in state.votes.items())


def test_answers_are_what_the_people_said(whole):
    _, kind, folder, _ = whole
    oracle = setting(kind).oracle
    for line in lines_of(folder):
        for call in (line, *line.get("again", [])):
            if call.get("ids"):
                said = oracle.answer(np.array(call["ids"]))
                assert said.labels.tolist() == call["labels"]
                by = [call["by"]] * len(said.by) if isinstance(call["by"], str) else call["by"]
                assert said.by.tolist() == by
                assert isinstance(call["by"], str) == (len(set(by)) == 1), "one name is written once"


def test_every_item_is_asked_about_n_times_and_the_rest_next_round(tmp_path):
    state = run(plan(answers="votes(n=3)"), setting(), learner(), tmp_path)
    lines = lines_of(tmp_path)
    assert [line["labelled"] for line in lines if "labelled" in line] == [14, 27, 40, 54]
    assert [len(line["ids"]) for line in lines if line.get("ids")] == [14, 13, 13, 14]
    assert Counter(map(len, state.votes.values())) == {3: 52, 2: 2}
    majority = {item: Counter(label for _, label in said).most_common(2) for item, said in state.votes.items()}
    for item, said in majority.items():
        if len(said) == 1 or said[0][1] > said[1][1]:
            assert state.labels[item] == said[0][0]


@pytest.mark.parametrize("strategy", ["random", "margin", "ncal", "badge", "coreset"])
@pytest.mark.parametrize("floors", [(0.3, 0.1), (0.1, 0.5), (0.8, 0.2)])
def test_floors_hold_over_every_strategy(tmp_path, strategy, floors):
    named = f"doubts(new={floors[0]}, again={floors[1]})"
    run(plan(answers=named, strategy=strategy, budgets=(40, 70, 100)), setting(), learner(), tmp_path)
    asked = [line for line in lines_of(tmp_path)[1:] if "ids" in line]
    assert len(asked) == 2
    for line in asked:
        new, again = len(line["ids"]), second_opinions(line)
        assert new + again == 30
        assert new >= floors[0] * 30
        assert again >= floors[1] * 30
        assert len(line["scores"]) == new


def test_new_items_are_the_strategys_own(tmp_path):
    """The same first labels and model: what doubts buys is the beginning of what the strategy alone would buy."""
    for name in ("single", "doubts"):
        run(plan(answers=name, strategy="margin", budgets=(40, 80)), setting(), learner(), tmp_path / name)
    alone, shared = (lines_of(tmp_path / name)[1] for name in ("single", "doubts"))
    assert 12 <= len(shared["ids"]) < 40
    assert shared["ids"] == alone["ids"][: len(shared["ids"])]


def test_second_opinions_go_where_model_and_answer_differ(tmp_path):
    """Of the first forty labels, those that are wrong are asked about again far more often than the others."""
    _, truth = world()
    wrong, asked = set(), set()
    for seed in range(4):
        folder = tmp_path / str(seed)
        oracle = setting(lambda t, seed=seed: Annotators(people(t, seed=seed)), first=80)
        run(plan(answers="doubts(again=0.5)", budgets=(80, 120), seed=seed), oracle, learner(), folder)
        first, then = lines_of(folder)[:2]
        wrong |= {(seed, i) for i, label in zip(first["ids"], first["labels"], strict=True) if label != truth[i - 1000]}
        asked |= {(seed, i) for i in then["again"][0]["ids"]}
    assert 0.2 < len(wrong) / 320 < 0.4
    assert len(wrong & asked) / len(asked) > 1.5 * len(wrong) / 320


@pytest.mark.parametrize("strategy", ["random", "ncal"])
def test_doubts_end_with_fewer_wrong_labels_than_single_answers(tmp_path, strategy):
    shares = {}
    for name in ("single", "votes(n=3)", "doubts"):
        for seed in range(3):
            work = setting(lambda t, seed=seed: Annotators(people(t, seed=seed)), first=80, seed=seed)
            folder = tmp_path / f"{name}-{seed}"
            given = plan(answers=name, strategy=strategy, budgets=(80, 160, 240, 320), seed=seed)
            state = run(given, work, learner(), folder)
            truth = world(seed)[1]
            shares.setdefault(name, []).append(np.mean([label != truth[i - 1000] for i, label in state.labels.items()]))
            assert len(state.labels if name == "single" else [v for s in state.votes.values() for v in s]) == 320
    single, doubted = np.array(shares["single"]), np.array(shares["doubts"])
    assert (doubted < single - 0.05).all(), shares
    assert doubted.mean() < 0.6 * single.mean()


def test_two_annotators_who_always_disagree(tmp_path):
    """Votes say nothing then; labels are still one of the two answers, at random or by the model, and the run ends."""

    def opposed(truth):
        return Annotators({"ann": truth, "eve": Truth(truth.ids, (truth.labels + 1) % 4, 4)})

    for name in ("votes(n=2)", "doubts(most=2, again=0.5)"):
        state = run(plan(answers=name), setting(opposed), learner(), tmp_path / name)
        twice = {item: [label for _, label in said] for item, said in state.votes.items() if len(said) == 2}
        assert len(twice) > 20
        assert all(a != b for a, b in twice.values())
        assert state.answers == 160
        if name.startswith("votes"):
            assert all(state.labels[item] in said for item, said in twice.items())
            share = np.mean([state.labels[item] == said[0] for item, said in twice.items()])
            assert 0.25 < share < 0.75, "ties fall to both sides"


def test_an_annotator_who_gives_one_class_only(tmp_path):
    work = setting(lambda truth: Annotators({"ann": truth, "one": Truth(truth.ids, np.full(600, 2), 4), "bob": truth}))
    state = run(plan(answers="votes(n=3)"), work, learner(), tmp_path)
    whole = {item: said for item, said in state.votes.items() if len(said) == 3}
    assert all(state.labels[item] == world()[1][item - 1000] for item in whole)


def test_a_refused_second_opinion_leaves_the_label_and_is_not_wanted_again(tmp_path):
    work = setting(lambda truth: Annotators({"ann": truth, "shy": Refusing(truth, 1.0)}))
    state = run(plan(answers="doubts", budgets=(40, 60, 80)), work, learner(), tmp_path)
    assert state.settled
    assert not state.refused
    assert state.answers == len(state.labels) == 80
    asked = Counter(item for ids in state.askings for item in ids)
    assert max(asked.values()) == 2
    assert all(asked[item] == 2 for item in state.settled)


def test_when_everything_was_asked_the_run_ends(tmp_path):
    items, truth = world()
    from ncalr.data import ArrayPool

    ids = IDS[:30]
    oracle = Annotators(people(Truth(ids, truth[:30], 4)))
    work = replace(setting(), pool=ArrayPool(items[:30], ids=ids), oracle=oracle, first=ids[:20].tolist())
    for name, most in (("votes(n=2)", 2), ("doubts", 3)):
        state = run(plan(answers=name, budgets=(20, 60, 500)), work, learner(), tmp_path / name)
        assert state.ended == "nothing left to ask"
        assert [len(said) for said in state.votes.values()] == [most] * 30
        assert state.answers == 30 * most


def test_first_answers_that_are_all_late_are_asked_for_again(tmp_path):
    work = setting(lambda truth: Slow(Annotators(people(truth, (0.1,) * 4))))
    state = run(plan(answers="votes(n=2)"), work, learner(), tmp_path)
    lines = lines_of(tmp_path)
    assert lines[0]["labels"] == [LATER] * 20
    assert lines[1]["ids"] == lines[0]["ids"]
    assert second_opinions(lines[1]) == 20
    assert state.answers == 160


def test_a_review_takes_the_place_of_all_answers(tmp_path):
    """The reviewer's word is the last, and is not undone by what was said before it."""

    def reviewed(truth):
        return Corrected(Annotators(people(truth)), truth, rate=0.5, after=1, seed=5)

    state = run(plan(answers="votes(n=3)"), setting(reviewed), learner(), tmp_path)
    lines = lines_of(tmp_path)
    changed = {item for line in lines for item in line.get("changes", {}).get("ids", [])}
    assert changed
    for item in changed:
        assert ("truth", world()[1][item - 1000]) in state.votes[item]
    once = [line["changes"]["ids"] for line in lines if "changes" in line]
    assert max(Counter(item for ids in once for item in ids).values()) <= 2
    assert replay(Journal(tmp_path).lines()) == state


class Noting:
    """The small learner, which cannot learn distributions: it notes them and learns the labels."""

    def __init__(self):
        self.learner, self.soft = learner(), []

    def fit(self, job):
        self.soft.append(job.soft)
        return self.learner.fit(replace(job, soft=None))


@pytest.mark.parametrize("answers", ["votes(n=3, soft=True)", "doubts(soft=True)"])
def test_soft_targets_are_the_posterior_and_are_in_the_journal(tmp_path, answers):
    one, two = Noting(), Noting()
    state = run(plan(answers=answers), setting(), one, tmp_path / "whole")
    for number, soft in enumerate(one.soft, 1):
        labels = [*replay(Journal(tmp_path / "whole").lines()[:number]).labels.values()]
        assert soft.shape == (len(labels), 4)
        assert soft.sum(axis=1) == pytest.approx(1)
        assert (soft.argmax(axis=1) == labels).mean() > 0.8  # but for ties
    shares = one.soft[0]
    item = next(i for i, said in enumerate(state.votes.values()) if len({label for _, label in said[:3]}) == 2)
    if answers.startswith("votes"):
        assert sorted(shares[item].round(2)) == [0, 0, 0.33, 0.67]
    lines = (tmp_path / "whole" / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "journal.jsonl").write_bytes(b"".join(lines[:3]))
    run(plan(answers=answers), setting(), two, tmp_path / "cut")
    assert lines_of(tmp_path / "cut") == lines_of(tmp_path / "whole")
    assert all(np.array_equal(a, b) for a, b in zip(one.soft[2:], two.soft, strict=True))


def test_one_answer_an_item_is_written_as_it_always_was(tmp_path):
    given = Plan("random", (40, 60), classes=4)
    assert "answers" not in given.as_dict()
    assert Plan("random", (40, 60), answers="doubts").as_dict()["answers"] == "doubts"
    run(given, setting(), learner(), tmp_path)
    for line in lines_of(tmp_path):
        assert not set(line) & set(QUESTIONS[3:])
    assert list(lines_of(tmp_path)[0]) == ["round", "ids", "labels", "by"]
    assert json.loads((tmp_path / "experiment.json").read_text()).keys() == given.as_dict().keys()


def test_one_answer_each_by_votes_is_single_but_for_the_count(tmp_path):
    for name in ("single", "votes(n=1)"):
        run(plan(answers=name), setting(), learner(), tmp_path / name)
    assert lines_of(tmp_path / "single") == lines_of(tmp_path / "votes(n=1)")


def test_state_by_hand():
    state = State()
    state.take({"round": 0, "ids": [1, 2, 3], "labels": [0, REFUSED, 1], "by": ["a", "a", "b"]})
    assert state.votes == {1: [("a", 0)], 3: [("b", 1)]}
    again = [{"ids": [1, 3], "labels": [2, REFUSED], "by": ["b", ""]}, {"ids": [1], "labels": [LATER], "by": "c"}]
    line = {"round": 1, "ids": [4], "labels": [3], "by": "a", "again": again, "consensus": {"ids": [1], "labels": [2]}}
    assert state.after(line).labels == {1: 2, 3: 1, 4: 3}
    assert state.labels == {1: 0, 3: 1}
    assert state.votes[1] == [("a", 0)]
    state.take(line)
    assert state.votes == {1: [("a", 0), ("b", 2)], 3: [("b", 1)], 4: [("a", 3)]}
    assert state.answers == 4
    assert state.answered == {1: 2, 3: 1, 4: 3, 2: REFUSED}
    assert state.settled == {3}
    assert state.open_again(3) == [1, 4]
    assert state.open_again(2) == [4]
    assert state.askings == [[1, 2, 3], [4], [1, 3], [1]]
    state.change({"changes": {"ids": [1, 4], "labels": [3, LATER], "by": "chief"}})
    assert state.votes == {1: [("chief", 3)], 3: [("b", 1)]}
    assert state.awaited == [4]


def test_soft_targets_by_hand():
    state = State()
    assert state.targets(2) is None
    line = {
        "ids": [1, 2],
        "labels": [0, 1],
        "by": "a",
        "consensus": {"ids": [], "labels": [], "soft": [[0.7, 0.2]] * 2},
    }
    state.take(line)
    assert state.targets(2) == pytest.approx(np.array([[7 / 9, 2 / 9]] * 2))
    state.change({"changes": {"ids": [2], "labels": [0]}})
    assert state.targets(2).tolist()[1] == [1.0, 0.0]


def test_labels_that_are_as_they_were_are_not_written():
    state = State()
    assert agreed(policy("votes(n=2)"), state, None, 4, 0) == {}
    state.take({"ids": [1], "labels": [0], "by": "a"})
    assert agreed(policy("votes(n=2)"), state, None, 4, 0) == {}
    state.take({"again": [{"ids": [1], "labels": [1], "by": "b"}, {"ids": [1], "labels": [1], "by": "c"}]})
    assert agreed(policy("votes(n=3)"), state, None, 0, 0) == {"consensus": {"ids": [1], "labels": [1]}}
    assert agreed(policy("single"), state, None, 4, 0) == {}


@given(
    st.integers(1, 40), st.integers(0, 60), st.integers(0, 40), st.integers(0, 60), st.floats(0, 0.5), st.floats(0, 0.5)
)
def test_shares_of_a_round(k, among, picked, old, new, again):
    """No more than there is, all k where there are so many, floors where they can be."""
    picked, among = min(picked, k), min(among, k, old)
    count = Doubts(new=new, again=again).share(k, among, picked, old)
    assert 0 <= count <= min(k, old)
    assert min(k - count, picked) + count == min(k, picked + old)
    assert min(k - count, picked) >= min(new * k * (1 - 1e-9), picked)
    if picked == k and old >= k and np.ceil(new * k) + np.ceil(again * k) <= k:
        assert count >= again * k * (1 - 1e-9)


@pytest.mark.parametrize(("again", "k", "wanted"), [(0.07, 100, 7), (0.14, 50, 7), (0.28, 25, 7), (0.071, 100, 8)])
def test_a_share_that_comes_to_a_whole_number_is_that_number(again, k, wanted):
    assert Doubts(new=0, again=again).share(k, 0, k, 100) == wanted


def test_ties_fall_by_the_lottery_and_not_by_place():
    ids = np.arange(50)
    order = most_wanted(np.r_[np.ones(49), 2.0], ids, [1, 2])
    assert order[0] == 49
    assert order.tolist() != [49, *range(49)]
    back = most_wanted(np.r_[2.0, np.ones(49)], ids[::-1], [1, 2])
    assert ids[::-1][back].tolist() == ids[order].tolist()
    assert most_wanted(np.ones(50), ids, [1, 3]).tolist() != most_wanted(np.ones(50), ids, [1, 2]).tolist()


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("doubt", UnknownName, "no policy of answers 'doubt'. Did you mean 'doubts'"),
        ("votes(m=3)", BadInput, r"cannot make the policy votes\(m=3\)"),
        ("single(n=3)", BadInput, "cannot make"),
        ("votes(n=0)", BadInput, "n must be a whole number from 1 on, got 0"),
        ("votes(n=True)", BadInput, "n must be"),
        ("votes(method=majorty)", UnknownName, "'majority'"),
        ("votes(soft=yes)", BadInput, "soft must be True or False, got 'yes'"),
        ("doubts(most=1)", BadInput, "most must be a whole number from 2 on"),
        ("doubts(new=1.5)", BadInput, "new is a share"),
        ("doubts(again=True)", BadInput, "again is a share"),
        ("doubts(new=0.7, again=0.4)", BadInput, "more than all answers together"),
    ],
)
def test_policies_that_cannot_be(text, error, words):
    with pytest.raises(error, match=words):
        Plan("random", (40, 60), answers=text)


def test_the_whole_call_takes_a_policy(tmp_path):
    from ncalr.data import load
    from ncalr.loop.whole import run as whole_run

    given = {"budgets": (40, 60), "folder": tmp_path, "learner": learner(), "noise": "symmetric(rate=0.2)"}
    state = whole_run(load("digits"), "margin", answers="votes(n=2)", **given)
    assert state.answers == 60
    assert len(state.labels) == 30
    assert {who for said in state.votes.values() for who in dict(said)} == {"person 1", "person 2"}
    with pytest.raises(BadInput, match=r"one answer an item.*annotators"):
        whole_run(load("digits"), "margin", answers="votes(n=2)", **{**given, "noise": "", "folder": tmp_path / "no"})
    assert not (tmp_path / "no").exists()


def test_answers_may_have_no_name(tmp_path):
    """An oracle of one name for all: its second answer is a second reading."""

    class Plain:
        def answer(self, ids):
            return Answers(ids, np.asarray(ids) % 4)

    state = run(plan(answers="votes(n=2)"), setting(lambda truth: Plain()), learner(), tmp_path)
    assert state.votes[1000] == [("", 0), ("", 0)]


def test_a_network_learns_soft_targets_and_speaks_for_the_items_it_learnt(tmp_path):
    """Torch from end to end: early words, soft targets, and a resumed run that ends the same."""
    from ncalr.learn import TorchLearner

    def network():
        options = {"epochs": 6, "checkpoints": 2, "batch": 16, "rate": 0.05, "device": "cpu", "progress": False}
        return TorchLearner("mlp(widths=16)", "digits(opens=0.6)", **options)

    given = plan(answers="doubts(soft=True)", strategy="ncal", budgets=(40, 70, 100))
    work = setting()
    work = replace(work, pool=_narrow(work.pool), test=_narrow(work.test))
    run(given, work, network(), tmp_path / "whole")
    lines = (tmp_path / "whole" / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "journal.jsonl").write_bytes(b"".join(lines[:2]))
    state = run(given, work, network(), tmp_path / "cut")
    assert lines_of(tmp_path / "cut") == lines_of(tmp_path / "whole")
    assert state.answers == 100
    assert all(abs(sum(row) - 1) < 0.01 for row in state.soft.values())


def _narrow(pool):
    from ncalr.data import ArrayPool

    return ArrayPool(pool.read(np.arange(len(pool))).astype(np.float32), ids=pool.ids)


def test_ids_may_be_texts(tmp_path):
    from ncalr.data import ArrayPool

    items, truth = world()
    names = [f"photo-{at}.png" for at in range(600)]
    oracle = Annotators(people(Truth(names, truth[:600], 4)))
    work = replace(setting(), pool=ArrayPool(items[:600], ids=names), oracle=oracle, first=names[:40])
    state = run(plan(answers="doubts"), work, learner(), tmp_path)
    assert state.answers == 160
    assert replay(Journal(tmp_path).lines()) == state
