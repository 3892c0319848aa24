"""Labels that change: what the journal says of them, what is trained on, and that a killed run misses none."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from small import learner, plan, setting

from ncalr.errors import BadInput, NcalrError
from ncalr.loop.journal import Journal, without_times
from ncalr.loop.run import run
from ncalr.loop.state import State, replay
from ncalr.oracles import LATER, REFUSED, Answers, Corrected, Noisy, Slow

BUDGETS = (12, 20, 28, 36)


class Watching:
    """Trains as the small learner does, and keeps what it was given."""

    def __init__(self):
        self.learner, self.seen = learner(), []

    def fit(self, job):
        self.seen.append(dict(zip(job.ids.tolist(), job.labels.tolist(), strict=True)))
        return self.learner.fit(job)


class Told:
    """The truth, but what was changed by hand; `said` is what it says now, by id."""

    def __init__(self, truth, said=None, by="ann"):
        self.truth, self.said, self.by, self.asked = truth, said or {}, by, []

    def answer(self, ids):
        self.asked += np.asarray(ids).tolist()
        return self.truth.answer(ids)

    def changes(self, ids):
        return Answers(list(self.said), np.array(list(self.said.values()), np.int64), self.by)


def lines_of(folder):
    return [without_times(line) for line in Journal(folder).lines()]


def told(**options):
    found = setting()
    return replace(found, oracle=Told(found.oracle, **options)), found.first


def test_a_correction_is_trained_on_at_once_and_stands_in_the_journal(tmp_path):
    work, first = told()
    right = {item: int(label) for item, label in zip(first, work.oracle.truth.answer(first).labels, strict=True)}
    wrong = (right[first[0]] + 1) % 4
    work.oracle.said = {first[0]: wrong, first[1]: right[first[1]]}
    watching = Watching()
    state = run(plan(budgets=BUDGETS), work, watching, tmp_path)
    assert [seen[first[0]] for seen in watching.seen] == [wrong] * 4
    assert list(watching.seen[0]) == list(first), "the item stays in its place"
    lines = Journal(tmp_path).lines()
    assert lines[1]["changes"] == {"ids": [first[0]], "labels": [wrong], "by": "ann"}, "what is as it was is no change"
    assert not any("changes" in line for line in (lines[0], *lines[2:])), "it is written down once"
    assert state.labels[first[0]] == wrong
    assert replay(lines) == state
    assert len(work.oracle.asked) == len(set(work.oracle.asked)) == 36


def test_a_label_is_taken_back_and_asked_for_again(tmp_path):
    work, first = told(said={})
    work.oracle.said = {first[3]: LATER, first[4]: REFUSED}
    watching = Watching()
    answer = work.oracle.answer

    def answered(ids):  # once asked again, it stays
        if work.oracle.asked and first[3] in np.asarray(ids):
            del work.oracle.said[first[3]]
        return answer(ids)

    work.oracle.answer = answered
    state = run(plan(budgets=BUDGETS), work, watching, tmp_path)
    assert not {first[3], first[4]} & set(watching.seen[0])
    assert len(watching.seen[0]) == 10
    assert list(watching.seen[1])[:11] == [item for item in first if item not in (first[3], first[4])] + [first[3]]
    lines = Journal(tmp_path).lines()
    assert lines[1]["ids"][0] == first[3]
    assert sum(first[3] in line.get("ids", []) for line in lines) == 2
    assert state.refused == {first[4]: 1}
    assert len(state.labels) == 36
    assert replay(lines) == state


def test_a_refused_item_gets_its_label_later(tmp_path):
    work = setting("hesitant")
    first = run(plan(budgets=(12, 20)), work, learner(), tmp_path / "refused")
    item = next(iter(first.refused))

    class Relenting(Told):
        def changes(self, ids):
            given = [known for known in np.asarray(ids).tolist() if known == item]
            return Answers(given, [2] * len(given), ["bob"] * len(given))

    watching = Watching()
    state = run(plan(budgets=(12, 20)), replace(work, oracle=Relenting(work.oracle)), watching, tmp_path / "relenting")
    assert item not in state.refused
    assert state.labels[item] == 2
    assert watching.seen[-1][item] == 2
    changes = [line["changes"] for line in Journal(tmp_path / "relenting").lines() if "changes" in line]
    assert changes == [{"ids": [item], "labels": [2], "by": "bob"}]


def test_an_oracle_may_only_change_what_it_answered(tmp_path):
    work, _ = told(said={1199: 0})
    with pytest.raises(BadInput, match=r"about 1 ids that it has not answered, the first is 1199"):
        run(plan(), work, learner(), tmp_path)
    assert len(Journal(tmp_path).lines()) == 1


def test_a_change_between_a_kill_and_the_resumption_is_not_lost(tmp_path):
    work, first = told()

    class Dying(Watching):
        def fit(self, job):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(plan(budgets=BUDGETS), work, Dying(), tmp_path)
    wrong = {item: (int(label) + 1) % 4 for item, label in zip(first, work.oracle.answer(first).labels, strict=True)}
    work.oracle.said = wrong
    watching = Watching()
    run(plan(budgets=BUDGETS), work, watching, tmp_path)
    assert watching.seen[0] == wrong


def test_when_all_first_answers_are_late_they_are_asked_for_again(tmp_path):
    work = setting()
    state = run(plan(budgets=BUDGETS), replace(work, oracle=Slow(work.oracle)), Watching(), tmp_path)
    lines = Journal(tmp_path).lines()
    assert lines[0]["labels"] == [LATER] * 12
    assert lines[1]["ids"] == lines[0]["ids"] == list(work.first)
    assert "accuracy" not in lines[1]
    assert lines[2]["labelled"] == 12
    assert len(state.labels) == 36


def test_where_nobody_answers_the_run_waits_to_be_resumed(tmp_path):
    work = setting()
    for times in (2, 3):
        with pytest.raises(NcalrError, match=r"12 items were asked about and none is answered yet.* resume"):
            run(plan(budgets=BUDGETS), replace(work, oracle=Slow(work.oracle, times=3)), learner(), tmp_path)
        assert len(Journal(tmp_path).lines()) == times
    watching, ended = Watching(), ""
    while not ended:
        before = len(watching.seen)
        try:
            ended = run(
                plan(budgets=BUDGETS), replace(work, oracle=Slow(work.oracle, times=3)), watching, tmp_path
            ).ended
        except NcalrError:
            assert len(watching.seen) <= before + 1, "nothing is trained on that was trained on before"
    assert [len(seen) for seen in watching.seen] == list(BUDGETS)


@pytest.fixture(scope="module", params=["hesitant", "slow", "reviewed"])
def whole(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    run(plan(budgets=BUDGETS), setting(request.param), learner(), folder)
    return request.param, folder


def test_the_oracles_do_what_they_are_there_for(whole):
    kind, folder = whole
    lines = lines_of(folder)
    said = [label for line in lines for label in line.get("labels", [])]
    changed = [label for line in lines for label in line.get("changes", {}).get("labels", [])]
    assert LATER in said
    assert (REFUSED in said) == (kind == "hesitant")
    assert bool(changed) == (REFUSED in changed) == (kind == "reviewed")


@pytest.mark.filterwarnings("ignore:the last line")
@pytest.mark.parametrize("seed", range(8))
def test_cut_at_any_byte_it_ends_the_same_whatever_the_oracle(whole, tmp_path, seed):
    """Counts of askings are read off the journal, so that answers that depend on them are the same after a kill."""
    kind, folder = whole
    content = (folder / "journal.jsonl").read_bytes()
    (tmp_path / "journal.jsonl").write_bytes(content[: random.Random(seed).randrange(len(content) + 1)])
    run(plan(budgets=BUDGETS), setting(kind), learner(), tmp_path)
    assert lines_of(tmp_path) == lines_of(folder)


def test_the_same_oracle_object_serves_a_second_run(whole, tmp_path):
    """What one run asked does not count in another."""
    kind, folder = whole
    work = setting(kind)
    for name in ("one", "two"):
        run(plan(budgets=BUDGETS), work, learner(), tmp_path / name)
        assert lines_of(tmp_path / name) == lines_of(folder)


def test_the_last_review_reaches_the_truth(tmp_path):
    """All answers wrong at first, all looked at one asking later: only the last batch is still wrong."""
    work = setting()
    oracle = Corrected(Noisy(work.oracle, "pairs(rate=1)"), work.oracle)
    state = run(plan(budgets=BUDGETS), replace(work, oracle=oracle), learner(), tmp_path)
    ids = np.array(list(state.labels))
    right = work.oracle.answer(ids).labels == np.array(list(state.labels.values()))
    assert right.tolist() == [True] * 28 + [False] * 8


def test_state_by_hand():
    state = State()
    state.take({"round": 0, "ids": [1, 2, 3], "labels": [0, REFUSED, LATER]})
    assert (state.labels, state.refused, state.awaited) == ({1: 0}, {2: 0}, [3])
    assert state.answered == {1: 0, 2: REFUSED}
    line = {"round": 1, "changes": {"ids": [1, 2], "labels": [LATER, 3]}, "ids": [3, 1, 4], "labels": [LATER, 1, 0]}
    for _ in range(2):
        state.change(line)
        assert (state.labels, state.refused, state.awaited) == ({2: 3}, {}, [3, 1])
    state.take(line)
    assert (list(state.labels.items()), state.awaited) == ([(2, 3), (1, 1), (4, 0)], [3])
    state.take({"round": 2, "changes": {"ids": [2], "labels": [REFUSED]}, "stop": "budget"})
    assert (list(state.labels), state.refused, state.awaited) == ([1, 4], {2: 2}, [3])
    assert state.askings == [[1, 2, 3], [3, 1, 4]]
    assert sorted(state.closed) == [1, 2, 3, 4]
