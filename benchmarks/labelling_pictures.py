"""The pictures of docs/labelling.md: every screen, desktop and phone, light and dark. `python benchmarks/labelling_pictures.py`"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "web"))
OUT = ROOT / "docs" / "pictures"
GUIDE = """# Handwritten digits

Say which digit was **meant**, not which one it looks like at first.

- a *seven* may have a bar
- an open top makes a *four*, a closed one a *nine*
- two digits, or none: `None of these`
"""


def main():
    from chromium import Site, Visit, chromium

    from ncalr.web.media import Media
    from ncalr.web.store import projects, ranking, review, schema

    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        folder = Path(name)
        truth = digits(folder / "digits", 400)
        site = Site(folder, Media(folder / "digits", folder / "cache"))
        desk = site.desk
        items = [projects.NewItem(f"{at:04d}.png") for at in range(400)]
        projects.create(desk.store, "digits", "image", list("0123456789"), items, votes=2, guideline=GUIDE)
        work(desk, truth, ranking, review, schema)
        desk.store.write(lambda conn: projects.change_settings(conn, suggestions=True))
        for size, viewport in (("desktop", (1280, 800)), ("phone", (390, 844))):
            for theme in ("light", "dark"):
                options = {"viewport": dict(zip(("width", "height"), viewport, strict=True)), "color_scheme": theme}
                me = Visit(
                    browser.new_context(
                        **options, has_touch=size == "phone", device_scale_factor=1.5 if size == "phone" else 1
                    )
                )
                door(browser, site, options, f"{size}_{theme}")
                me.open(site.link("Ada Lovelace", "owner")).ready()
                shoot(me, f"{size}_{theme}", size)
        site.stop()
        texts(browser, folder, Site, Visit, projects)


def digits(folder, count):
    from PIL import Image
    from sklearn.datasets import load_digits

    data = load_digits()
    folder.mkdir()
    for at in range(count):
        small = Image.fromarray((255 - data.images[at] * 15.9).clip(0, 255).astype(np.uint8))
        small.resize((320, 320), Image.Resampling.BICUBIC).save(folder / f"{at:04d}.png")
    return data.target[:count]


def work(desk, truth, ranking, review, schema):
    """Some days of labelling: four people, five models, a few mistakes, second looks and disagreements."""
    rng = np.random.default_rng(3)
    crew = [
        desk.person("Ada Lovelace", "owner"),
        desk.person("Grace Hopper", "reviewer"),
        desk.person("Alan Turing"),
        desk.person("Edsger Dijkstra"),
    ]
    error = dict(zip((p.name for p in crew), (0.02, 0.03, 0.08, 0.05), strict=True))
    known = {row["key"]: row["id"] for row in desk.rows(schema.item)}
    clock = desk.clock.now() - 4000
    spent = 0.0
    for number, share in enumerate((0.0, 0.55, 0.72, 0.83, 0.88, 0.92)):
        open_ids = sorted(
            set(range(1, 401)) - {row["item_id"] for row in desk.rows(schema.state) if row["status"] != "open"}
        )
        if number:
            order = rng.permutation(open_ids).tolist()
            rows = []
            for place, at in enumerate(order):
                right = int(truth[at - 1])
                guess = right if rng.random() < share else int(rng.integers(10))
                near = [
                    [right, 0.71],
                    [int((right + 3) % 10), 0.52],
                    [int((right + 7) % 10), 0.31],
                    [int((right + 5) % 10), 0.12],
                ]
                why = {"cmap_rank": 0.97 - place / 900, "ff_rank": 0.9 - place / 800, "near": near}
                arm, drawn = ("control", 0.1) if place % 4 == 1 else ("strategy", 0.9)
                rows.append(ranking.Ranked(at, arm, drawn, 1 - place / 400, guess, why))
            epoch = ranking.prepare(desk.store, rows)
            wrong = 0.09 - 0.01 * number
            told = number > 2
            audit = {"wrong": [wrong, wrong / 2, 1.7 * wrong] if told else None, "agrees": share, "asked": 0.58}
            facts = {
                "rule": "accuracy",
                "strategy": "ncal",
                "audit": audit,
                "covered": min(10, 7 + number),
                "nc1": 0.8 / number**2,
                "redundancy": 0.7 - 0.02 * number,
                "reserved": {"items": 40, "picked": 0},
            }
            ranking.swap(desk.store, epoch, ranking.Trained(20 * number, len(desk.rows(schema.event)), clock, facts))
        for _ in range(22):
            for person in crew[:3] if number % 2 else crew[1:]:
                for lease in desk.next(person.name):
                    right = int(truth[known[lease.item] - 1])
                    said = int(rng.integers(10)) if rng.random() < error[person.name] else right
                    spent += 2.5 + float(rng.random())
                    desk.say(person.name, lease.item, said, lease=lease.token, answered=clock + spent)
    labels = [row["item_id"] for row in desk.rows(schema.state) if row["status"] == "labelled"]
    doubts = [review.Doubt(at, 0.9, None, "a model that was not shown it says otherwise") for at in labels[:9]]
    desk.store.write(lambda conn: review.enqueue(conn, 5, doubts, labels[9:], 0))
    desk.store.write(
        lambda conn: conn.execute(
            schema.worker.update().values(state="training", message="", beat=desk.clock.now() + 3600)
        )
    )


def door(browser, site, options, name):
    """What somebody sees who has no link."""
    page = browser.new_context(**options).new_page()
    page.goto(site.address.url)
    page.wait_for_selector("#door:not([hidden])")
    time.sleep(0.3)
    page.screenshot(path=OUT / f"labelling_door_{name}.png")
    page.context.close()


def shoot(me, name, size):
    page = me.page
    window = page.viewport_size

    def picture(what, wait):
        time.sleep(wait)
        page.screenshot(path=OUT / f"labelling_{what}{name}.png")

    def opened(key, what, wait):
        page.keyboard.press(key)
        picture(what, wait)
        page.keyboard.press("Escape")

    page.wait_for_selector("#guide:not([hidden])")  # open at the first visit
    page.keyboard.press("Escape")
    picture("", 0.8)
    opened("?", "help_", 0.4)
    opened("h", "history_", 1.2)
    if page.is_visible("#view-review"):
        page.click("#view-review")
        picture("second_", 1)
        page.click("#view-label")
        time.sleep(0.6)
    page.keyboard.press(page.inner_text("#classes button")[:1])
    time.sleep(1.2)
    opened("w", "why_", 0.8)
    opened("g", "guide_", 0.3)
    if page.is_visible("#view-adjudicate"):
        page.click("#view-adjudicate")
        picture("decide_", 1)
    page.click("#view-team")
    page.wait_for_selector("#export-csv")
    if size == "desktop":
        page.set_viewport_size({"width": 1280, "height": 1750})
    picture("team_", 0.3)
    page.set_viewport_size(window)
    page.click("#items-button")
    page.select_option("#items-choice", label="7")
    picture("items_", 1.5)
    page.goto("about:blank")  # what it held goes back
    time.sleep(0.5)
    page.context.close()


def texts(browser, folder, site_class, visit_class, projects):
    place = folder / "texts"
    place.mkdir()
    site = site_class(place)
    words = (
        "The kettle arrived two days early and well packed. It boils a litre in about three minutes, pours without dripping, "
        "and the handle stays cool. My one complaint is the lid, which needs a firm push before it stays open; after a week "
        "I have got used to it."
    )
    names = [
        f"{a} {b}"
        for a in ("kitchen", "garden", "office", "travel", "sport", "music", "health", "toys")
        for b in ("praise", "complaint", "question", "return", "delivery")
    ]
    projects.create(site.desk.store, "reviews", "text", names, [projects.NewItem(str(at), words) for at in range(20)])
    for size, viewport in (("desktop", (1280, 800)), ("phone", (390, 844))):
        me = visit_class(
            browser.new_context(viewport=dict(zip(("width", "height"), viewport, strict=True)), color_scheme="light")
        )
        me.open(site.link("Ada Lovelace", "owner")).ready()
        me.page.fill("#filter", "kit")
        time.sleep(0.4)
        me.page.screenshot(path=OUT / f"labelling_text_{size}.png")
        if size == "desktop":
            me.page.fill("#filter", "")
            me.page.context.set_offline(True)
            me.page.click("#classes button >> nth=0")
            me.page.click("#classes button >> nth=1")
            me.page.wait_for_selector("#banner:not([hidden])")
            time.sleep(0.5)
            me.page.screenshot(path=OUT / "labelling_offline_desktop.png")
            me.page.context.set_offline(False)
    site.stop()


if __name__ == "__main__":
    main()
