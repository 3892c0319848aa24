"""axe on every screen of the labelling page, light and dark, desktop and phone: `python benchmarks/accessibility.py`

axe-core is fetched by npm into a temporary folder and not kept. Writes results/accessibility.md; ends with 1 where a
rule of WCAG 2.2 AA is broken.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import labelling_pictures as pictures

ROOT = Path(__file__).parents[1]
VERSION = "4.14.0"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}


def main():
    from chromium import Site, Visit, chromium

    from ncalr.web.media import Media
    from ncalr.web.store import projects, ranking, review, schema

    found = []
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        folder = Path(name)
        axe = fetch(folder)
        truth = pictures.digits(folder / "digits", 400)
        site = Site(folder, Media(folder / "digits", folder / "cache"))
        items = [projects.NewItem(f"{at:04d}.png") for at in range(400)]
        classes = list("0123456789")
        projects.create(site.desk.store, "digits", "image", classes, items, votes=2, guideline=pictures.GUIDE)
        pictures.work(site.desk, truth, ranking, review, schema)
        site.desk.store.write(lambda conn: projects.change_settings(conn, suggestions=True))
        place = folder / "texts"
        place.mkdir()
        many = Site(place)
        names = [f"class {at}" for at in range(40)]
        texts = [projects.NewItem(str(at), "Some words to read. " * 20) for at in range(6)]
        projects.create(many.desk.store, "texts", "text", names, texts)
        for size, (width, height) in SIZES.items():
            for theme in ("light", "dark"):
                options = {"viewport": {"width": width, "height": height}, "color_scheme": theme, "bypass_csp": True}
                options["has_touch"] = size == "phone"
                for screen, page in screens(browser, site, many, Visit, options):
                    found.append((screen, size, theme, *judge(page, axe)))
                    print(*found[-1][:4], [each["id"] for each in found[-1][4]], flush=True)
        site.stop()
        many.stop()
    (ROOT / "results" / "accessibility.md").write_text(text(found))
    return int(any(row[4] for row in found))


def fetch(folder):
    subprocess.run(["npm", "pack", f"axe-core@{VERSION}"], cwd=folder, check=True, capture_output=True)
    with tarfile.open(folder / f"axe-core-{VERSION}.tgz") as packed:
        return packed.extractfile("package/axe.min.js").read().decode()


def screens(browser, site, many, visit, options):
    """Every screen: its name, and a page that shows it."""
    page = browser.new_context(**options).new_page()
    page.goto(site.address.url)
    page.wait_for_selector("#door:not([hidden])")
    yield "door", page
    me = visit(browser.new_context(**options)).open(site.link("Ada Lovelace", "owner")).ready()
    page = me.page
    page.wait_for_selector("#guide:not([hidden])")  # open at the first visit
    page.keyboard.press("Escape")
    yield "label", page
    page.click("#light-button")
    yield "light and contrast", page
    page.click("#light-button")
    for name, key, close in (("keys", "?", "Escape"), ("history", "h", "Escape"), ("guidelines", "g", "g")):
        page.keyboard.press(key)
        time.sleep(0.6)
        yield name, page
        page.keyboard.press(close)
    page.keyboard.press("1")
    me.saved()
    page.keyboard.press("w")
    time.sleep(0.6)
    yield "why", page
    page.keyboard.press("Escape")
    for name in ("review", "adjudicate"):
        page.click(f"#view-{name}")
        time.sleep(0.8)
        yield {"review": "second look", "adjudicate": "decide"}[name], page
    page.click("#view-team")
    page.wait_for_selector("#export-csv")
    yield "team", page
    page.click("#items-button")
    page.wait_for_selector("#items-list li")
    yield "items", page
    page.context.close()
    me = visit(browser.new_context(**options)).open(many.link("Ada Lovelace", "owner")).ready()
    yield "text, many classes", me.page
    me.page.context.set_offline(True)
    me.page.click("#classes button >> nth=0")
    me.page.wait_for_selector("#banner:not([hidden])")
    yield "no connection", me.page
    me.page.context.set_offline(False)
    me.saved()
    me.page.context.close()


def judge(page, axe):
    """How many rules hold, and those that are broken."""
    page.evaluate(axe)
    found = page.evaluate("(rules) => axe.run(document, { runOnly: { type: 'tag', values: rules } })", RULES)
    return len(found["passes"]), found["violations"]


def text(found):
    broken = sum(len(row[4]) for row in found)
    lines = [
        "# Accessibility of the labelling page",
        "",
        f"axe-core {VERSION} in headless Chromium, rules {', '.join(RULES)}: {len(found)} looks at "
        f"{len({row[0] for row in found})} screens, {broken} violations. Made by `python benchmarks/accessibility.py`.",
        "",
        "What a program cannot see (whether the order of the keyboard makes sense, whether what is read aloud says enough)",
        "is in `tests/web/test_browser.py` as far as it can be asked: the whole path by keyboard, a name for everything.",
        "",
        "| screen | desktop light | desktop dark | phone light | phone dark |",
        "| --- | --- | --- | --- | --- |",
    ]
    for screen in dict.fromkeys(row[0] for row in found):
        cells = [cell(row) for row in found if row[0] == screen]
        lines.append(f"| {screen} | " + " | ".join(cells) + " |")
    for screen, size, theme, _, violations in found:
        lines += [
            f"* {screen}, {size}, {theme}: {each['id']} ({each['impact']}): {each['help']}; {node['html'][:120]!r}"
            for each in violations
            for node in each["nodes"]
        ]
    return "\n".join(lines) + "\n"


def cell(row):
    return f"{row[3]} rules hold" + (f", **{len(row[4])} broken**" if row[4] else "")


if __name__ == "__main__":
    sys.exit(main())
