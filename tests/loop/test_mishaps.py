"""What goes wrong around a run: full disks, broken files, second writers. A clear word each, and nothing is lost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from small import learner, plan, setting

from ncalr.data import ImagePool
from ncalr.errors import BadInput, NcalrError
from ncalr.lab.noise import learnt
from ncalr.lab.runner import Run
from ncalr.loop.answers import policy
from ncalr.loop.journal import Busy, Journal, clear_training, without_times
from ncalr.loop.run import _ask, run
from ncalr.loop.state import State, _calls
from ncalr.oracles import Truth
from ncalr.oracles.oracle import LATER, REFUSED, Answers


def lines_of(folder):
    return [without_times(line) for line in Journal(folder).lines()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    run(plan(), setting(), learner(), folder)
    return folder


@contextmanager
def room_for(size):
    """No file can grow beyond so many bytes: the kernel writes what fits, and then says no."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.98])
def test_the_disk_is_full_while_journalling(whole, tmp_path, monkeypatch, share):
    size = int(share * (whole / "journal.jsonl").stat().st_size)
    append = Journal.append

    def limited(journal, line):
        with room_for(size):
            append(journal, line)

    monkeypatch.setattr(Journal, "append", limited)
    with pytest.raises(
        NcalrError, match=r"journal\.jsonl could not be written .*nothing is lost.* Make room and resume"
    ):
        run(plan(), setting(), learner(), tmp_path)
    there = Journal(tmp_path)
    before = [without_times(line) for line in there.lines()]
    assert there.path.read_bytes()[-1:] in (b"", b"\n"), "no piece of a line is left behind"
    assert before == lines_of(whole)[: len(before)]
    assert (len(before) > 0) == (share >= 0.5)
    monkeypatch.undo()
    run(plan(), setting(), learner(), tmp_path)
    assert lines_of(tmp_path) == lines_of(whole)


def test_the_disk_is_full_before_there_is_a_journal(tmp_path, monkeypatch):
    def full(*_arguments, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ncalr.loop.journal.open_own", full)
    with pytest.raises(NcalrError, match="No space left on device"):
        Journal(tmp_path).append({"round": 0})
    monkeypatch.undo()
    assert Journal(tmp_path).lines() == []


def test_an_image_breaks_in_the_middle_of_a_run(tmp_path):
    """The file is named, the rounds before stay, and with the file mended the run ends as if nothing had happened."""
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    for at, label in enumerate(labels):
        pixels = (rng.integers(0, 120, (4, 4, 3)) + 100 * label).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{at:02}.png")
    pool = ImagePool(tmp_path, size=4)
    work = replace(
        setting(),
        pool=pool,
        oracle=Truth(pool.ids, labels, 2),
        test=pool,
        test_labels=labels,
        first=pool.ids[:8].tolist(),
    )
    small = plan(classes=2, budgets=(8, 12, 16))
    run(small, work, learner(), tmp_path / "whole")
    victim = tmp_path / "39.png"
    content = victim.read_bytes()

    class Breaking(type(work.oracle)):
        def answer(self, ids):
            victim.write_bytes(content[:30])
            return super().answer(ids)

    with pytest.raises(BadInput, match=r"39\.png cannot be read as an image"):
        run(small, replace(work, oracle=Breaking(pool.ids, labels, 2)), learner(), tmp_path / "broken")
    assert lines_of(tmp_path / "broken") == lines_of(tmp_path / "whole")[:1]
    victim.write_bytes(content)
    run(small, work, learner(), tmp_path / "broken")
    assert lines_of(tmp_path / "broken") == lines_of(tmp_path / "whole")


def test_a_second_process_does_not_get_into_a_run(whole, tmp_path):
    (tmp_path / "journal.jsonl").write_bytes(b"".join((whole / "journal.jsonl").read_bytes().splitlines(True)[:2]))
    held = "import sys\nfrom ncalr.loop.journal import Journal\nwith Journal(sys.argv[1]).locked():\n"
    held += "    print('in', flush=True)\n    sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", held, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "in\n"
        with pytest.raises(Busy, match=f"in use by process {other.pid}; wait for it or stop it"):
            run(plan(), setting(), learner(), tmp_path)
        assert lines_of(tmp_path) == lines_of(whole)[:2]
        other.kill()
    run(plan(), setting(), learner(), tmp_path)
    assert lines_of(tmp_path) == lines_of(whole), "a lock dies with its process"


def test_the_directory_of_another_run_is_left_as_it_is(whole):
    before = {path.name: path.read_bytes() for path in whole.iterdir()}
    for changes in ({"seed": 9}, {"strategy": "random"}, {"budgets": (12, 20)}):
        with pytest.raises(
            BadInput, match=f"holds another experiment .different: {next(iter(changes))}.*choose another folder"
        ):
            run(plan(**changes), setting(), learner(), whole)
    after = {path.name: path.read_bytes() for path in whole.iterdir()}
    assert {**before, "lock": b""} == {**after, "lock": b""}
    assert after["lock"].decode() == str(os.getpid())


class Late:
    """Says "later" once, about some; and then answers, or refuses."""

    def __init__(self, truth, answered, refused):
        self.truth, self.answered, self.refused, self.asked = truth, set(answered), set(refused), set()

    def answer(self, ids):
        said = self.truth.answer(ids)
        labels = said.labels.copy()
        for place, item in enumerate(ids.tolist()):
            if item in self.answered | self.refused and item not in self.asked:
                labels[place] = LATER
            elif item in self.refused:
                labels[place] = REFUSED
        self.asked |= set(ids.tolist())
        return replace(said, labels=labels)


def test_late_answers_to_the_end_of_a_pool_come_in_part(tmp_path):
    """Nothing is left to ask in the place of what is refused, and nothing of it is picked anew."""
    given = setting()
    last = given.pool.ids[-4:].tolist()
    given = replace(given, oracle=Late(given.oracle, last[:2], last[2:]))
    state = run(plan(strategy="margin", budgets=(12, 100, 200)), given, learner(), tmp_path)
    assert len(state.labels) == 198
    trained = [line for line in Journal(tmp_path).lines() if "accuracy" in line]
    assert [line.get("planned") for line in trained[-2:]] == [200, 200]
    assert trained[-2]["labelled"] < trained[-1]["labelled"] == 198
    both = Run("margin", 1, Journal(tmp_path), Journal(tmp_path).lines())
    assert [budget for budget, _ in both.accuracies] == [12, 100, 200], "one training a budget, the last one"
    assert [row.items for row in learnt(both, {})] == [12, 100, 198]


def test_a_folder_of_the_user_s_own_is_not_a_training_s(tmp_path):
    mine = tmp_path / "training" / "cat.txt"
    mine.parent.mkdir()
    mine.write_text("precious")
    run(plan(budgets=(12, 20)), setting(), learner(), tmp_path)
    assert mine.read_text() == "precious"
    clear_training(tmp_path)
    assert mine.exists()


def test_the_order_of_calls_is_kept_where_second_opinions_came_first():
    log = []

    class First:
        def answer(self, ids):
            log.append(ids.tolist())
            return Answers(ids, np.full(len(ids), REFUSED if len(log) == 1 else 0), "me")

    state = State()
    state.votes, state.labels = {1: [("a", 0)], 2: [("a", 0)]}, {1: 0, 2: 0}
    asked = replace(setting(), oracle=First())
    line = _ask(policy("votes(n=2)"), asked, state, [], [], 2, lambda known, count: [] if 7 in known else [7][:count])
    assert log == [[1, 2], [7], [7]]
    assert [ids for ids in _calls(line) if ids] == log
