"""The pages of the documentation that are made from the code: one a strategy, one a selector, and no loose links."""

from __future__ import annotations

import importlib.util
import posixpath
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from ncalr.acquire import selectors, strategies

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def hooks():
    found = importlib.util.spec_from_file_location("hooks_of_the_docs", DOCS / "hooks.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(hooks):
    return hooks.strategy_pages() | hooks.selector_pages()


def test_a_page_for_each_and_an_index(pages):
    assert set(pages) == {
        "strategies/index.md",
        "selectors/index.md",
        *(f"strategies/{name}.md" for name in strategies()),
        *(f"selectors/{name}.md" for name in selectors()),
    }


def test_a_page_has_the_note_of_its_file_and_the_facts(pages):
    ncal, k_center = pages["strategies/ncal.md"], pages["selectors/k_center.md"]
    assert "score(x) = ( z(CMAP(x)) + z(FF(x)) ) / 2" in ncal
    assert "* **options**: `sign=1`, `center=False`, `counts=paper`, `fusion=zscore`, `means=mean`" in ncal
    assert "* **picks by**: [`top_k`](../selectors/top_k.md)" in ncal
    assert "Gonzalez (1985)" in k_center
    assert "* **looks at scores**: no" in k_center
    assert "[coreset](../strategies/coreset.md)" in k_center


def test_links_lead_somewhere(pages):
    for name, text in pages.items():
        for link in re.findall(r"\]\(([^)]+\.md)\)", text):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), link))
            assert target in pages or (DOCS / target).exists(), f"{name} links to {link}"


def test_the_pages_stand_below_their_index(hooks, pages):
    config = hooks.on_config(SimpleNamespace(nav=[{"Start": "index.md"}, {"Strategies": "strategies/index.md"}]))
    assert set(re.findall(r"(?:strategies|selectors)/\w+\.md", str(config.nav))) == set(pages)


def test_pages_of_results_have_the_width_and_figures_stay_with_their_intervals(hooks):
    results, other = (
        SimpleNamespace(file=SimpleNamespace(src_uri=name), meta={}) for name in ("results/sst2.md", "lab.md")
    )
    text = "| +1.0 (-0.6 to +2.5) to cdal | 1,000 to 2,000 (see docs to read) |"
    shown = hooks.on_page_markdown(text, results, config=None, files=None)
    assert (
        shown.replace("\N{NO-BREAK SPACE}", "_")
        == "| +1.0_(-0.6_to_+2.5) to cdal | 1,000 to 2,000 (see docs to read) |"
    )
    hooks.on_page_markdown(text, other)
    assert (results.meta, other.meta) == ({"hide": ["toc"]}, {})
