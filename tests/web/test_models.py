"""The trained model of a project: kept, one at a time; taken out; and what it says of the items."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from browserless import Server
from office import Office
from PIL import Image
from typer.testing import CliRunner

from ncalr.cli.app import app
from ncalr.data.pool import ArrayPool
from ncalr.errors import BadInput
from ncalr.extras import installed
from ncalr.learn.learner import Job
from ncalr.web import exchange, models, sources, worth
from ncalr.web.folder import Folder
from ncalr.web.models import Choice
from ncalr.web.store import projects, schema
from ncalr.web.worker import Worker

RULES = projects.Settings(first_training=8, step=4, size=8)


def pictures(root, count=24):
    """Dark ones and light ones; which are light."""
    root.mkdir()
    rng = np.random.default_rng(0)
    for at in range(count):
        level = 40 if at % 2 == 0 else 200
        noisy = np.clip(rng.normal(level, 12, (12, 12, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(root / f"p{at:02d}.png")
    return {f"p{at:02d}.png": at % 2 for at in range(count)}


def texts(path, count=24):
    words = ("goal match team ball", "bread soup cake salt")
    rng = np.random.default_rng(0)
    rows = [f"t{at:02d}," + " ".join(rng.choice(words[at % 2].split(), 3)) for at in range(count)]
    path.write_text("id,text\n" + "\n".join(rows) + "\n")
    return {f"t{at:02d}": at % 2 for at in range(count)}


class Shop:
    """A project on disk, its worker, and somebody who knows the truth."""

    def __init__(self, path, data, truth, embeddings="", rules=RULES):
        self.folder, self.truth = Folder(path), truth
        source = sources.find(data, embeddings=embeddings)
        self.folder.create(source)
        self.desk = Office(self.folder.database())
        projects.create(
            self.desk.store, "shop", source.kind, ["=dark", "light"], sources.take_stock(source).items, settings=rules
        )
        self.names = {row["key"]: row["name"] for row in self.desk.rows(schema.item)}
        self.worker = Worker(self.folder, self.desk.store)

    def label(self, count):
        for _ in range(count):
            [lease] = self.desk.next("ann")
            self.desk.say("ann", lease.item, self.truth[self.names[lease.item]], lease=lease.token)
        assert self.worker.step()

    def run(self, *words):
        return CliRunner().invoke(app, ["labels", *map(str, words)])

    def predicted(self, out, *more):
        result = self.run("predict", self.folder.path, out, *more)
        assert result.exit_code == 0, result.output
        with out.open(newline="") as file:
            return list(csv.DictReader(file)), result.output


def shop_of(kind, tmp_path):
    if kind == "words":
        return Shop(tmp_path / "p.ncalr", tmp_path / "t.csv", texts(tmp_path / "t.csv"))
    truth = pictures(tmp_path / "photos")
    if kind == "network":
        return Shop(tmp_path / "p.ncalr", tmp_path / "photos", truth, rules=quick_rules())
    rows = np.array([[value, 1 - value] for value in truth.values()], np.float32)
    np.save(tmp_path / "e.npy", rows + np.random.default_rng(1).normal(0, 0.1, rows.shape).astype(np.float32))
    return Shop(tmp_path / "p.ncalr", tmp_path / "photos", truth, str(tmp_path / "e.npy"))


def quick_rules():
    pytest.importorskip("torch", reason="the extra torch is not installed")
    return projects.Settings(first_training=8, step=4, size=8, recipe="digits(epochs=12)")


@pytest.mark.parametrize("kind", ["network", "words", "embeddings"])
def test_a_project_ends_in_a_model_that_predicts_the_rest(kind, tmp_path):
    shop = shop_of(kind, tmp_path)
    shop.label(16)
    rows, told = shop.predicted(tmp_path / "rest.csv")
    assert "8 predictions of a model trained on 16 labels" in told
    assert list(rows[0]) == ["name", "class", "probability"]
    said = {row["name"]: row["class"] for row in rows}
    assert len(said) == 8
    named = ["'=dark", "light"]  # what a spreadsheet would run is escaped
    assert np.mean([said[name] == named[shop.truth[name]] for name in said]) >= 0.85
    assert all(0.5 <= float(row["probability"]) <= 1 for row in rows)
    every, _ = shop.predicted(tmp_path / "all.csv", "--all")
    assert len(every) == 24
    assert sum(bool(row["label"]) for row in every) == 16
    learnt = shop.run("model", shop.folder.path, tmp_path / "mine").output
    by = {"network": "resnet8", "words": "a linear model", "embeddings": "mlp" if installed("torch") else "a linear"}
    assert by[kind] in learnt


def test_embeddings_are_learnt_by_a_head_where_torch_is(monkeypatch):
    pool = ArrayPool(np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32))
    rules = projects.Settings()
    for there, embedded, learns in ((True, True, ("mlp", "head")), (True, False, ("", "")), (False, True, ("", ""))):
        monkeypatch.setattr(models, "installed", lambda name, there=there: there)
        choice = Choice.of(rules, pool, embedded)
        assert (choice.network, choice.recipe) == learns
        assert bool(choice.freedom != 1.0) != bool(choice.network), "of the linear model alone"
    monkeypatch.setattr(models, "installed", lambda name: True)
    named = Choice.of(replace(rules, network="linear", recipe="head(epochs=5)"), pool, embedded=False)
    assert (named.network, named.recipe) == ("linear", "head(epochs=5)")


@pytest.mark.parametrize("kind", ["network", "words"])
def test_a_model_that_was_taken_out_says_the_same(kind, tmp_path):
    shop = shop_of(kind, tmp_path)
    shop.label(10)
    result = shop.run("model", shop.folder.path, tmp_path / "mine")
    assert "2 classes, trained on 10 labels" in result.output
    assert not [path.name for path in (tmp_path / "mine").iterdir() if path.suffix in (".pkl", ".pt", ".joblib")]
    kept = models.load(tmp_path / "mine")
    every, _ = shop.predicted(tmp_path / "all.csv", "--all")
    if kind == "words":
        pool = kept.read_texts([row["text"] for row in shop.desk.rows(schema.item)])
        with pytest.raises(BadInput, match="no pictures below"):
            kept.read_pictures(tmp_path)
    else:
        (tmp_path / "photos" / "torn.png").write_bytes(b"no picture")
        pool = kept.read_pictures(tmp_path / "photos")
        assert pool.ids.tolist() == sorted(shop.truth)
        with pytest.raises(BadInput, match="reads no texts"):
            kept.read_texts(["a"])
    sure = kept.probabilities(pool)
    assert kept.classes == ["=dark", "light"]
    np.testing.assert_allclose(sure.max(axis=1), [float(row["probability"]) for row in every], atol=1e-6)
    again = shop.run("model", shop.folder.path, tmp_path / "mine")
    assert again.exit_code
    assert "is there already" in str(again.exception)


def folders(shop):
    return {path for path in (shop.folder.path / "model").iterdir() if path.is_dir()}


def test_one_model_is_kept_and_it_is_always_whole(tmp_path, monkeypatch):
    shop = shop_of("words", tmp_path)
    shop.label(10)
    first = models.current(shop.folder)
    shop.label(4)
    second = models.current(shop.folder)
    assert first != second
    assert folders(shop) == {first, second}  # the one before is there for those who are reading it

    def killed(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(models, "write_whole", killed)
    with pytest.raises(OSError, match="full"):
        models.keep(shop.folder, models.load(second).model, models._about(second))
    monkeypatch.undo()
    assert models.latest(shop.folder).about.labels == 14
    assert folders(shop) == {first, second}  # nothing that is half written
    shop.label(4)
    assert folders(shop) == {second, models.current(shop.folder)}


class Replaced:
    """A reader's step, as which the model is replaced, `times` times, and the one that is being read removed."""

    def __init__(self, shop, real, times=1):
        self.shop, self.real, self.times = shop, real, times
        self.kept = models.latest(shop.folder)

    def __call__(self, *given, **named):
        if self.times:
            left, self.times = self.times - 1, 0  # writing a model may take the same step
            for _ in range(2):
                models.keep(self.shop.folder, self.kept.model, self.kept.about, self.kept.words)
            self.times = left
        return self.real(*given, **named)


READERS = {
    "latest": (models, "_about", lambda shop, tmp: models.latest(shop.folder)),
    "take_out": (models.shutil, "copytree", lambda shop, tmp: models.take_out(shop.folder, tmp / "out")),
    "pack": (models.zipfile, "ZipFile", lambda shop, tmp: models.pack(shop.folder, io.BytesIO(b"what was there"))),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_model_that_is_replaced_while_it_is_read_is_read_anew(reader, tmp_path, monkeypatch):
    shop = shop_of("words", tmp_path)
    shop.label(10)
    where, step, read = READERS[reader]
    monkeypatch.setattr(where, step, Replaced(shop, getattr(where, step)))
    read(shop, tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(where, step, Replaced(shop, getattr(where, step), times=99))
    with pytest.raises(BadInput, match="replaced 3 times while it was read"):
        read(shop, tmp_path / "again")


def test_a_model_that_cannot_be_taken_out_says_why(tmp_path):
    shop = shop_of("words", tmp_path)
    shop.label(10)
    (models.current(shop.folder) / "torn.npy").symlink_to("nowhere")
    with pytest.raises(BadInput, match=r"out cannot be written \(.*No such file"):
        models.take_out(shop.folder, tmp_path / "out")
    assert not (tmp_path / "out.part").exists()


def test_labels_of_a_class_that_is_newer_than_the_model_are_written(tmp_path):
    shop = shop_of("words", tmp_path)
    shop.label(10)
    shop.desk.store.write(lambda conn: projects.add_class(conn, "grey"))
    [lease] = shop.desk.next("ann")
    shop.desk.say("ann", lease.item, 2, lease=lease.token)
    rows, _ = shop.predicted(tmp_path / "all.csv", "--all")
    assert {row["name"]: row["label"] for row in rows}[shop.names[lease.item]] == "grey"


def test_predictions_replace_earlier_ones_unless_somebody_wrote_into_them(tmp_path):
    shop = shop_of("words", tmp_path)
    shop.label(10)
    out, line = tmp_path / "all.csv", ("predict", shop.folder.path, tmp_path / "all.csv", "--all")
    for _ in range(2):
        rows, _ = shop.predicted(out, "--all")
    assert list(rows[0]) == list(exchange.PREDICTIONS)
    assert {row["label"] for row in rows} == {"'=dark", "light", ""}
    written = out.read_text()
    for before, after in ((",,", ",light,"), (",'=dark,", ",light,")):  # one more label, another one
        out.write_text(written.replace(before, after, 1))
        assert "holds 1 labels that nobody gave in this project, which would be lost" in str(shop.run(*line).exception)
    out.write_text(written)
    assert shop.run(*line).exit_code == 0
    shop.predicted(out)  # of the others alone: in the place of an earlier one of all
    shop.predicted(out, "--all")


def test_without_a_model_or_with_another_reading_it_says_what_to_do(tmp_path):
    shop = shop_of("embeddings", tmp_path)
    for words in (("predict", shop.folder.path, tmp_path / "rest.csv"), ("model", shop.folder.path, tmp_path / "out")):
        result = shop.run(*words)
        assert result.exit_code
        assert "has no trained model yet" in str(result.exception)
    assert "written as .csv" in str(shop.run("predict", shop.folder.path, tmp_path / "rest.txt").exception)
    shop.label(10)
    facts = json.loads((shop.folder.path / "project.json").read_text())
    facts["source"]["embeddings"] = ""
    (shop.folder.path / "project.json").write_text(json.dumps(facts))
    result = shop.run("predict", shop.folder.path, tmp_path / "rest.csv")
    assert "the project now reads the items themselves" in str(result.exception)
    assert not (tmp_path / "rest.csv").exists()


def test_an_owner_gets_the_model_from_the_page(tmp_path):
    shop = shop_of("words", tmp_path)
    client = Server(shop.desk, folder=shop.folder).person("own", "owner")
    early = client.get("/api/model")
    assert early.status_code == 400
    assert "no trained model yet" in early.json()["error"]
    shop.label(10)
    with zipfile.ZipFile(io.BytesIO(client.get("/api/model").content)) as packed:
        packed.extractall(tmp_path / "unpacked")
    assert models.load(tmp_path / "unpacked" / "model").classes == ["=dark", "light"]
    nowhere = Server(shop.desk).person("own", "owner").get("/api/model")
    assert "no folder that keeps a model" in nowhere.json()["error"]


def test_pictures_that_cannot_be_read_are_left_out_and_counted(tmp_path):
    shop = shop_of("network", tmp_path)
    shop.label(10)
    open_ = [row["name"] for row in shop.predicted(tmp_path / "rest.csv")[0]]
    (tmp_path / "photos" / open_[0]).write_bytes(b"torn")
    rows, told = shop.predicted(tmp_path / "rest.csv")
    assert len(rows) == len(open_) - 1
    assert f"1 pictures could not be read, the first is '{open_[0]}'" in told
    for name in open_:
        (tmp_path / "photos" / name).write_bytes(b"torn")
    assert shop.predicted(tmp_path / "rest.csv")[0] == []


@pytest.mark.parametrize("unit", [0.01, 1.0, 100.0])
def test_the_linear_model_learns_in_whatever_unit_vectors_are_measured(unit):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    rows = rng.normal(0, 1, (200, 8)) + 2.0 * labels[:, None] * np.eye(8)[0]
    pool = ArrayPool((unit * rows).astype(np.float32))
    model = Choice.of(projects.Settings(), pool).learner().fit(Job(pool, np.arange(40), labels[:40], 2))
    said = model.predict(pool).argmax(axis=1)[40:]
    assert np.mean(said == labels[40:]) > 0.75
    assert model.predict(pool).max() > 0.9  # and not by a hair


def test_the_model_of_ones_own_learner_is_kept_for_that_learner(tmp_path):
    shop = shop_of("words", tmp_path)
    shop.worker = Worker(shop.folder, shop.desk.store, own_learner())
    shop.label(10)
    with pytest.raises(BadInput, match="load it with that learner"):
        models.load(models.current(shop.folder))


def own_learner():
    from sklearn.linear_model import LogisticRegression

    from ncalr.learn.sklearn_learner import SklearnLearner

    return SklearnLearner(LogisticRegression(C=0.5))


def test_a_model_that_says_no_more_than_a_constant_is_told(tmp_path):
    shop = shop_of("words", tmp_path)
    rng = np.random.default_rng(0)
    shop.truth = {name: int(rng.random() < 0.3) for name in shop.truth}  # nothing to be learnt
    monkey = pytest.MonkeyPatch()
    monkey.setattr(worth, "FIRST", 20)
    shop.label(20)
    monkey.undo()
    found = shop.desk.store.read(worth.latest)
    assert (found.labels, found.better) == (20, False)
    told = shop.predicted(tmp_path / "rest.csv")[1]
    assert f"not clearly better than always saying '{found.always}'" in told
    assert "ncalr embed" in told
    assert found.always in shop.run("model", shop.folder.path, tmp_path / "mine").output
    state = Server(shop.desk).person("own", "owner").get("/api/state").json()
    assert state["model"]["worth"] == {"labels": found.labels, "words": f"{found.words()}."}
    shop.label(4)
    assert shop.desk.store.read(worth.latest) == found  # told on until it is looked at again, at twice as many labels


@pytest.mark.parametrize("first", [20, 30])
def test_what_was_said_of_the_model_is_not_said_of_one_that_reads_vectors(first, tmp_path, monkeypatch):
    """With labels enough it is looked at anew; with fewer nothing is said."""
    shop = shop_of("words", tmp_path)
    rng = np.random.default_rng(0)
    shop.truth = {name: int(rng.random() < 0.3) for name in shop.truth}  # nothing to be learnt from the words
    monkeypatch.setattr(worth, "FIRST", 20)
    shop.label(20)
    assert not shop.desk.store.read(worth.latest).better
    rows = np.array([[2 * value, 1] for value in shop.truth.values()], np.float32)
    np.save(tmp_path / "e.npy", rows)
    facts = json.loads((shop.folder.path / "project.json").read_text())
    facts["source"]["embeddings"] = str(tmp_path / "e.npy")
    (shop.folder.path / "project.json").write_text(json.dumps(facts))
    monkeypatch.setattr(worth, "FIRST", first)
    shop.worker = Worker(shop.folder, shop.desk.store)
    shop.label(4)
    found = shop.desk.store.read(worth.latest)
    assert (found and (found.labels, found.better)) == ((24, True) if first == 20 else None)
    state = Server(shop.desk).person("pat", "annotator").get("/api/state")
    assert str(tmp_path) not in state.text


def test_a_model_that_learns_is_worth_it(tmp_path):
    shop = shop_of("embeddings", tmp_path)
    monkey = pytest.MonkeyPatch()
    monkey.setattr(worth, "FIRST", 16)
    shop.label(16)
    monkey.undo()
    found = shop.desk.store.read(worth.latest)
    assert found.better
    assert found.right > found.commonest
    assert shop.desk.store.read(worth.told) == []
    assert not worth.is_due(31, found)
    assert worth.is_due(32, found)


def test_too_few_labels_of_a_class_say_nothing(tmp_path):
    pool = ArrayPool(np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32))
    labels = np.array([0] * 8 + [1])
    assert worth.look(own_learner(), pool, np.arange(9), labels, ["a", "b"], 0) is None
