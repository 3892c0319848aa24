"""Pools of texts: vectors of words for networks that take vectors, tokens for those of transformers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from optional import needed

from ncalr.data import ArrayPool, TextPool
from ncalr.data.splits import Subset
from ncalr.data.words import FILE, WIDTH, Words
from ncalr.errors import BadInput
from ncalr.learn import Job, SklearnLearner, TorchLearner
from ncalr.oracles import Truth, oracle_of

GOOD, BAD = ["great", "lovely", "superb"], ["awful", "dull", "boring"]
FILL = ["film", "plot", "scene", "music", "story"]


def texts(count, seed):
    """Texts with one telling word of their class, and the classes."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    made = [" ".join([*rng.choice(FILL, 3), rng.choice([BAD, GOOD][label])]) for label in labels]
    return made, labels


@pytest.fixture(scope="module")
def sets():
    train, labels = texts(60, 0)
    test, test_labels = texts(40, 1)
    pool = TextPool(train, [f"t{i}" for i in range(60)])
    return pool, labels, TextPool(test), test_labels


def learners():
    from sklearn.linear_model import LogisticRegression

    short = {"epochs": 12, "checkpoints": 3}
    return {
        "mlp": TorchLearner("mlp(widths=16)", "head", device="cpu", progress=False, **short),
        "linear": TorchLearner("linear", "head", device="cpu", progress=False, **short),
        "sklearn": SklearnLearner(LogisticRegression(C=100.0)),
    }


@pytest.mark.parametrize("name", ["mlp", "linear", "sklearn"])
def test_a_pool_of_texts_is_learnt_tested_saved_and_loaded(name, sets, tmp_path):
    pool, labels, test, test_labels = sets
    learner = learners()[name]
    job = Job(pool, pool.ids[:40], labels[:40], needs=frozenset({"features", "labelled_features", "labels"}))
    model = learner.fit(job)
    outputs = model.predict(test)
    assert np.mean(outputs.argmax(1) == test_labels) > 0.9
    assert model.watched.tolist() == pool.ids[40:].tolist()
    assert len(model.evidence()["features"]) == 20
    model.save(tmp_path)
    assert (tmp_path / FILE).exists()
    again = learners()[name].load(tmp_path)  # a learner that has not seen the pool
    np.testing.assert_allclose(again.predict(test), outputs, atol=1e-5)
    np.testing.assert_allclose(again.predict(Subset(test, [7, 3])), outputs[[7, 3]], atol=1e-5)


def test_only_the_pool_of_the_training_says_what_words_there_are(sets):
    pool, labels, test, _ = sets
    learner = learners()["mlp"]
    model = learner.fit(Job(pool, pool.ids[:40], labels[:40]))
    known = list(model.reader.words.terms)
    strange = TextPool(["zebra zebra", *test.texts])
    np.testing.assert_allclose(model.predict(strange)[1:], model.predict(test), atol=1e-6)
    assert model.reader.words.terms == known
    assert not any("zebra" in term for term in known)
    # a part of the pool has words of its own, as a test set that was divided off must not be looked at
    part = Subset(TextPool(["only here", *pool.texts]), np.arange(1, 61))
    assert "only" not in learner.fit(Job(part, part.ids[:40], labels[:40])).reader.words.terms


def test_words_are_turned_the_same_way_twice(tmp_path):
    train, _ = texts(300, 2)
    words, rows = Words.of([f"{text} number{at}" for at, text in enumerate(train)])
    assert rows.shape == (300, WIDTH)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(words([f"{train[5]} number5"]), rows[5:6], atol=1e-5)
    assert not words(["zebra"]).any()
    words.save(tmp_path)
    np.testing.assert_array_equal(Words.load(tmp_path)(train[:9]), words(train[:9]))
    (tmp_path / FILE).write_bytes(b"torn")
    with pytest.raises(BadInput, match=r"words\.npz cannot be read .*save the model again"):
        Words.load(tmp_path)


def test_texts_without_words_are_read_by_their_letters():
    words, rows = Words.of(["1", "2 2", "!", ""])
    assert words.letters
    np.testing.assert_allclose(words(["1", "2 2", "!"]), rows[:3], atol=1e-6)


@pytest.mark.parametrize("net", ["resnet8", "wide_resnet(depth=10)", "timm:resnet18"])
def test_a_network_for_images_says_what_reads_texts(net, sets):
    learner = TorchLearner(net, "digits", device="cpu", progress=False)
    for go in (
        lambda: learner.check(sets[0], 2),
        lambda: learner.fit(Job(sets[0], sets[0].ids[:9], sets[1][:9])),
    ):
        with pytest.raises(BadInput, match=r"takes images, the pool holds texts; take 'mlp' or 'linear'.*'hf:"):
            go()


@pytest.mark.parametrize("net", ["resnet8", "timm:resnet18"])
def test_a_network_for_images_says_what_reads_vectors(net):
    from ncalr.learn.nets import network

    with pytest.raises(BadInput, match=r"takes images .* the pool has items of shape \(7,\); try 'mlp'"):
        network(net, 2, (7,))


def test_a_model_of_vectors_does_not_read_texts(sets):
    rows = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    model = learners()["linear"].fit(Job(ArrayPool(rows), np.arange(20), np.arange(20) % 2))
    with pytest.raises(BadInput, match=r"trained on items of shape \(4,\), this pool has \(\)"):
        model.predict(sets[0])


def test_noise_by_the_item_reads_texts(sets):
    pool, labels, *_ = sets
    oracle = oracle_of("instance(rate=0.3)", Truth(pool.ids, labels, 2), 0, pool=pool)
    said = np.asarray(oracle.answer(pool.ids).labels)
    assert 0.1 < np.mean(said != labels) < 0.5


def test_a_network_of_transformers_reads_tokens(sets, tmp_path):
    transformers, tokenizers = needed("transformers", "hf"), needed("tokenizers", "hf")
    pool, labels, test, test_labels = sets
    words = ["[PAD]", "[UNK]", *GOOD, *BAD, *FILL]
    rules = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: at for at, word in enumerate(words)}, "[UNK]"))
    rules.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=rules, **special).save_pretrained(tmp_path / "bert")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=8, initializer_range=0.5, **sizes)
    transformers.BertModel(config).save_pretrained(tmp_path / "bert")
    short = {"epochs": 30, "checkpoints": 3, "device": "cpu", "progress": False}
    long = TorchLearner(f"hf:{tmp_path / 'bert'}", "head", **short)
    long.check(pool, 2)
    with pytest.raises(BadInput, match=r"reads at most 8 tokens, the pool's texts have 128: .*\(length=8\)"):
        long.fit(Job(pool, pool.ids[:40], labels[:40]))
    learner = TorchLearner(f"hf:{tmp_path / 'bert'}(length=8)", "head", **short)
    model = learner.fit(Job(pool, pool.ids[:40], labels[:40]))
    outputs = model.predict(test)
    assert model.shape == (8,)
    assert np.mean(outputs.argmax(1) == test_labels) > 0.9
    model.save(tmp_path / "model")
    assert not (tmp_path / "model" / FILE).exists()
    np.testing.assert_allclose(learner.load(tmp_path / "model").predict(test), outputs, atol=1e-5)
