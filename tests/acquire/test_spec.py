"""Strategies as text: read, written, split."""

from __future__ import annotations

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncalr.acquire.spec import Spec, cut, parse, split
from ncalr.errors import BadInput

WORDS = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda word: not keyword.iskeyword(word) and word not in ("true", "false", "none")
)
PLAIN_VALUES = st.one_of(
    WORDS,
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.booleans(),
    st.none(),
    st.lists(st.integers(), max_size=3),
)


def specs(values, least=0):
    """Specs with options of these kinds; inside another, one without options would read as a plain word."""
    return st.builds(Spec, WORDS, st.dictionaries(WORDS, values, min_size=least, max_size=3))


@given(specs(st.one_of(PLAIN_VALUES, specs(st.one_of(PLAIN_VALUES, specs(PLAIN_VALUES, 1)), 1))))
def test_what_is_written_reads_back(spec):
    assert parse(str(spec)) == spec


@pytest.mark.parametrize(
    "value", ["two words", "1", "True", "None", "true", "none", "a-b", "", "x, y=1", "if", "it's", "ª"]
)
def test_texts_that_are_no_words_read_back(value):
    spec = Spec("ncal", {"option": value})
    assert parse(str(spec)) == spec


def test_infinity_reads_back():
    assert parse(str(parse("stochastic_top_k(coldness=1e999)"))) == parse("stochastic_top_k(coldness=1e999)")


READ = {
    "ncal": Spec("ncal"),
    " ncal ": Spec("ncal"),
    "least-confidence": Spec("least_confidence"),
    "ncal()": Spec("ncal"),
    "ncal(fusion=rank)": Spec("ncal", {"fusion": "rank"}),
    "ncal(fusion='rank')": Spec("ncal", {"fusion": "rank"}),
    "ncal(sign=-1, center=True)": Spec("ncal", {"sign": -1, "center": True}),
    "a(b=true, c=false, d=none, e=[true, x])": Spec("a", {"b": True, "c": False, "d": None, "e": [True, "x"]}),
    "ncal( sign = +1 )": Spec("ncal", {"sign": 1}),
    "a(b=1.5e-3, c=None, d=[1, 2], e='x y')": Spec("a", {"b": 1.5e-3, "c": None, "d": [1, 2], "e": "x y"}),
    "ncal(select=filtered(multiple=3, then=k_center(space=gradients)))": Spec(
        "ncal", {"select": Spec("filtered", {"multiple": 3, "then": Spec("k_center", {"space": "gradients"})})}
    ),
}


@pytest.mark.parametrize("text", READ)
def test_texts_are_read(text):
    assert parse(text) == READ[text]


def test_space_around_a_spec_with_options():
    assert parse("  ncal(fusion=rank) ") == Spec("ncal", {"fusion": "rank"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ncal(",
        "ncal)",
        "ncal(rank)",
        "ncal(**x)",
        "3",
        "[ncal]",
        "a b",
        "a.b(c=1)",
        "ncal(a=b+1)",
    ],
)
def test_texts_that_cannot_be_read(text):
    with pytest.raises(BadInput, match=r"cannot read .*write it as name or name\(option=value, \.\.\.\)"):
        parse(text)


def test_an_option_given_twice_is_refused():
    with pytest.raises(BadInput, match="sign"):
        parse("ncal(sign=1, sign=-1)")


def test_the_reason_is_given():
    with pytest.raises(BadInput, match="options need names"):
        parse("ncal(rank)")
    with pytest.raises(BadInput, match=r"\*\* is not an option"):
        parse("ncal(**rank)")


def test_text_is_read_and_never_run(tmp_path):
    target = tmp_path / "made"
    with pytest.raises(BadInput):
        parse(f"ncal(a=open({str(target)!r}, 'w'))")
    assert not target.exists()


def test_spec_without_options_is_its_name():
    assert str(Spec("ncal")) == "ncal"
    assert str(Spec("ncal", {"select": Spec("top_k")})) == "ncal(select=top_k)"


SPLIT = {
    "": [],
    "random": ["random"],
    "random,margin": ["random", "margin"],
    " random , ncal(fusion=rank, sign=-1) ,": ["random", "ncal(fusion=rank, sign=-1)"],
    "a(b=c(d=1, e=2), f=3), g": ["a(b=c(d=1, e=2), f=3)", "g"],
}


@pytest.mark.parametrize("text", SPLIT)
def test_lists_are_split_outside_brackets(text):
    assert split(text) == SPLIT[text]


@pytest.mark.parametrize("text", ["x)", "(x", "it's)"])
def test_brackets_inside_texts_do_not_count(text):
    several = [Spec("a", {"b": text}), Spec("c")]
    assert [parse(part) for part in split(", ".join(map(str, several)))] == several


@given(st.lists(specs(st.one_of(WORDS, st.integers(), specs(WORDS, 1))), max_size=4))
def test_a_joined_list_splits_into_its_specs(several):
    assert [parse(part) for part in split(", ".join(map(str, several)))] == several


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a/b", ("a/b", "")),
        ("a/b(size=8)", ("a/b", "(size=8)")),
        ("a/b(size=(8, 12), c=[(1,)])", ("a/b", "(size=(8, 12), c=[(1,)])")),
        ("a (2020)/b(size=8)", ("a (2020)/b", "(size=8)")),
        ("a)", ("a)", "")),
    ],
)
def test_the_brackets_at_the_end_of_a_name_are_cut_where_they_open(text, parts):
    assert cut(text) == parts


@pytest.mark.parametrize(
    "text",
    [
        "ncal(select=" + "filtered(then=" * 7 + "top_k" + ")" * 8,
        "ncal(select=" + "filtered(then=" * 60 + "top_k" + ")" * 61,
        "(" * 1000 + "ncal" + ")" * 1000,
        "ncal(sign=" + "-" * 5000 + "1)",
        "ncal(sign=" + "-" * 60_000 + "1)",
        "ncal(sign=" + "1+" * 20_000 + "1)",
        "ncal" + ".a" * 20_000,
        "ncal(a=[" + "1, " * 30_000 + "])",
        "ncal(a={[]: 1})",
    ],
)
def test_what_is_nested_too_deep_or_too_long(text):
    with pytest.raises(BadInput, match=r"ncal|filtered|cannot read") as refused:
        parse(text)
    assert len(str(refused.value)) < 400


def test_specs_nested_too_deep_are_refused_however_they_are_made():
    deep = Spec("top_k")
    for _ in range(5):
        deep = Spec("filtered", {"then": deep})
    with pytest.raises(BadInput, match="filtered"):
        Spec("filtered", {"then": deep})


@pytest.mark.parametrize("value", [3.5, None, ["ncal"], b"ncal", {}])
def test_what_is_no_text_is_no_spec(value):
    with pytest.raises(BadInput, match="spec"):
        parse(value)
