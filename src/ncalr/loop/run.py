"""One run of active learning: label, train, score, pick, ask, and again.

    result = run(dataset, "ncal", learner, budgets=[60, 90, 120], folder="runs/first")

A run is a generator (`rounds`) that gives a `Job` whenever it wants a model and is sent the model; `run` serves one
of them, and the laboratory serves many at a time, so that their trainings share the device. All it knows stands in
the journal: a killed run that is started again reads it and goes on, and its journal ends byte for byte as the one of a
run that was never killed, timings aside.

There is one training a budget, and one more of the last where answers to it came in late. Where an item is refused, or
its answer is late, the next best one of the same model is asked about before the next training, for as long as somebody
answers. A training that has fewer labels than it should all the same (nobody answered any more), or more (an answer was
taken back, or came in), says which budget it is of: `planned`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ncalr.acquire.query import query
from ncalr.acquire.registry import resolve
from ncalr.acquire.rehearsal import rehearsed
from ncalr.acquire.spec import Spec, with_defaults
from ncalr.data.fingerprint import Fingerprint
from ncalr.data.pool import Pool
from ncalr.data.received import reading
from ncalr.errors import BadInput, NcalrError, check_known
from ncalr.kernels import to_numpy
from ncalr.learn.learner import Job, Learner, Model, needs_of
from ncalr.loop.answers import Doubts, Policy, policy
from ncalr.loop.journal import Journal, clear_training, training_folder
from ncalr.loop.labels import agreed, doubted
from ncalr.loop.state import Line, State, names_of, replay
from ncalr.loop.stopping import Stops
from ncalr.loop.voice import Voice, voice_of
from ncalr.oracles import LATER, REFUSED, Answers, Oracle, changes, remind
from ncalr.types import Picks

KEEP = ("", "last", "all")
LEAST = 12  # how many of the least wanted items a round keeps, for the report
MORE = 20  # calls a round, beside the first, in which others are asked about in the place of what is not answered
Others = Callable[[list[Any], int], list[Any]]
"""Gives so many items beside those that were asked about."""
UNSAID = {"keep": "", "answers": "single", "stops": ""}  # left out of what is stored where nothing else was chosen


@dataclass(frozen=True)
class Plan:
    """What a run is to do. Plain data: it is stored with the run, and a run is only resumed with the same."""

    strategy: str
    budgets: tuple[int, ...]  # how many answers at each training: labels, where there is one an item
    seed: int = 0
    classes: int = 0
    control: float = 0.0  # share of each batch drawn at random: an unbiased estimate of the accuracy on what is open
    stops: Stops = field(default_factory=Stops)
    keep: str = ""  # models to keep for later evaluations: nothing, "last" or "all"
    answers: str = "single"  # how often to ask about an item (`answers.py`)

    def __post_init__(self) -> None:
        self.policy  # noqa: B018 (an unknown one is found here)
        resolve(self.strategy, {})
        check_known("keep", self.keep, KEEP)
        steps = self.budgets
        if any(isinstance(step, bool) or not isinstance(step, int | np.integer) for step in steps):
            raise BadInput(f"budgets must be whole numbers of labels, got {list(steps)}")
        if not steps or min(steps) < 2 or any(b <= a for a, b in pairwise(steps)):
            raise BadInput(f"budgets must be rising numbers of labels, at least 2, got {list(steps)}")
        if not 0 <= self.control < 1:
            raise BadInput(f"control must lie in 0..1, got {self.control!r}")

    @cached_property
    def rule(self) -> Spec:
        """The strategy as it is run: of near-copies at most one in a batch, unless it says `copies=keep`."""
        return with_defaults(self.strategy, copies="drop")

    @cached_property
    def policy(self) -> Policy:
        """How often to ask about an item."""
        return policy(self.answers)

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        plain = {**asdict(self), "budgets": list(self.budgets)}
        return {name: value for name, value in plain.items() if (name, value) not in UNSAID.items()}


@dataclass(frozen=True)
class Setting:
    """What a run works on."""

    pool: Pool
    oracle: Oracle
    test: Pool
    test_labels: Any
    first: Sequence[Any]  # ids of the initial pool


def rounds(plan: Plan, setting: Setting, journal: Journal) -> Generator[Job, Model, State]:
    """A run: gives jobs, takes models, returns the state at the end. The caller holds the journal's lock."""
    rehearsed(plan.strategy)
    lines = journal.lines()
    with reading(journal.path, "the journal of a run", "was it edited?"):
        state = replay(lines)
    remind(setting.oracle, state.askings)
    if not state.rounds:
        _write(journal, state, {"round": 0, **_first(plan, setting)})
    while not state.ended:
        number = len(state.rounds)
        changed = _changed(setting, state)
        state.change(changed)
        if state.awaited and (len(set(state.labels.values())) < 2 or not (changed or state.news)):  # nothing to learn
            _ask_again(plan, setting, state, journal, {**changed, "round": number})
            continue
        job = Job(
            setting.pool,
            np.array(list(state.labels)),
            np.array(list(state.labels.values()), np.int64),
            plan.classes,
            seed=plan.seed,
            round=number,
            needs=needs_of(plan.rule) | plan.policy.needs | ({"logits"} if plan.control else set()),
            watch=_open_ids(setting.pool, state),
            soft=state.targets(plan.classes),
            folder=training_folder(journal.folder),
            own=True,
        )
        model = yield job
        _keep(plan.keep, model, journal.folder, number)
        _write(journal, state, changed | one_round(plan, setting, state, model, number))
        clear_training(journal.folder)
    return state


def one_round(plan: Plan, setting: Setting, state: State, model: Model, number: int) -> Line:
    """A trained model in, one line of the journal out: how good it is, what it picked, what was answered."""
    began = time.perf_counter()
    line: Line = {"round": number, "labelled": len(state.labels), **_spent(plan, state, model)}
    line |= _quality(setting, model)
    line["stop"] = plan.stops.reason(_with(state, line)) or _budget_spent(plan, state, model)
    if not line["stop"]:
        line |= _questions(plan, setting, state, model, number)
    line["seconds"] = {"train": model.record.seconds, "round": time.perf_counter() - began}
    return line


def run(
    plan: Plan,
    setting: Setting,
    learner: Learner,
    folder: Path | str,
    experiment: dict[str, Any] | None = None,
    data: Fingerprint | None = None,
) -> State:
    """Run to the end, or go on where the folder's journal ends; with `data`, only where they are the same."""
    journal = Journal(folder)
    with journal.locked():
        journal.begin(experiment or plan.as_dict(), data)
        training = rounds(plan, setting, journal)
        try:
            job = next(training)
            with journal.threads():
                while True:
                    job = training.send(learner.fit(job))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def model_folder(run: Path, number: int) -> Path:
    """Where the model of a round lies, if it is kept."""
    return run / "models" / f"round-{number:02d}"


def _keep(which: str, model: Model, run: Path, number: int) -> None:
    """Models are written before the line that speaks of them: a run killed between the two writes the same again."""
    if not which:
        return
    model.save(model_folder(run, number))
    if which == "last":
        shutil.rmtree(model_folder(run, number - 1), ignore_errors=True)


def _write(journal: Journal, state: State, line: Line) -> None:
    journal.append(line)
    state.take(line)


def _with(state: State, line: Line) -> State:
    return State(state.labels, state.refused, state.awaited, [*state.rounds, line])


def _first(plan: Plan, setting: Setting) -> Line:
    """The initial pool, as far as the first budget goes; random others for what is not answered."""
    k = len(setting.first)
    first = list(setting.first)[: plan.policy.fresh(k, 0)]
    line = _ask(plan.policy, setting, State(), first, [], k, lambda asked, count: _lots(plan, setting, asked, count))
    return line | agreed(plan.policy, State().after(line), None, plan.classes, plan.seed)


def _lots(plan: Plan, setting: Setting, asked: list[Any], count: int) -> list[Any]:
    """So many items that were not asked about, at random: the same for all strategies of a seed."""
    ids = setting.pool.ids
    k = min(len(asked) + count, len(ids))
    lots = query("random", k, features=np.zeros((len(ids), 1)), ids=ids, seed=[plan.seed, 0])
    return _others(lots.ids.tolist(), asked, count)


def _questions(plan: Plan, setting: Setting, state: State, model: Model, number: int) -> Line:
    """What is asked after a training, what is answered, and which labels that comes to."""
    how, answers = plan.policy, _answers(plan, state)
    wanted = _next_budget(plan, state) - answers
    voice = voice_of(model, state).at(state, *_before(state)) if how.needs else None
    late = _late(how, state, wanted)
    fresh = min(_fresh(how, state, wanted) - len(late), len(model.watched))
    picked, why = _pick(plan, model, fresh, number)
    again: list[Any] = []
    if isinstance(how, Doubts) and voice is not None:
        again = doubted(how, wanted - len(late), picked, state, voice, [plan.seed, number])
        if again and picked:
            picked, why = _pick(plan, model, min(wanted - len(late) - len(again), fresh), number)

    def others(asked: list[Any], count: int) -> list[Any]:
        found, more = _next_best(plan, model, asked, count, number)
        if more:
            _add_reasons(why, more)
        return found

    line = _ask(how, setting, state, [*late, *picked], again, wanted, others) | why
    return line | _heard(plan, state.after(line), voice)


def _fresh(how: Policy, state: State, wanted: int) -> int:
    """How many items without a label so many answers are for."""
    return how.fresh(wanted, sum(how.each - len(state.votes[item]) for item in state.open_again(how.each)))


def _late(how: Policy, state: State, wanted: int) -> list[Any]:
    """Those of the awaited items that are asked about again: no more than the budget is for."""
    return state.awaited[: _fresh(how, state, wanted)]


def _heard(plan: Plan, state: State, voice: Voice | None) -> Line:
    """What the answers come to; the model speaks as surely as the new ones say it should."""
    line: Line = {}
    if voice is not None:
        fitted, (last, before) = voice.last_word(state), _before(state)
        if fitted is not None:
            line["temperature"] = last = _short(fitted)
        voice = voice.at(state, last, before)
        line["heard"] = _short(voice.heard)
    return line | agreed(plan.policy, state, voice, plan.classes, plan.seed)


def _ask(
    how: Policy, setting: Setting, state: State, new: list[Any], doubted: list[Any], k: int, others: Others
) -> Line:
    """Ask about new items, and about others again, for k answers in all and no more; who does not answer is let be.

    Where second opinions are refused, their answers go to more new items.
    """
    asked = _Asked(setting, how, state, k)
    asked.about_new(new, others)
    asked.again(doubted)
    while asked.refused and asked.left > 0 and (more := others(asked.line["ids"], how.fresh(asked.left, 0))):
        asked.about_new(more, others)
        asked.again([])
    return asked.as_line()


class _Asked:
    """The calls of one round, one after the other."""

    def __init__(self, setting: Setting, how: Policy, state: State, k: int) -> None:
        self.setting, self.how, self.left = setting, how, k
        self.line = _asked(setting, [])
        self.second: list[Line] = []  # calls about items that have a label
        self.order: list[int] = []  # how many ids each call was about that have none; 0 for one of the second opinions
        self.counts = {item: len(said) for item, said in state.votes.items()}
        self.silent = set(state.settled)
        self.refused = False  # whether the last second opinion was

    def about_new(self, ids: list[Any], others: Others) -> None:
        """Ask about items without a label, and about others in the place of what is refused or late.

        It ends when as many are answered as were asked about, or where a call brings nothing but "later": nobody is
        there.
        """
        missing = len(ids)
        while ids:
            call = _asked(self.setting, ids)
            self.line = _joined(self.line, call) if self.line["ids"] else call
            self.order.append(len(ids))
            known = [item for item, label in zip(ids, call["labels"], strict=True) if label >= 0]
            self.counts |= dict.fromkeys(known, 1)
            self.left -= len(known)
            missing -= len(known)
            nobody = all(label == LATER for label in call["labels"])
            enough = not missing or nobody or len(self.order) > MORE
            ids = [] if enough else others(self.line["ids"], missing)

    def again(self, doubted: list[Any]) -> None:
        """Ask about items that have fewer answers than they should, and about those that are doubted."""
        self.refused = False
        while self.left > 0:
            begun = [item for item, count in self.counts.items() if count < self.how.each]
            ids = [item for item in (*begun, *doubted) if item not in self.silent][: self.left]
            if not ids:
                return
            self.second.append(_asked(self.setting, ids))
            self.order.append(0)
            for item, label in zip(ids, self.second[-1]["labels"], strict=True):
                if label >= 0:
                    self.counts[item] += 1
                    self.left -= 1
                else:
                    self.silent.add(item)
            self.refused = REFUSED in self.second[-1]["labels"] and len(self.order) <= MORE
            doubted = []

    def as_line(self) -> Line:
        """For the journal; the order of the calls where it is not one about new items and then the others."""
        line = self.line | ({"again": self.second} if self.second else {})
        usual = [len(self.line["ids"])] * bool(self.line["ids"]) + [0] * len(self.second)
        return line if self.order == usual else line | {"calls": self.order}


def _joined(line: Line, call: Line) -> Line:
    by = [name for one in (line, call) for name in names_of(one)]
    return {**{key: line[key] + call[key] for key in ("ids", "labels")}, "by": _one_name(by)}


def _answers(plan: Plan, state: State) -> int:
    """What counts against the budget."""
    return state.answers if plan.policy.collects else len(state.labels)


def _spent(plan: Plan, state: State, model: Model) -> Line:
    """The answers that a training learns from, and the budget it is of where that is another number."""
    spent: Line = {"answers": state.answers} if plan.policy.collects else {}
    budget = _budget(plan, state)
    if not len(model.watched) and not state.awaited:  # every item was asked about
        budget = _answers(plan, state) if plan.policy.collects else min(budget, len(state.labels) + len(state.refused))
    return spent if budget == _answers(plan, state) else {**spent, "planned": budget}


def _budget(plan: Plan, state: State) -> int:
    """Which budget a training on the labels of this state is of: the next one, or the last that they are enough for."""
    answers = _answers(plan, state)
    later = [budget for budget in plan.budgets if budget > state.planned] or [plan.budgets[-1]]
    return max((budget for budget in later if budget <= answers), default=later[0])


def _next_budget(plan: Plan, state: State) -> int:
    """The budget that is asked for after a training; the last one again as long as answers to it are awaited."""
    now = max(_budget(plan, state), _answers(plan, state))
    return next((budget for budget in plan.budgets if budget > now), plan.budgets[-1])


def _before(state: State) -> tuple[float | None, float | None]:
    """The temperature of the model's last word, and how far it was believed, by the last round that says so."""
    temperature, heard = (
        next((line[name] for line in reversed(state.rounds) if name in line), None) for name in ("temperature", "heard")
    )
    return temperature, heard


def _asked(setting: Setting, ids: list[Any]) -> Line:
    """Ask, and put the answers beside the ids in the order of asking."""
    return _said(setting.oracle.answer(np.array(ids))) if ids else {"ids": [], "labels": [], "by": ""}


def _ask_again(plan: Plan, setting: Setting, state: State, journal: Journal, line: Line) -> None:
    awaited = len(state.awaited)
    wanted = max(_budget(plan, state) - _answers(plan, state), 1)
    late = _late(plan.policy, state, wanted)
    line |= _ask(plan.policy, setting, state, late, [], wanted, lambda *_: [])  # there is no model to pick others
    _write(journal, state, line | agreed(plan.policy, state.after(line), None, plan.classes, plan.seed))
    if len(state.awaited) == awaited:
        raise NcalrError(
            f"{awaited} items were asked about and none is answered yet: there is nothing new to learn from; "
            "nothing is lost: resume when there are answers"
        )


def _changed(setting: Setting, state: State) -> Line:
    """What the oracle says now of items it was asked about before, where that is something else.

    It is asked against the journal, and goes into the journal with the round that is trained on it: a run that is
    killed between asks again, and nothing is lost.
    """
    known = state.answered
    if not known:
        return {}
    said = changes(setting.oracle, np.array(list(known)))
    strangers = [item for item in said.ids.tolist() if item not in known]
    if strangers:
        raise BadInput(
            f"the oracle changed its answers about {len(strangers)} ids that it has not answered, the first is "
            f"{strangers[0]!r}; changes(ids) may only speak of the ids it is given"
        )
    other = [known[item] != label for item, label in zip(said.ids.tolist(), said.labels.tolist(), strict=True)]
    by = said.by if isinstance(said.by, str) else said.by[other]
    return {"changes": _said(Answers(said.ids[other], said.labels[other], by))} if any(other) else {}


def _said(answers: Answers) -> Line:
    by = answers.by if isinstance(answers.by, str) else _one_name(answers.by.tolist())
    return {"ids": answers.ids.tolist(), "labels": answers.labels.tolist(), "by": by}


def _one_name(by: list[str]) -> str | list[str]:
    """One name for all, as most often; else one an id."""
    return by[0] if len(set(by)) == 1 else by


def _open_ids(pool: Pool, state: State) -> Any:
    return pool.ids[~np.isin(pool.ids, np.array(state.closed, pool.ids.dtype))]


def _quality(setting: Setting, model: Model) -> Line:
    predictions = np.asarray(model.predict(setting.test)).argmax(axis=1)
    record = model.record
    last = record.history[-1] if record.history else {}
    collapse = {name: _plain(value) for name, value in last.items() if name != "epoch"}
    return {
        "accuracy": float((predictions == np.asarray(setting.test_labels)).mean()),
        "rule": record.rule,
        "began": record.began,
        "flipping": record.flipping,
        "collapse": collapse,
        "separation": record.separation,
    }


def _budget_spent(plan: Plan, state: State, model: Model) -> str:
    if _answers(plan, state) >= plan.budgets[-1]:
        return "budget"
    if _budget(plan, state) == plan.budgets[-1] and not state.awaited and len(model.watched):
        return "budget, some of it not answered"
    left = len(model.watched) or state.awaited or state.open_again(plan.policy.cap)
    return "" if left else "nothing left to ask"


def _pick(plan: Plan, model: Model, k: int, number: int) -> tuple[list[Any], Line]:
    """k ids: most by the strategy, a share at random where there is a control arm; and why each was picked."""
    if not k:
        return [], {}
    evidence, seed = _evidence(model), [plan.seed, number]
    drawn = round(plan.control * k)
    control: list[Any] = []
    line: Line = {}
    if drawn:
        lots = query("random", drawn, features=np.zeros((len(model.watched), 1)), ids=model.watched, seed=[*seed, 1])
        control = lots.ids.tolist()
        outputs = to_numpy(evidence["logits"] if "logits" in evidence else evidence["probs"])
        places = {item: at for at, item in enumerate(model.watched.tolist())}
        line["control"] = {"ids": control, "predicted": [int(outputs[places[item]].argmax()) for item in control]}
    picks = query(
        plan.rule,
        k - drawn,
        least=LEAST,
        ids=model.watched,
        exclude=control or None,
        classes=plan.classes or None,
        seed=seed,
        **evidence,
    )
    line |= {**_reasons(picks), "notes": list(picks.notes)}
    if picks.least is not None:
        line["least"] = {"ids": picks.least.ids.tolist(), "parts": _short_parts(picks.least)}
    if "features" in model.evidence() and len(picks) > 1:
        line["redundancy"] = redundancy(evidence["features"], model.watched, picks.ids)
    return [*picks.ids.tolist(), *control], line


def _next_best(plan: Plan, model: Model, asked: list[Any], count: int, number: int) -> tuple[list[Any], Line]:
    """The best items beside those that were asked about, and why: what a larger batch has more."""
    watched = set(model.watched.tolist())
    k = min(len(watched.intersection(asked)) + count, len(watched))
    if not k:
        return [], {}
    picks = query(
        plan.rule, k, ids=model.watched, classes=plan.classes or None, seed=[plan.seed, number], **_evidence(model)
    )
    ids = picks.ids.tolist()
    found = _others(ids, asked, count)
    at = {item: place for place, item in enumerate(ids)}
    places = np.array([at[item] for item in found], np.intp)
    return found, _reasons(picks.at(places))


def _others(ids: list[Any], asked: list[Any], count: int) -> list[Any]:
    known = set(asked)
    return [item for item in ids if item not in known][:count]


def _evidence(model: Model) -> dict[str, Any]:
    """What the strategy may look at; where it looks at nothing, how many items there are."""
    evidence = model.evidence()
    evidence.pop("labelled_log", None)  # the run's own
    return evidence or {"features": np.zeros((len(model.watched), 1))}


def _reasons(picks: Picks) -> Line:
    """Why each was picked."""
    return {"scores": [_short(v) for v in picks.scores], "parts": _short_parts(picks)}


def _add_reasons(why: Line, more: Line) -> None:
    """Those of items that were picked afterwards, behind the others."""
    why["scores"] = why.get("scores", []) + more["scores"]
    parts = why.get("parts", {})
    why["parts"] = {name: parts.get(name, []) + values for name, values in more["parts"].items()}


def redundancy(features: Any, watched: Any, ids: Any) -> float:
    """How alike the picks are: the mean cosine of each to the nearest other one, of at most a thousand of them."""
    order = np.argsort(watched, kind="stable")
    rows = order[np.searchsorted(watched[order], ids[:1000])]
    chosen = to_numpy(features[rows]).astype(np.float64)
    lengths = np.linalg.norm(chosen, axis=1, keepdims=True)
    chosen /= np.where(lengths > 0, lengths, 1.0)
    cosines = chosen @ chosen.T
    np.fill_diagonal(cosines, -np.inf)
    return _short(cosines.max(axis=1).mean())


def _short_parts(picks: Picks) -> dict[str, list[float]]:
    return {name: [_short(v) for v in values] for name, values in picks.parts.items()}


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _plain(value: Any) -> float | None:
    number = float(value)
    return number if np.isfinite(number) else None
