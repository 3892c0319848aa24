"""A person's path through the page, in headless Chromium."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest
from chromium import Site, Visit, visit
from command import start

from ncalr.web import exchange
from ncalr.web.store import projects, review, schema
from ncalr.web.store.projects import NewItem

PAYLOAD = "<img src=x onerror=alert(1)><script>alert(2)</script>"


# -- the whole path, with the real command


@pytest.fixture
def digits(tmp_path):
    from PIL import Image
    from sklearn.datasets import load_digits

    data = load_digits()
    folder = tmp_path / "digits"
    folder.mkdir()
    for at in range(240):
        Image.fromarray((data.images[at] * 15.9).astype(np.uint8)).save(folder / f"{at:04d}.png")
    return folder, data.target[:240]


def test_from_a_folder_of_digits_to_a_model_trained_on_the_export(browser, digits, tmp_path):
    import sqlite3

    folder, truth = digits
    classes = ",".join("0123456789")
    process, link = start(
        folder, "--classes", classes, "--first", "20", "--step", "20", "--recipe", "digits(epochs=15, checkpoints=5)"
    )
    try:
        context = browser.new_context(accept_downloads=True)
        me = Visit(context).open(link).ready()
        page = me.page
        project = tmp_path / "digits.ncalr"
        with sqlite3.connect(project / "labels.db") as database:
            names = dict(database.execute("SELECT key, name FROM item"))
        database.close()

        def right():
            return int(truth[int(names[me.item][:4])])

        for at in range(30):  # by keyboard, three of them wrong
            me.press(str((right() + 1) % 10 if at in (4, 9, 14) else right()))
        me.press("u")  # unsure
        wrong = me.item
        me.press(str((right() + 3) % 10))
        page.keyboard.press("z")  # undo
        page.wait_for_selector(f"body[data-item='{wrong}']")
        me.press(str(right()))
        me.saved()

        context.set_offline(True)  # lose the network
        for _ in range(4):
            me.press(str(right()))
        page.wait_for_selector("#banner:not([hidden])")
        assert "No connection" in page.inner_text("#banner")
        page.wait_for_selector("#saved[data-state='waiting']")
        context.set_offline(False)  # and get it back
        me.saved()
        page.wait_for_selector("#banner[hidden]", state="attached", timeout=20000)

        page.wait_for_selector("body[data-epoch]:not([data-epoch='0'])", timeout=300000)  # the model retrains
        assert "Model of" in page.inner_text("#fresh")
        for _ in range(26):
            me.press(str(right()))
        me.saved()
        with sqlite3.connect(project / "labels.db") as database:
            [strategy] = database.execute("SELECT count(*) FROM event WHERE arm = 'strategy'").fetchone()
        database.close()
        assert strategy > 5  # the queue changed
        page.keyboard.press("w")
        page.wait_for_selector("#why[open] .bars")
        page.keyboard.press("Escape")

        page.wait_for_selector("#view-review:not([hidden])", timeout=300000)  # check a doubtful label
        page.click("#view-review")
        page.wait_for_selector("body[data-view='review']")
        me.ready()
        page.wait_for_selector("#picture-frame:not([hidden])")
        page.keyboard.press(str(right()))
        me.saved()
        page.click("#view-team")
        page.wait_for_selector("#export-csv")
        with page.expect_download() as download:
            page.click("#export-csv")
        download.value.save_as(tmp_path / "labels.csv")
        records = exchange.read(tmp_path / "labels.csv")
        done = sum(record.status != "open" for record in records)
        assert f"{done} of 240" in page.inner_text("#team")
        page.wait_for_selector(f"#progress-text:text-is('{done} of 240')")
        assert me.troubles == []
        assert me.foreign == []
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)
        process.stdout.close()

    from sklearn.linear_model import LogisticRegression

    from ncalr.data.pool import ArrayPool
    from ncalr.learn import SklearnLearner
    from ncalr.learn.learner import Job

    rows = [(int(record.name[:4]), int(record.label)) for record in records if record.label is not None]
    assert len(rows) >= 55
    from PIL import Image

    pixels = np.stack([np.asarray(Image.open(folder / f"{at:04d}.png")) for at in range(240)])
    pool = ArrayPool(pixels)
    model = SklearnLearner(LogisticRegression(max_iter=300)).fit(
        Job(pool, [at for at, _ in rows], [label for _, label in rows], 10)
    )
    rest = np.setdiff1d(np.arange(240), [at for at, _ in rows])
    assert (model.predict(pool, rest).argmax(axis=1) == truth[rest]).mean() > 0.6


# -- one thing at a time


def test_fifty_answers_given_without_a_network_survive_a_closed_tab_and_arrive_once_in_order(browser, site):
    """The tab holds a few items; whoever is cut off labels them, thinks again, and changes what was said."""
    site.desk.project(items=30)
    context = browser.new_context()
    first = Visit(context).open(site.link("ann")).ready()
    first.press("1")
    first.saved()
    first.page.wait_for_function("() => performance.getEntriesByType('resource').length > 3")
    time.sleep(0.3)  # the items ahead are there
    context.set_offline(True)
    given = []
    for turn in range(16):
        for key in f"{turn % 3 + 1}{(turn + 1) % 3 + 1}"[: 2 if turn % 2 else 1]:
            given.append((first.item, "label", int(key) - 1))
            first.press(key)
        for item, *_ in reversed(given[-2:] if turn % 2 else given[-1:]):
            given.append((item, "undo", None))
            first.page.keyboard.press("Control+z")
            first.page.wait_for_selector(f"body[data-item='{item}']")
    for key in "12":
        given.append((first.item, "label", int(key) - 1))
        first.press(key)
    assert len(given) == 50
    first.page.close()
    context.set_offline(False)
    again = Visit(context).open(site.address.url).ready()
    again.saved()
    keys = {row["id"]: row["key"] for row in site.desk.rows(schema.item)}
    rows = site.desk.rows(schema.event)[1:]
    assert [(keys[row["item_id"]], row["kind"], row["answer"]) for row in rows] == given
    assert [row["answered"] for row in rows] == sorted(row["answered"] for row in rows)
    assert all(row["received"] > row["answered"] for row in rows)
    assert len(site.desk.rows(schema.vote)) == 3


def test_what_is_heard_late_of_the_session_before_does_not_end_the_new_one(browser, site):
    site.desk.project(items=30)
    me = visit(browser, site).ready()
    me.press("1")
    me.saved()
    late = []
    me.page.route("**/api/answers/*", lambda route: late.append(route) if not late else route.continue_())
    me.press("2")
    me.page.context.clear_cookies()
    me.page.wait_for_selector("#door:not([hidden])", timeout=30000)
    me.page.fill("#token", site.link("ann"))
    me.page.keyboard.press("Enter")
    me.ready()
    late[0].fulfill(status=401, json={"detail": "the session is over"})
    me.saved()


def test_an_ended_session_keeps_the_answers_until_somebody_is_back(browser, site):
    site.desk.project(items=30)
    me = visit(browser, site).ready()
    me.press("1")
    me.saved()
    me.page.context.clear_cookies()
    me.press("2")
    me.page.wait_for_selector("#door:not([hidden])", timeout=15000)
    assert "Nothing is lost" in me.page.inner_text("#door-text")
    me.page.fill("#token", site.link("ann"))
    me.page.keyboard.press("Enter")
    me.ready()
    me.saved()
    assert [row["answer"] for row in site.desk.rows(schema.event)] == [0, 1]


def test_undo_goes_back_through_the_whole_session(browser, site):
    site.desk.project(items=30)
    me = visit(browser, site).ready()
    seen = []
    for key in "1231":
        seen.append(me.item)
        me.press(key)
    for item in reversed(seen):
        me.page.keyboard.press("Control+z")
        me.page.wait_for_selector(f"body[data-item='{item}']")
    me.saved()
    assert site.desk.rows(schema.vote) == []
    assert len(site.desk.rows(schema.event)) == 8
    me.press("3")
    me.saved()
    assert [row["answer"] for row in site.desk.rows(schema.vote)] == [2]
    assert not any(row["late"] for row in site.desk.rows(schema.event))


def test_a_hundred_classes_are_found_by_typing(browser, site):
    site.desk.project(items=10, classes=[f"kind {at:03d}" for at in range(100)])
    me = visit(browser, site).ready()
    me.page.wait_for_selector("#filter:focus")
    me.page.keyboard.type("042")
    before = me.item
    assert me.page.locator("#classes button:visible").count() == 1
    me.page.keyboard.press("Enter")
    me.page.wait_for_selector(f"body:not([data-item='{before}'])")
    me.saved()
    assert [row["answer"] for row in site.desk.rows(schema.event)] == [42]


def test_nothing_that_people_write_is_ever_run(browser, site):
    projects.create(
        site.desk.store,
        PAYLOAD,
        "text",
        [PAYLOAD, "b"],
        [NewItem(f"{PAYLOAD}{at}", PAYLOAD) for at in range(4)],
        guideline=f"# {PAYLOAD}\n- **{PAYLOAD}**",
        votes=2,
    )
    me = visit(browser, site, PAYLOAD, "owner").ready()
    assert me.page.inner_text("#text") == PAYLOAD
    me.page.wait_for_selector("#guide:not([hidden])")  # open at the first visit
    me.page.keyboard.press("Escape")
    me.press("1")
    me.saved()
    me.page.keyboard.press("h")
    me.page.wait_for_selector("#history-list li")
    me.page.keyboard.press("Escape")
    me.page.click("#view-team")
    me.page.wait_for_selector("#export-csv")
    assert me.page.locator("img[src='x']").count() == 0
    assert me.troubles == []


def test_two_tabs_and_two_people_never_show_the_same_item(browser, site):
    site.desk.project(items=30)
    context = browser.new_context()
    one = Visit(context).open(site.link("ann")).ready()
    two = Visit(context).open(site.address.url).ready()
    three = visit(browser, site, "ben").ready()
    for _ in range(3):
        assert len({one.item, two.item, three.item}) == 3
        for each in (one, two, three):
            each.press("1")
    for each in (one, two, three):
        each.saved()
    assert len({row["item_id"] for row in site.desk.rows(schema.event)}) == 9


def test_the_end_is_told_honestly(browser, site):
    site.desk.project(items=2)
    site.desk.next("ben", 1)
    me = visit(browser, site).ready()
    me.page.keyboard.press("1")
    me.page.wait_for_selector("#empty:not([hidden])")
    assert "1 still open" in me.page.inner_text("#empty-title")
    assert "1 colleague" in me.page.inner_text("#empty-text")
    site.desk.label("ben", 1)
    me.page.wait_for_selector("text=All done", timeout=15000)


def test_a_second_look_that_is_not_for_you_is_not_said_to_be_none(browser, site):
    site.desk.project(items=6)
    for _ in range(3):
        lease, _ = site.desk.label("ann")
    [item] = site.desk.names([lease])
    doubt = review.Doubt(item, 0.9, None, "its neighbours are labelled otherwise")
    site.desk.store.write(lambda conn: review.enqueue(conn, 1, [doubt], [], 0))
    site.desk.person("ben")
    me = visit(browser, site).ready()
    with me.page.expect_response("**/api/state"):
        me.page.evaluate("history.replaceState(null, '', '#review'); location.reload()")
    me.page.wait_for_selector("#empty-title:has-text('1 in line')")
    assert me.page.inner_text("#empty-title") == "None for you right now, 1 in line"
    assert me.page.inner_text("#review-count") == ""  # nothing she could do
    me.page.click("#view-label")
    me.page.wait_for_selector("#view-review", state="hidden")
    assert me.troubles == []


def test_a_reviewer_decides_what_people_disagree_about(browser, site):
    site.desk.project(items=1, votes=2)
    site.desk.label("ann", 0)
    site.desk.label("ben", 1)
    me = visit(browser, site, "rae", "reviewer")
    me.page.wait_for_selector("#view-adjudicate:not([hidden])", timeout=15000)
    me.page.click("#view-adjudicate")
    me.ready()
    me.page.wait_for_selector("#said .opinion")
    assert "1 says: cat" in me.page.inner_text("#said")
    assert "ann" not in me.page.inner_text("#said")
    me.page.keyboard.press("2")
    me.saved()
    assert site.desk.rows(schema.state)[0]["answer"] == 1


def test_an_invitation_asks_for_a_name(browser, site):
    site.desk.project(items=30)
    own = visit(browser, site, "own", "owner").ready()
    own.page.click("#view-team")
    own.page.click("text=Make a link")
    link = own.page.inner_text(".link-box")
    guest = Visit(browser.new_context()).open(link)
    guest.page.fill("#name", "New Person")
    guest.page.keyboard.press("Enter")
    guest.ready()
    assert [row["name"] for row in site.desk.rows(schema.person)] == ["own", "New Person"]


def test_everything_has_a_name_and_nothing_overflows_on_a_phone(browser, site):
    site.desk.project(items=5)
    me = visit(browser, site, "own", "owner", viewport={"width": 390, "height": 844}, has_touch=True).ready()
    unnamed = me.page.evaluate(
        "() => [...document.querySelectorAll('button, input, select, textarea, [role=img]')]"
        ".filter(e => e.offsetParent)"
        ".filter(e => !(e.innerText?.trim() || e.ariaLabel || e.title || e.labels?.length || e.placeholder))"
        ".map(e => e.outerHTML)"
    )
    assert unnamed == []
    for view in ("#view-team", "#view-label"):
        me.page.click(view)
        time.sleep(0.3)
        assert me.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    small = me.page.evaluate(
        "() => [...document.querySelectorAll('#classes button')]"
        ".filter(e => e.getBoundingClientRect().height < 44).length"
    )
    assert small == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(browser, site, theme):
    """WCAG AA: 4.5 to 1 for every text on the labelling screen."""
    site.desk.project(items=5)
    me = visit(browser, site, color_scheme=theme).ready()
    me.press("1")
    me.saved()
    weak = me.page.evaluate(CONTRAST)
    assert weak == []


CONTRAST = """() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (text) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const line = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => [r, g, b].map(v => line(v / 255))
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (node) => { for (; node; node = node.parentElement) {
    const c = rgba(getComputedStyle(node).backgroundColor); if (c[3] > 200) return c; } return [255, 255, 255, 255]; };
  const found = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !node.offsetParent || node.closest('.only-heard') || node.closest(':disabled')) continue;
    const [a, b] = [light(rgba(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push(`${node.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return found;
}"""


def test_memory_does_not_grow_with_the_work(browser, tmp_path):
    """Object URLs stay few; 5,000 pictures are in benchmarks/reliability.py."""
    from PIL import Image

    from ncalr.web.media import Media

    root = tmp_path / "photos"
    root.mkdir()
    for at in range(40):
        Image.new("RGB", (64, 64), (at * 6, 90, 120)).save(root / f"{at}.png")
    site = Site(tmp_path, Media(root, tmp_path / "cache", 1))
    try:
        projects.create(site.desk.store, "p", "image", ["a", "b"], [NewItem(f"{at}.png") for at in range(40)])
        context = browser.new_context()
        context.add_init_script(
            "window.urls = 0; const make = URL.createObjectURL, drop = URL.revokeObjectURL;"
            "URL.createObjectURL = (b) => { window.urls += 1; return make.call(URL, b); };"
            "URL.revokeObjectURL = (u) => { window.urls -= 1; return drop.call(URL, u); };"
        )
        me = Visit(context).open(site.link("ann")).ready()
        for _ in range(30):
            me.press("a")
        me.saved()
        assert me.page.evaluate("() => window.urls") <= 4 + 2
    finally:
        site.stop()
