"""What the page shows and what its keys and buttons do, one thing at a time, in headless Chromium."""

from __future__ import annotations

import pytest
from chromium import Site, visit

from ncalr.web.store import projects
from ncalr.web.store.projects import NewItem

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


@pytest.fixture
def gallery(tmp_path):
    """A server with pictures of these sizes, or with these bytes."""
    from PIL import Image

    from ncalr.web.media import Media

    made = []

    def build(files, classes=("a", "b")):
        root = tmp_path / "photos"
        root.mkdir()
        for name, what in files.items():
            if isinstance(what, bytes):
                (root / name).write_bytes(what)
            else:
                Image.new("RGB", what, (90, 120, 160)).save(root / name)
        made.append(Site(tmp_path, Media(root, tmp_path / "cache", 1)))
        projects.create(made[0].desk.store, "p", "image", list(classes), [NewItem(name) for name in files])
        return made[0]

    yield build
    for site in made:
        site.stop()


# -- the stage


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_a_picture_of_any_shape_is_shown_whole(browser, gallery, options):
    shapes = {"wide.jpg": (4000, 1500), "tall.jpg": (1500, 4000), "strip.jpg": (60, 1800), "small.png": (120, 100)}
    me = visit(browser, gallery(shapes), **options).ready()
    for at in range(len(shapes)):
        if at:
            me.press("1")
        me.page.wait_for_selector("#picture-frame:not([hidden])")
        seen = me.page.evaluate(
            "() => { const box = (id) => document.getElementById(id).getBoundingClientRect().toJSON();"
            "const image = document.getElementById('picture');"
            "return { frame: box('picture-frame'), picture: box('picture'), wide: image.naturalWidth,"
            "tall: image.naturalHeight }; }"
        )
        frame, picture = seen["frame"], seen["picture"]
        assert picture["top"] >= frame["top"] - 1
        assert picture["left"] >= frame["left"] - 1
        assert picture["bottom"] <= frame["bottom"] + 1
        assert picture["right"] <= frame["right"] + 1
        assert picture["width"] / picture["height"] == pytest.approx(seen["wide"] / seen["tall"], rel=0.05)
        if seen["tall"] == 100:
            assert picture["width"] == pytest.approx(120)  # what is small stays as it is
