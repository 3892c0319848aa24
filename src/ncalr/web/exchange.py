"""Labels out and in: CSV, TSV, JSONL, Parquet, an image folder, Label Studio JSON. `import(export(x)) = x`.

One record an item, whatever the form (`Record`): what was decided, how sure, every person's vote, and how the item came
to be asked: by which arm, in which epoch, with what score, and with what probability, so that others can weigh the
labels. Exports of one state are the same bytes.

The probability is that with which the lottery of `store/reserve.py` left the item to the arm it came by: `control` for
a control item (it was reserved), 1 - `control` for a pick of the strategy (it was not), 1 for one of the first order.
It is no probability of being picked by the strategy: that goes by what a model thinks, not by chance, and no weight
makes these rows stand for the folder. Control rows do: over them sum(y / p) / sum(1 / p) estimates the mean of y over
the folder, which is the plain mean unless the share was changed on the way; and so do the rows of the first order.

A spreadsheet runs what stands in a cell that begins with = + - @ (also wide ones), a tab or a return. In CSV such a
cell gets a ' before it (and one that begins with ' gets one more, so that reading it back is exact).
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import shutil
import unicodedata
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.exc import DataError

from ncalr.data.fields import check_fields, is_count, is_number, optional
from ncalr.data.fields import record as record_of
from ncalr.data.received import DEVICES, FORBIDDEN, check_file, check_parquet, inside, read_json, reading
from ncalr.data.tables import (
    TEXT_COLUMNS,
    about_header,
    columns_of,
    count_labels,
    escaped,
    is_blank,
    open_table,
    separator,
    stripped,
)
from ncalr.errors import BadInput, check_known
from ncalr.extras import load
from ncalr.web.store import answers, people, projects, schema
from ncalr.web.store.database import Store
from ncalr.web.store.filling import batches

BATCH = 500
NAMES = ("name", "filename", "file", "path", "image", "id")  # what a table may call the item
UNNAMED = "import"  # who said what a table does not say who said
PREDICTIONS = ("name", "label", "class", "probability")  # the columns of what a model says of all items
LABELS = "labels.jsonl"  # beside the folders of an export as images
LONGEST = 200  # bytes of a file's name


def _is_stored(value: Any) -> bool:
    """Whether it is a text that can be written: lone surrogates, as JSON may hold them, cannot."""
    return isinstance(value, str) and not any("\ud800" <= letter < "\ue000" for letter in value)


_OPINION = {
    "by": _is_stored,
    "kind": answers.KINDS.__contains__,
    "label": optional(_is_stored),
    "at": is_number,
    "purpose": list(answers.ROLE_FOR).__contains__,
}
_FIELDS = {
    **dict.fromkeys(("name", "status"), _is_stored),
    **dict.fromkeys(("label", "text"), optional(_is_stored)),
    "arm": optional(lambda value: _is_stored(value) and len(value) <= 16),
    "confidence": is_number,
    **dict.fromkeys(("score", "probability"), optional(is_number)),
    **dict.fromkeys(("epoch", "guideline"), optional(is_count)),
    "votes": lambda votes: all(map(record_of(_OPINION), votes)),
}
"""What each field of a record that was read may be."""


@dataclass(frozen=True)
class Opinion:
    """One person's answer as it stands."""

    by: str
    kind: str
    label: str | None = None
    at: float = 0.0
    purpose: str = "label"


@dataclass(frozen=True)
class Record:
    """One item and what is known about it."""

    name: str
    status: str
    label: str | None = None
    confidence: float = 0.0
    arm: str | None = None
    epoch: int | None = None
    score: float | None = None
    probability: float | None = None
    guideline: int | None = None
    votes: tuple[Opinion, ...] = field(default=())
    text: str | None = None


Placed = tuple[str, Record]
"""Where in its file a record is, and the record."""


def records(conn: Connection) -> Iterator[Record]:
    """The items that somebody answered, in the order of their names' rows."""
    names = projects.classes(conn)
    known = {person.id: person.name for person in people.everyone(conn)}
    item, state = schema.item, schema.state
    joined = item.join(state, state.c.item_id == item.c.id)
    wanted = select(item.c.id, item.c.name, item.c.text, state).select_from(joined).order_by(item.c.id)
    with conn.execution_options(yield_per=BATCH).execute(wanted) as rows:
        for part in rows.partitions(BATCH):
            votes, asked = _opinions(conn, [row.id for row in part], names, known)
            for row in part:
                opinions = tuple(votes.get(row.id, ()))
                if opinions:
                    yield _record(row, opinions, asked.get(row.id), names)


def write(records_: Iterable[Record], form: str, target: Any) -> None:
    """Write in one of the forms to a binary file."""
    check_known("format", form, WRITERS)
    WRITERS[form](records_, target)


def read(source: Path) -> list[Record]:
    """What `write` wrote, by the file's ending."""
    if not source.is_file():
        raise BadInput(f"there is no file {source}")
    form = form_of(source)
    if form is None:
        raise BadInput(f"cannot read labels from {source.name}; expected a file that ends in {', '.join(forms())}")
    found = list(_read(source))
    _check_agreement(source, found)
    return [record for _, record in found]


def _read(source: Path) -> Iterator[Placed]:
    """The same, one after the other."""
    with reading(source, "labels"):
        try:
            for place, record in READERS[form_of(source) or ""](source):
                check_fields(asdict(record), _FIELDS, place)
                yield place, record
        except BadInput as error:
            raise BadInput(f"{source}: {error}") from None


def _check_agreement(source: Path, found: Iterable[Placed]) -> None:
    """Raise where somebody says two things about an item: which of them counts is not for us to say."""
    said: dict[Any, tuple[str, Opinion]] = {}
    apart: list[str] = []
    for place, record in found:
        for vote in record.votes:  # names may be those of several lists, and the items told apart by their texts
            first, before = said.setdefault((record.name, record.text, vote.by, vote.purpose), (place, vote))
            if _word(before) != _word(vote):
                whose = f" by {vote.by!r}" if vote.by != UNNAMED else ""
                more = "" if whose else ", or say in a column by who said which"
                both = f"is {_word(before)}{whose} in {first} and {_word(vote)} in {place}; leave one of the two{more}"
                apart.append(f"{record.name!r} {both}")
    if apart:
        many = f" ({len(apart):,} rows are so)" if len(apart) > 1 else ""
        raise BadInput(f"{source}: {apart[0]}{many}")


def _word(vote: Opinion) -> str:
    """What somebody said of an item."""
    return repr(vote.label) if vote.kind == "label" else vote.kind


def at_stake(conn: Connection, path: Path) -> tuple[int, str]:
    """How many labels would be lost with a file if an export took its place, and which.

    One that was exported here before, or holds predictions of all items, is written again, less what nobody gave as an
    answer here: what people wrote into it, or what comes from a project that may be gone. Of others all labels count.
    """
    written = _written_before(path)
    if written is not None:
        return _strangers(conn, written), " that nobody gave in this project"
    if form_of(path) == "labelstudio":
        return sum(bool(task.get("annotations") or task.get("label")) for task in _tasks(path)), ""
    return count_labels(path), ""


def forms() -> dict[str, str]:
    """The forms by the endings of their files."""
    return {f".{ending}": form for form, ending in ENDINGS.items()}


def form_of(path: Path) -> str | None:
    """The form of a file, by its ending."""
    return forms().get(path.suffix.lower())


@dataclass(frozen=True)
class Copied:
    """What became of an export as a folder: pictures in each class, and those that could not be copied, with why."""

    classes: dict[str, int]
    missing: dict[str, str]

    @property
    def count(self) -> int:
        """All pictures that were written."""
        return sum(self.classes.values())


def write_folder(store: Store, root: Path, target: Path) -> Copied:
    """Copies of the labelled images below one folder a class, as most trainings read them; nothing is overwritten.

    A picture that is not there any more is left out and named; its labels are in labels.jsonl all the same.
    """
    if target.exists() and not target.is_dir():
        raise BadInput(f"{target} is a file; choose a new folder")
    if target.exists() and any(target.iterdir()):
        raise BadInput(f"{target} is not empty; choose a new folder")
    everything, names = store.read(lambda conn: (list(records(conn)), projects.classes(conn)))
    labelled = [(each.name, each.label) for each in everything if each.status == "labelled" and each.label is not None]
    folders = file_names(names, taken=(LABELS,))
    files = file_names([name for name, _ in labelled])
    classes: dict[str, int] = {}
    missing: dict[str, str] = {}
    target.mkdir(parents=True, exist_ok=True)
    for name, label in labelled:
        folder = inside(target, folders[label], "class")
        folder.mkdir(exist_ok=True)
        try:
            picture = inside(root, name, "picture", below=True)
            picture.stat()
            check_file(picture)  # what is no file was never shown either
            _copy(picture, inside(folder, files[name]))
        except BadInput:
            missing[name] = "leads out of the folder, or is no file"
        except OSError as error:
            missing[name] = error.strerror or str(error)
        else:
            classes[label] = classes.get(label, 0) + 1
    with (target / LABELS).open("wb") as file:
        write(everything, "jsonl", file)
    return Copied(classes, missing)


def file_names(names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """A name of a file for each name, no two the same, also where case does not count (`taken` are in use already).

    What a file system takes stays as it is; where two names would come to one, each gets a short hash of its own.

    >>> file_names(["C#", "deep/b.png"])
    {'C#': 'C#', 'deep/b.png': 'deep__b.png'}
    >>> sorted(file_names(["a/b", "a__b"]).values())
    ['a__b~63e5c1c455d0', 'a__b~c14cddc033f6']
    """
    safe = {name: _safe(name) for name in names}
    used = Counter(_alike(name) for name in (*safe.values(), *taken))
    return {name: plain if used[_alike(plain)] == 1 else _marked(plain, name) for name, plain in safe.items()}


def take_in(store: Store, given: Iterable[Record], replace: bool = False) -> int:
    """Import votes, each by its annotator; how many were new. The same file twice changes nothing.

    Where somebody says something else here already, that is an error, or a change of their mind (`replace`).

    Classes that are not known are refused, not made: a typo would become a class.
    """
    now, count = store.clock.now(), 0
    texts: dict[str, list[int]] = {}  # the items of each text; read once, where a record goes by its text
    taken: dict[tuple[int, int, str], str] = {}  # what a record called the item, by item, person and purpose
    for batch in batches(given, BATCH):
        try:
            count += store.write(partial(_take_all, now=now, batch=batch, replace=replace, texts=texts, taken=taken))
        except DataError as error:  # PostgreSQL takes no NUL in a text
            raise BadInput(f"the database takes no such label ({error.orig}); mend the file") from None
    return count


def _take_all(
    conn: Connection,
    now: float,
    batch: list[Record],
    replace: bool,
    texts: dict[str, list[int]],
    taken: dict[tuple[int, int, str], str],
) -> int:
    return sum(_take(conn, now, record, _found(conn, record, texts), replace, taken) for record in batch)


def _found(conn: Connection, record: Record, texts: dict[str, list[int]]) -> Any:
    """The item that a record is about: by its name; by its text where others gave it a name of their own."""
    row = conn.execute(select(schema.item).where(schema.item.c.name == record.name)).first()
    if row is not None and (record.text is None or row.text in (None, record.text)):
        return row
    if record.text is not None and not texts:
        texts.update(_by_text(conn))
    same = texts.get(record.text, []) if record.text is not None else []
    if len(same) == 1:
        return conn.execute(select(schema.item).where(schema.item.c.id == same[0])).one()
    if same:
        raise BadInput(
            f"there is no item {record.name!r}, and {len(same)} items have its text ({record.text!r:.60}); name the "
            "item in a column id"
        )
    if row is not None:
        raise BadInput(
            f"the item {record.name!r} has another text here: {row.text!r:.60}, and in the file {record.text!r:.60}; "
            "are its ids those of this project? If so, take the texts out of the file"
        )
    raise BadInput(f"there is no item {record.name!r} in this project; its labels cannot be taken in")


def _by_text(conn: Connection) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    item = schema.item.c
    for place, text in conn.execute(select(item.id, item.text).where(item.text.is_not(None))):
        found.setdefault(text, []).append(place)
    return found


def _take(
    conn: Connection, now: float, record: Record, row: Any, replace: bool, taken: dict[tuple[int, int, str], str]
) -> int:
    numbers = {name: at for at, name in enumerate(projects.classes(conn))}
    count = 0
    for vote in record.votes:
        if vote.kind == "label" and vote.label not in numbers:
            raise BadInput(
                f"{record.name!r} is labelled {vote.label!r}, which is no class here; add it first, in the team "
                f"view or with ncalr label ... --resume --classes {vote.label!r}"
            )
        person = people.by_name(conn, vote.by) or people.add(conn, now, vote.by, "annotator", active=False)
        mine = schema.vote.c
        there = conn.execute(
            select(schema.vote).where(mine.item_id == row.id, mine.person_id == person.id, mine.purpose == vote.purpose)
        ).first()
        answer = numbers.get(vote.label or "") if vote.kind == "label" else None
        whose = row.id, person.id, vote.purpose
        called = taken.get(whose)
        taken[whose] = record.name
        if there is not None and (there.kind, there.answer) == (vote.kind, answer):
            continue
        old = "" if there is None else there.kind if there.answer is None else repr(list(numbers)[there.answer])
        if there is not None and called is not None:
            raise BadInput(
                f"{vote.by!r} says two things about one item: {old} of {called!r} and {_word(vote)} of "
                f"{record.name!r}; leave one of the two"
            )
        if there is not None and not replace:
            raise BadInput(
                f"{vote.by!r} says something else about {record.name!r} in the project already: {old}, and in what is "
                f"taken in {_word(vote)}. With --replace (in Python replace=True) the new one counts"
            )
        before = None if there is None else there.event
        said = answers.Answer(str(uuid.uuid4()), row.key, vote.kind, vote.at, answer, before)
        reason = answers.Reason(
            vote.purpose,
            record.epoch or 0,
            record.arm or "import",
            record.score,
            record.probability,
            record.guideline,
            present=person.active,
        )
        answers.submit(conn, now, _acting(person), said, reason)
        count += 1
    return count


def _acting(person: people.Person) -> people.Person:
    """Somebody whose votes are imported need not be allowed in to have said what they said."""
    return people.Person(person.id, person.key, person.name, "reviewer", True)


def _opinions(conn: Connection, ids: list[int], names: list[str], known: dict[int, str]) -> tuple[Any, Any]:
    vote, event = schema.vote, schema.event
    rows = conn.execute(
        select(
            vote, event.c.answered, event.c.arm, event.c.epoch, event.c.score, event.c.probability, event.c.guideline
        )
        .join(event, event.c.id == vote.c.event)
        .where(vote.c.item_id.in_(ids))
        .order_by(vote.c.item_id, vote.c.seq)
    )
    votes: dict[int, list[Opinion]] = {}
    asked: dict[int, Any] = {}
    for row in rows:
        label = None if row.answer is None else names[row.answer]
        votes.setdefault(row.item_id, []).append(
            Opinion(known[row.person_id], row.kind, label, row.answered, row.purpose)
        )
        asked.setdefault(row.item_id, row)  # the first time it was asked for is how it was selected
    return votes, asked


def _record(row: Any, votes: tuple[Opinion, ...], asked: Any, names: list[str]) -> Record:
    return Record(
        row.name,
        row.status or "open",
        None if row.answer is None else names[row.answer],
        row.confidence or 0.0,
        asked.arm if asked is not None else None,
        asked.epoch if asked is not None else None,
        asked.score if asked is not None else None,
        asked.probability if asked is not None else None,
        asked.guideline if asked is not None else None,
        votes,
        row.text,
    )


# One form after the other


def _write_csv(given: Iterable[Record], target: Any, between: str = ",") -> None:
    rows = (
        {**asdict(record), "votes": json.dumps([asdict(vote) for vote in record.votes], ensure_ascii=False)}.values()
        for record in given
    )
    write_cells([entry.name for entry in fields(Record)], rows, target, between)


def write_cells(columns: list[str], rows: Iterable[Iterable[Any]], target: Any, between: str = ",") -> None:
    """A table to a binary file; what a spreadsheet would run is escaped."""
    text = io.TextIOWrapper(target, encoding="utf-8", newline="", write_through=True)
    out = csv.writer(text, delimiter=between, lineterminator="\r\n")  # a cell with either of the two is then quoted
    out.writerow(columns)
    for row in rows:
        out.writerow([_cell(value) for value in row])
    text.detach()


def _read_csv(source: Path) -> Iterator[Placed]:
    csv.field_size_limit(2**24)
    with source.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, delimiter=separator(source), strict=True)
        rows.fieldnames = stripped(list(rows.fieldnames or []))
        ours = "votes" in rows.fieldnames
        for row in rows:
            if is_blank([cell or "" for value in row.values() for cell in (value if type(value) is list else [value])]):
                continue  # as spreadsheets save them
            if None in row or None in row.values():
                hint = about_header(rows.fieldnames)
                raise ValueError(f"line {rows.line_num} has not as many cells as the first line.{hint}")
            yield f"line {rows.line_num}", _from_plain(_typed(row) if ours else row)


def _typed(row: dict[str, str]) -> dict[str, Any]:
    """A row of our own CSV: texts as they were, numbers as numbers."""
    plain: dict[str, Any] = {name: _uncell(value) for name, value in row.items()}
    for names, kind in ((("confidence", "score", "probability"), float), (("epoch", "guideline"), int)):
        for name in names:
            plain[name] = None if plain[name] is None else kind(plain[name])
    return {**plain, "votes": json.loads(plain["votes"])}


def _cell(value: Any) -> str:
    """Nothing is the empty cell; an empty text is a lone quote, so that the two are told apart."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return repr(value)
    return escaped(value) or "'"


def _uncell(cell: str) -> str | None:
    return (cell[1:] if cell.startswith("'") else cell) if cell else None


def _write_jsonl(given: Iterable[Record], target: Any) -> None:
    for record in given:
        target.write((json.dumps(asdict(record), ensure_ascii=False, allow_nan=False) + "\n").encode())


def _read_jsonl(source: Path) -> Iterator[Placed]:
    with source.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield f"line {number}", _from_plain(json.loads(line))


def _write_parquet(given: Iterable[Record], target: Any) -> None:
    pa, parquet = _arrow()
    vote = pa.struct(
        [
            ("by", pa.string()),
            ("kind", pa.string()),
            ("label", pa.string()),
            ("at", pa.float64()),
            ("purpose", pa.string()),
        ]
    )
    kinds = {
        "name": pa.string(),
        "status": pa.string(),
        "label": pa.string(),
        "confidence": pa.float64(),
        "arm": pa.string(),
        "epoch": pa.int64(),
        "score": pa.float64(),
        "probability": pa.float64(),
        "guideline": pa.int64(),
        "votes": pa.list_(vote),
        "text": pa.string(),
    }
    schema_ = pa.schema(list(kinds.items()))
    with parquet.ParquetWriter(target, schema_) as out:
        for batch in batches(given, BATCH):
            out.write_table(pa.Table.from_pylist([_plain(record) for record in batch], schema=schema_))


def _read_parquet(source: Path) -> Iterator[Placed]:
    _, parquet = _arrow()
    with parquet.ParquetFile(source, page_checksum_verification=True) as file:
        check_parquet(source, file.metadata)
        rows = (row for batch in file.iter_batches(BATCH) for row in _valid(batch).to_pylist())
        for number, row in enumerate(rows, 1):
            yield f"row {number}", _from_plain(row)


def _valid(batch: Any) -> Any:
    batch.validate(full=True)
    return batch


def _arrow() -> tuple[Any, Any]:
    return load("pyarrow", "parquet", "Parquet"), load("pyarrow.parquet", "parquet", "Parquet")


def _write_labelstudio(given: Iterable[Record], target: Any) -> None:
    """Label Studio's tasks with annotations; what it has no place for travels in `meta` of the task's data."""
    target.write(b"[")
    for at, record in enumerate(given):
        task = json.dumps(_task(record), ensure_ascii=False, allow_nan=False)
        target.write((",\n" if at else "\n").encode() + task.encode())
    target.write(b"\n]\n")


def _task(record: Record) -> dict[str, Any]:
    return {
        "data": {
            "ncalr": record.name,
            ("text" if record.text is not None else "image"): record.text or record.name,
        },
        "meta": {"ncalr": _plain(record)},
        "annotations": [_annotation(vote, record) for vote in record.votes if vote.kind in ("label", "skip")],
    }


def _annotation(vote: Opinion, record: Record) -> dict[str, Any]:
    choice = {
        "from_name": "label",
        "to_name": "item",
        "type": "choices",
        "value": {"choices": [vote.label]},
    }
    return {
        "completed_by": {"email": vote.by},
        "was_cancelled": vote.kind == "skip",
        "result": [choice] if vote.kind == "label" else [],
        "unique_id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"ncalr:{record.name}:{vote.by}:{vote.purpose}")),
    }


def _read_labelstudio(source: Path) -> Iterator[Placed]:
    for number, task in enumerate(json.loads(source.read_text(encoding="utf-8")), 1):
        meta = (task.get("meta") or {}).get("ncalr")
        yield f"task {number}", _from_plain(meta) if meta else _from_task(task)


def _from_task(task: dict[str, Any]) -> Record:
    """A task that was not exported by us: its annotations are votes."""
    data, votes = task["data"], []
    name = _name_in(data, ("ncalr", "image", "id", "text"))
    if name is None:
        raise BadInput(f"a task must have its item in data: ncalr, image, id or text; there are {', '.join(data)}")
    for annotation in task.get("annotations", []):
        who = annotation.get("completed_by")
        by = who.get("email") if isinstance(who, dict) else f"label studio user {who}"
        if annotation.get("was_cancelled"):
            votes.append(Opinion(str(by), "skip"))
        first = annotation.get("result", [])[:1]
        votes += [Opinion(str(by), "label", result["value"]["choices"][0]) for result in first]
    return Record(str(name), "open", votes=tuple(votes), text=data.get("text"))


def _plain(record: Record) -> dict[str, Any]:
    return {**asdict(record), "votes": [asdict(vote) for vote in record.votes]}


def _from_plain(plain: dict[str, Any]) -> Record:
    if "votes" not in plain:
        return _from_pair(plain)
    known = {entry.name for entry in fields(Record)}
    votes = tuple(Opinion(**vote) for vote in plain["votes"])
    return Record(**{**{name: value for name, value in plain.items() if name in known}, "votes": votes})


def _from_pair(plain: dict[str, Any]) -> Record:
    """A row of somebody else's table: a name and a label, and who said so where there is a column `by`."""
    text = next((plain[column] for column in TEXT_COLUMNS if isinstance(plain.get(column), str)), None)
    name = _name_in(plain, NAMES) or text
    if name is None or "label" not in plain:
        there = f"{', '.join(map(str, plain))}.{about_header(plain)}"
        raise BadInput(f"expected the columns name and label, or those of an export of ncalr; there are {there}")
    label, by = plain["label"], plain.get("by")
    if isinstance(label, list):  # doccano's
        if len(label) > 1:
            raise BadInput(f"{name!r} has {len(label)} labels, {', '.join(map(str, label))}; an item has one")
        label = label[0] if label else None
    said = Opinion(str(by or UNNAMED), "label", str(label)) if label not in (None, "") else None
    return Record(name, "open", votes=(said,) if said else (), text=text)


def _name_in(plain: dict[str, Any], columns: Iterable[str]) -> str | None:
    """How a row of somebody else's calls its item: what stands in the first of the columns that is there and full."""
    return next((str(plain[column]) for column in columns if plain.get(column) not in (None, "")), None)


def _written_before(path: Path) -> Iterable[Record] | None:
    """What stands in an earlier export, or in predictions of all items; None for a file of somebody else's."""
    if form_of(path) == "labelstudio":
        tasks = _tasks(path)  # one that was annotated since is another one
        return [_from_plain(task["meta"]["ncalr"]) for task in tasks] if all(map(_is_ours, tasks)) else None
    there = set(columns_of(path))
    if there == set(PREDICTIONS) and form_of(path) == "csv":  # as which alone they are written
        blocks = (block.columns for block in open_table(path).rows(["name", "label"]))
        pairs = (pair for columns in blocks for pair in zip(columns["name"], columns["label"], strict=True))
        return (Record(_uncell(name) or "", "open", _uncell(label.strip())) for name, label in pairs)
    ours = {"name", "label", "votes"} <= there <= {entry.name for entry in fields(Record)}
    return (record for _, record in _read(path)) if ours else None


def _tasks(path: Path) -> list[dict[str, Any]]:
    """The tasks of Label Studio in a file."""
    found = read_json(path)
    if not isinstance(found, list) or not all(isinstance(task, dict) for task in found):
        raise BadInput(f"{path} holds no tasks of Label Studio; expected a list of objects")
    return found


def _is_ours(task: dict[str, Any]) -> bool:
    """Whether an export wrote a task as it stands."""
    meta = task.get("meta")
    plain = meta.get("ncalr") if isinstance(meta, dict) else None
    try:
        return plain is not None and _task(_from_plain(plain)) == task
    except (AttributeError, KeyError, TypeError):
        return False


def _strangers(conn: Connection, given: Iterable[Record]) -> int:
    """How many labels nobody has ever given as an answer here; one that was replaced was given."""
    names = projects.classes(conn)
    item, event = schema.item.c, schema.event.c
    said = select(item.name, event.answer).join_from(schema.item, schema.event).where(event.answer.is_not(None))
    count = 0
    for batch in batches(given, BATCH):
        rows = conn.execute(said.where(item.name.in_({record.name for record in batch})).distinct())
        known = {(row.name, names[row.answer]) for row in rows}
        for record in batch:
            labels = {record.label, *(vote.label for vote in record.votes)} - {None}
            count += sum((record.name, label) not in known for label in labels)
    return count


def _copy(source: Path, place: Path) -> None:
    """Copy into a file that is not there yet; half a copy is not left behind."""
    with source.open("rb") as old, place.open("xb") as new:
        try:
            shutil.copyfileobj(old, new)
        except OSError:
            place.unlink()
            raise


def _safe(name: str) -> str:
    """A class or an item as the name of a file: no separators, not hidden, none that Windows refuses, not too long."""
    letters = name.replace("/", "__")
    plain = "".join(letter if letter.isprintable() and letter not in FORBIDDEN else "_" for letter in letters)
    plain = plain.strip(" .") or "_"
    if plain.partition(".")[0].casefold() in DEVICES:
        plain = f"_{plain}"
    return _marked(plain, name) if len(plain.encode()) > LONGEST else plain


def _marked(plain: str, name: str) -> str:
    """A name with a short hash of what it was made of before its ending; cut where it is too long."""
    stem, dot, ending = plain.rpartition(".")
    if not stem or len(ending) > 8:
        stem, dot, ending = plain, "", ""
    stem = stem.encode()[: LONGEST - 20].decode(errors="ignore")
    return f"{stem}~{hashlib.sha256(name.encode()).hexdigest()[:12]}{dot}{ending}"


def _alike(name: str) -> str:
    """The same for names that some file system takes for one."""
    return unicodedata.normalize("NFC", name).casefold()


WRITERS: dict[str, Callable[[Iterable[Record], Any], None]] = {
    "csv": _write_csv,
    "tsv": partial(_write_csv, between="\t"),
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
    "labelstudio": _write_labelstudio,
}
READERS: dict[str, Callable[[Path], Iterator[Placed]]] = {
    "csv": _read_csv,
    "tsv": _read_csv,
    "jsonl": _read_jsonl,
    "parquet": _read_parquet,
    "labelstudio": _read_labelstudio,
}
TYPES = {
    "csv": "text/csv; charset=utf-8",
    "tsv": "text/tab-separated-values; charset=utf-8",
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
    "labelstudio": "application/json",
}
ENDINGS = {"csv": "csv", "tsv": "tsv", "jsonl": "jsonl", "parquet": "parquet", "labelstudio": "json"}
