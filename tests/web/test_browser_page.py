"""What the page shows and what its keys and buttons do, one thing at a time, in headless Chromium."""

from __future__ import annotations

import pytest
from chromium import Site, Visit, visit

from ncalr.web.store import people, projects, ranking, schema
from ncalr.web.store.projects import NewItem

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


@pytest.fixture
def gallery(tmp_path):
    """A server with pictures of these sizes, or with these bytes."""
    from PIL import Image

    from ncalr.web.media import Media

    made = []

    def build(files, classes=("a", "b")):
        root = tmp_path / "gallery" / "photos"
        root.mkdir(parents=True)
        for name, what in files.items():
            if isinstance(what, bytes):
                (root / name).write_bytes(what)
            else:
                Image.new("RGB", what, (90, 120, 160)).save(root / name)
        made.append(Site(root.parent, Media(root, tmp_path / "cache", 1)))
        projects.create(made[0].desk.store, "p", "image", list(classes), [NewItem(name) for name in files])
        return made[0]

    yield build
    for site in made:
        site.stop()


@pytest.fixture
def context(site, browser):
    """Where requests are tampered with: closed before the server stops."""
    made = browser.new_context()
    yield made
    made.unroute_all(behavior="ignoreErrors")
    made.close()


# -- the stage


@pytest.mark.parametrize("size", [(667, 375), (750, 342), (844, 390), (780, 1000), (880, 700)])
def test_nothing_covers_another_and_the_item_has_the_room(browser, gallery, size):
    shown = {"viewport": dict(zip(("width", "height"), size, strict=True))}
    me = visit(browser, gallery({"a.jpg": (400, 300), "b.jpg": (400, 300)}), "own", "owner", **shown).ready()
    me.page.evaluate("""() => {
        for (const tab of document.querySelectorAll('.tab')) tab.hidden = false;
        document.querySelector('#progress-text').textContent = '1242 of 24700';
    }""")
    places = "['#bar nav', '#progress-text', '#saved']"
    boxes = me.page.evaluate(f"{places}.map(name => document.querySelector(name).getBoundingClientRect().toJSON())")
    for at, one in enumerate(boxes):
        for other in boxes[at + 1 :]:
            apart = one["right"] <= other["left"] or one["bottom"] <= other["top"]
            assert apart, (one, other)
    stage = me.page.evaluate("document.querySelector('#stage').getBoundingClientRect().height")
    assert stage > 0.5 * size[1]


@pytest.mark.parametrize("width", [320, 390])
def test_answers_on_their_way_cover_nothing_on_a_phone(browser, site, width):
    site.desk.project(items=5)
    context = browser.new_context(viewport={"width": width, "height": 640})
    me = Visit(context).open(site.link("ann")).ready()
    context.route("**/api/**", lambda route: route.abort())
    me.press("1")
    me.page.evaluate("document.querySelector('#progress-text').textContent = '1,242 of 24,700'")
    assert me.page.inner_text("#saved") == "1"
    places = "['#progress-text', '#saved', '#theme-button']"
    boxes = me.page.evaluate(f"{places}.map(name => document.querySelector(name).getBoundingClientRect().toJSON())")
    assert boxes[0]["right"] <= boxes[1]["left"]
    assert boxes[2]["right"] <= width
    context.unroute_all(behavior="ignoreErrors")
    context.close()


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_a_picture_of_any_shape_is_shown_whole(browser, gallery, options):
    shapes = {"wide.jpg": (4000, 1500), "tall.jpg": (1500, 4000), "strip.jpg": (60, 1800), "small.png": (120, 100)}
    me = visit(browser, gallery(shapes), **options).ready()
    for at in range(len(shapes)):
        if at:
            me.press("a")
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


# -- keys


def said(site):
    """Kind and class of every event, in order."""
    return [(row["kind"], row["answer"]) for row in site.desk.rows(schema.event)]


def test_zero_is_a_class_where_one_has_it_and_fit_says_its_true_key(browser, site, gallery):
    pictures = gallery({"a.png": (900, 700), "b.png": (900, 700)}, [f"k{at}" for at in range(10)])
    me = visit(browser, pictures).ready()
    assert me.page.get_attribute("#zoom-reset", "title") == "Fit (Backspace)"
    me.page.keyboard.press("+")
    assert me.page.evaluate("() => document.getElementById('picture').style.transform")
    me.page.keyboard.press("Backspace")
    assert not me.page.evaluate("() => document.getElementById('picture').style.transform")
    me.page.keyboard.press("?")
    assert "Backspace" in me.page.inner_text("#keys")
    me.page.keyboard.press("Escape")
    me.press("0")
    me.saved()
    assert said(pictures) == [("label", 9)]
    site.desk.project(items=3)
    assert visit(browser, site).ready().page.get_attribute("#zoom-reset", "title") == "Fit (0)"


def test_classes_of_one_sign_have_it_as_their_key_and_commands_make_room(browser, site):
    site.desk.project(items=20, classes=["a", "b", "n", "d", "+", "two words"])
    me = visit(browser, site).ready()
    shown = me.page.locator("#others kbd").all_inner_texts()
    assert shown == ["u", "Shift+n", "Shift+b", "s", "z"]
    assert me.page.get_attribute("#theme-button", "title") == "Light or dark (Shift+d)"
    assert me.page.get_attribute("#zoom-in", "title") == "Larger"
    assert me.page.inner_text("[data-answer='5'] kbd") == "1"
    for key in ("b", "n", "d", "+", "1", "Shift+N", "Shift+B", "u"):
        me.press(key)
    me.saved()
    assert said(site) == [
        *(("label", at) for at in (1, 2, 3, 4, 5)),
        *((kind, None) for kind in ("none", "broken", "unsure")),
    ]


MANY = [f"kind {at:02d}" for at in range(30)]


def test_with_many_classes_commands_are_a_key_with_alt_while_the_field_has_the_letters(browser, site):
    site.desk.project(items=30, classes=MANY)
    me = visit(browser, site).ready()
    me.page.wait_for_selector("#filter:focus")
    assert me.page.locator("#others kbd").all_inner_texts() == [f"Alt+{key}" for key in "unbsz"]
    first = me.item
    for key in ("Alt+u", "Alt+n", "Alt+b"):
        me.press(key)
        assert me.page.input_value("#filter") == ""
    for _ in range(3):
        me.page.keyboard.press("Alt+z")
    me.page.wait_for_selector(f"body[data-item='{first}']")
    me.page.keyboard.press("?")  # an empty field does not want it
    me.page.wait_for_selector("#help[open]")
    me.page.keyboard.press("Escape")
    me.page.keyboard.type("u?")
    assert me.page.input_value("#filter") == "u?"
    me.page.keyboard.press("Escape")
    me.page.keyboard.press("Escape")  # out of the field: letters are commands again
    me.press("s")
    me.saved()
    assert [kind for kind, _ in said(site)] == ["unsure", "none", "broken", "undo", "undo", "undo", "skip"]


@pytest.mark.parametrize(
    ("typed", "keys", "chosen"),
    [
        ("iphone 12", [], "iPhone 12"),
        ("iphone 12", ["ArrowRight"], "iPhone 12 Pro"),
        ("phone", [], "phone case"),
        ("case", [], "case"),
        ("cafe", [], "Café"),
        ("", ["ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft"], "iPhone 12"),
    ],
)
def test_typing_finds_the_class_that_is_meant(browser, site, typed, keys, chosen):
    names = ["iPhone 12 Pro", "iPhone 12", "telephone", "my phone", "phone case", "case", "Café", *MANY]
    site.desk.project(items=3, classes=names)
    me = visit(browser, site).ready()
    me.page.wait_for_selector("#filter:focus")
    me.page.keyboard.type(typed)
    for key in keys:
        me.page.keyboard.press(key)
    marked = me.page.get_attribute("#filter", "aria-activedescendant")
    assert me.page.inner_text(f"#{marked}") == chosen
    me.press("Enter")
    me.saved()
    assert said(site) == [("label", names.index(chosen))]


def test_enter_labels_nothing_where_nothing_was_found_or_typed(browser, site):
    site.desk.project(items=3, classes=MANY)
    me = visit(browser, site).ready()
    me.page.wait_for_selector("#filter:focus")
    before = me.item
    me.page.keyboard.press("Enter")
    me.page.keyboard.type("nothing like it")
    assert me.page.is_visible("text=No class matches")
    me.page.keyboard.press("Enter")
    me.page.wait_for_timeout(150)
    assert me.item == before


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_a_long_class_name_takes_no_clicks_of_others_and_buttons_stay_where_they_are(browser, site, options):
    names = [*MANY]
    names[7] = "a long name " * 12
    site.desk.project(items=10, classes=names)
    me = visit(browser, site, **options).ready()
    where = (
        "() => [...document.querySelectorAll('#classes button')].map(b => { const r = b.getBoundingClientRect();"
        "return [Number(b.dataset.answer), r.left, r.top, r.height]; })"
    )
    covered = me.page.evaluate(
        "() => [...document.querySelectorAll('#classes button')].filter(b => { const r = b.getBoundingClientRect();"
        "const hit = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2);"
        "const area = document.getElementById('classes').getBoundingClientRect();"
        "return r.bottom < area.bottom && !b.contains(hit); }).map(b => b.innerText)"
    )
    assert covered == []
    places = me.page.evaluate(where)
    assert max(height for *_, height in places) < 60
    for at in (12, 3, 8):
        before = me.item
        me.page.locator(f"[data-answer='{at}']").click()
        me.page.wait_for_selector(f"body:not([data-item='{before}'])")
    assert sorted(me.page.evaluate(where)) == sorted(places)
    assert me.page.locator("#recent button span").all_inner_texts() == [names[at] for at in (12, 3, 8)]
    if not options:
        me.press("Alt+2")
        me.saved()
        assert said(site)[-1] == ("label", 3)


# -- views


def test_the_team_view_takes_nothing_back_unseen(browser, site):
    site.desk.project(items=30)
    me = visit(browser, site, "own", "owner").ready()
    me.press("1")
    me.saved()
    me.page.click("#view-team")
    me.page.wait_for_selector("#export-csv")
    for key in ("z", "h", "w", "1", "u", "Control+z"):
        me.page.keyboard.press(key)
    me.page.wait_for_timeout(200)
    assert me.page.is_visible("#team")
    assert me.page.locator("dialog[open]").count() == 0
    assert said(site) == [("label", 0)]
    me.page.click("#view-label")
    me.page.click("#view-team")  # before the item is there
    me.page.wait_for_timeout(200)
    assert me.page.is_visible("#team")
    me.page.click("#saved")  # from here, by what is seen
    me.page.click("#history-list button")
    me.page.wait_for_selector("#changing:not([hidden])")
    assert me.page.get_attribute("#view-label", "aria-current") == "page"
    assert me.troubles == []


def test_an_old_answer_can_be_looked_at_kept_and_changed(browser, site):
    site.desk.project(items=30)
    me = visit(browser, site).ready()
    old = me.item
    me.press("2")
    me.saved()
    item = me.item

    def change():
        me.page.keyboard.press("h")
        me.page.click("#history-list button")
        me.page.wait_for_selector(f"body[data-item='{old}']")

    change()
    assert "you said dog" in me.page.inner_text("#changing")
    assert "standing" in me.page.get_attribute("[data-answer='1']", "class")
    me.page.keyboard.press("s")  # not a way out that costs the label
    me.page.keyboard.press("Escape")
    me.page.wait_for_selector(f"body[data-item='{item}']")
    assert me.page.is_hidden("#changing")
    change()
    me.page.click("#view-label")
    me.page.wait_for_selector(f"body[data-item='{item}']")
    assert said(site) == [("label", 1)]
    change()
    me.press("3")
    assert me.item == item
    me.saved()
    assert said(site) == [("label", 1), ("label", 2)]
    me.page.keyboard.press("z")
    me.page.wait_for_selector(f"body[data-item='{old}']")
    me.page.click("#keep")
    me.page.wait_for_selector(f"body[data-item='{item}']")
    me.saved()
    assert [row["answer"] for row in site.desk.rows(schema.vote)] == [1]


def test_older_answers_are_listed_as_well(browser, site):
    site.desk.project(items=120)
    for _ in range(110):
        site.desk.label("ann")
    me = visit(browser, site).ready()
    me.page.keyboard.press("h")
    me.page.wait_for_selector("#history-more:not([hidden])")
    me.page.click("#history-more")
    me.page.wait_for_function("() => document.querySelectorAll('#history-list li').length === 110")
    assert me.page.is_hidden("#history-more")


# -- coming back


def test_a_session_that_ends_while_nothing_is_left_shows_the_door(context, site):
    site.desk.project(items=2)
    site.desk.next("ben")
    me = Visit(context).open(site.link("ann")).ready()
    me.page.keyboard.press("1")
    me.page.wait_for_selector("text=Nothing for you right now")
    context.route("**/api/state", lambda route: route.abort())  # it is the look for more that notices
    now = site.desk.clock.now()
    site.desk.store.write(lambda conn: people.revoke(conn, now, site.desk.person("ann")))
    me.page.wait_for_selector("#door:not([hidden])", timeout=8000)
    me.page.wait_for_timeout(300)
    assert me.page.is_visible("#door")
    assert me.page.is_hidden("#empty")


def test_an_owner_gives_somebody_a_new_link_and_another_role(browser, site):
    site.desk.project(items=30)
    site.desk.person("ann")
    own = visit(browser, site, "own", "owner").ready()
    own.page.click("#view-team")
    own.page.get_by_role("button", name="New link for ann").click()
    link = own.page.inner_text(".link-box")
    with own.page.expect_response("**/api/people/*"):
        own.page.get_by_role("combobox", name="Role of ann").select_option("reviewer")
    ann = Visit(browser.new_context()).open(link).ready()
    assert ann.page.is_visible("#view-team")  # as herself, with the new role
    assert [(row["name"], row["role"]) for row in site.desk.rows(schema.person)] == [
        ("ann", "reviewer"),
        ("own", "owner"),
    ]
    assert own.troubles == []


def test_a_pasted_invitation_asks_for_a_name_and_what_ann_answered_stays_hers(context, site):
    """Ann is cut off with an answer on its way; an invitation makes somebody new of her, and her own link Ann again."""
    site.desk.project(items=30)
    me = Visit(context).open(site.link("ann")).ready()
    me.page.route("**/api/answers/*", lambda route: route.abort())
    me.press("2")
    now = site.desk.clock.now()
    site.desk.store.write(lambda conn: people.revoke(conn, now, site.desk.person("ann")))
    me.page.wait_for_selector("#door:not([hidden])", timeout=15000)
    invitation = site.desk.store.write(lambda conn: people.issue(conn, now, "invitation", role="annotator"))
    me.page.fill("#token", f"{site.address.url}/#enter={invitation}")
    me.page.keyboard.press("Enter")
    me.page.wait_for_selector("#name:focus")
    assert "1 answer of ann" in me.page.inner_text("#door-text")
    me.page.unroute("**/api/answers/*")
    me.page.fill("#name", "Ann 2")
    me.page.keyboard.press("Enter")
    me.ready()
    assert "1 answer of ann waits in this browser: come back as ann" in me.page.inner_text("#banner")
    me.page.wait_for_timeout(300)
    assert said(site) == []
    me.page.evaluate("() => { document.body.dataset.item = ''; }")
    me.open(site.link("ann")).ready()  # in the same tab
    me.saved()
    assert me.page.is_hidden("#banner")
    assert said(site) == [("label", 1)]
    assert me.page.evaluate("() => Object.keys(localStorage).filter(k => k.startsWith('ncalr-answer')).length") == 0


# -- what the server says


def tells(target, **more):
    """Let the server's state say more than it does."""

    def handler(route):
        reply = route.fetch()
        state = reply.json()
        for name, value in more.items():
            state[name] = {**state[name], **value} if isinstance(value, dict) else value
        route.fulfill(response=reply, json=state)

    target.unroute("**/api/state")
    target.route("**/api/state", handler)


def test_changed_guidelines_are_announced_and_answers_name_the_version_that_was_shown(context, site):
    site.desk.project(items=30)
    sent = []

    def take(route):
        sent.append(route.request.post_data_json.pop("guideline", None))
        body = {name: value for name, value in route.request.post_data_json.items() if name != "guideline"}
        route.continue_(post_data=body)

    context.route("**/api/answers/*", take)
    tells(context, guideline=1)
    me = Visit(context).open(site.link("ann")).ready()
    me.page.wait_for_selector("body[data-epoch]")
    me.press("1")
    now = site.desk.clock.now()
    site.desk.store.write(lambda conn: projects.write_guideline(conn, now, "# Seven\nhas a bar"))
    tells(context, guideline=2)
    me.page.wait_for_selector("text=The guidelines changed", timeout=15000)
    me.press("1")
    me.saved()
    me.page.reload()  # does not make them read
    me.ready()
    me.page.wait_for_selector("text=The guidelines changed", timeout=15000)
    me.press("1")
    me.page.click("text=Read them")
    me.page.wait_for_selector("#guide >> text=has a bar")
    assert me.page.is_hidden("#banner")
    me.page.keyboard.press("Escape")
    me.press("1")
    me.saved()
    assert sent == [1, 1, 1, 2]


def test_with_several_votes_the_bar_counts_answers(context, site):
    site.desk.project(items=30, votes=2)
    tells(context, progress={"answers": 7, "wanted": 60, "undecided": 0})
    me = Visit(context).open(site.link("ann")).ready()
    me.page.wait_for_selector("text=7 of 60 answers")
    assert me.page.get_attribute("#progress", "aria-valuemax") == "60"


@pytest.mark.parametrize(("role", "button"), [("reviewer", True), ("annotator", False)])
def test_all_done_is_not_said_while_there_is_something_to_decide(browser, site, role, button):
    site.desk.project(items=1, votes=2)
    site.desk.label("ben", 0)
    site.desk.label("cem", 1)
    me = visit(browser, site, "ann", role)
    me.page.wait_for_selector("text=Everything is answered")
    assert "1 item is still to be decided" in me.page.inner_text("#empty-text")
    assert me.page.is_visible("#decide") == button
    if button:
        assert me.page.inner_text("#decide.primary") == "1 to decide"
        me.page.click("#decide")
        me.ready()
        assert me.page.get_attribute("#view-adjudicate", "aria-current") == "page"


@pytest.mark.parametrize(
    ("worker", "foot", "banner"),
    [
        ("off", "Training is switched off", False),
        ("starting", "No model yet", False),
        ("gone", "", True),
    ],
)
def test_only_a_training_process_that_should_run_is_missed(context, site, worker, foot, banner):
    site.desk.project(items=3)
    tells(context, model={"worker": worker, "message": ""})
    me = Visit(context).open(site.link("ann")).ready()
    me.page.wait_for_selector("body[data-epoch]")
    assert me.page.inner_text("#fresh") == foot
    assert me.page.is_visible("#banner") == banner


def test_a_project_that_cannot_be_opened_says_so(context, site):
    site.desk.project(items=3)
    context.route("**/api/project", lambda route: route.fulfill(status=400, json={"error": "it holds no project"}))
    me = Visit(context).open(site.link("ann"))
    me.page.wait_for_selector("text=The project cannot be opened: it holds no project")
    assert me.page.is_hidden("#bar")
    assert me.troubles == []


# -- without a network


def test_the_connection_is_back_and_the_answers_go_at_once(context, site):
    site.desk.project(items=40)
    me = Visit(context).open(site.link("ann")).ready()
    me.press("1")
    me.saved()
    me.page.wait_for_timeout(200)
    down = lambda route: route.abort()  # noqa: E731
    me.page.route("**/api/**", down)
    me.press("1")
    me.page.wait_for_selector("text=Go on with the 3 items that are here")
    me.press("1")
    me.page.wait_for_selector("text=Go on with the 2 items that are here")
    me.page.wait_for_timeout(4000)  # the pauses between two tries are long by now
    me.page.unroute("**/api/**", down)
    me.page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")  # whatever is asked first
    me.page.wait_for_selector("#banner[hidden]", state="attached", timeout=2000)
    me.page.wait_for_selector("#saved[data-state='fine']", timeout=1000)
    me.press("1")
    me.saved()
    held = [row for row in site.desk.rows(schema.lease) if row["status"] == "held"]
    assert len(held) > 6  # it may happen again


# -- what is read


def test_an_answer_waits_where_the_server_goes_by_another_name_now(context, site):
    site.desk.project(items=5)
    me, address = Visit(context).open(site.link("ann")).ready(), site.office.address
    names = address.hosts
    object.__setattr__(address, "hosts", frozenset({"labels.example.org"}))
    me.press("1")
    me.page.wait_for_selector("text=No connection")
    assert me.page.inner_text("#saved") == "1 on the way"
    object.__setattr__(address, "hosts", names)
    me.saved()
    assert len(site.desk.rows(schema.event)) == 1


@pytest.mark.parametrize("status", [200, 404, 405, 408])
def test_an_answer_that_something_in_the_servers_place_replies_to_is_kept(context, site, status):
    site.desk.project(items=5)
    me = Visit(context).open(site.link("ann")).ready()
    context.route("**/api/answers/*", lambda route: route.fulfill(status=status, body="<h1>A proxy</h1>"))
    me.press("1")
    me.page.wait_for_selector("text=No connection")
    assert me.page.inner_text("#saved") == "1 on the way"
    context.unroute("**/api/answers/*")
    me.saved()
    assert len(site.desk.rows(schema.event)) == 1


def test_a_picture_that_did_not_come_once_is_asked_for_again(browser, gallery):
    site, missed = gallery({f"{at}.png": (40, 30) for at in range(5)}), []
    context = browser.new_context()

    def lose(route):
        missed.append(route.abort() if len(missed) < 2 else route.continue_())

    context.route("**/picture", lose)
    me = Visit(context).open(site.link("ann"))
    me.page.wait_for_selector("#picture-frame:not([hidden])", timeout=15000)
    me.ready().press("a")
    me.saved()
    assert len(missed) > 2
    context.close()


def test_whoever_comes_in_again_in_another_tab_goes_on_in_the_first(context, site):
    site.desk.project(items=20)
    me = Visit(context).open(site.link("ann")).ready()
    other = Visit(context).open(site.link("ann")).ready()
    me.press("1")
    me.saved()
    other.press("2")
    other.saved()
    assert [event["answer"] for event in site.desk.rows(schema.event)] == [0, 1]
    assert not me.page.is_visible("#door")
    Visit(context).open(site.link("ben")).ready()  # and what she answers after it is never sent as somebody else's
    me.page.keyboard.press("1")
    me.page.wait_for_selector("#door:not([hidden])", timeout=15000)
    assert len(site.desk.rows(schema.event)) == 2


def test_texts_from_right_to_left_and_empty_ones(browser, site):
    items = [NewItem("a", "שלום לכולם!"), NewItem("b", "  "), NewItem("c", "plain")]
    projects.create(site.desk.store, "p", "text", ["כן", "no"], items)
    me = visit(browser, site).ready()
    seen = {}
    for _ in range(3):
        text = me.page.inner_text("#text")
        seen[text] = me.page.evaluate("() => getComputedStyle(document.getElementById('text')).direction")
        me.page.keyboard.press("1")
        me.page.wait_for_timeout(150)
    assert seen == {"שלום לכולם!": "rtl", "(empty text)": "ltr", "plain": "ltr"}
    assert me.page.get_attribute("[data-answer='0'] span", "dir") == "auto"
    me.page.keyboard.press("h")
    me.page.wait_for_selector("#history-list li")
    assert me.page.get_attribute("#history-list .words", "dir") == "auto"


def test_a_file_that_is_no_picture_is_explained_to_people(context, gallery):
    site = gallery({"odd.png": b"this is no picture"})

    def named(route):
        reply = route.fetch()
        found = reply.json()
        for item in found["items"]:
            item["name"] = "folder/odd.png"
        route.fulfill(response=reply, json=found)

    context.route("**/api/next", named)
    me = Visit(context).open(site.link("ann")).ready()
    me.page.wait_for_selector("#unshown:not([hidden])")
    text = me.page.inner_text("#unshown")
    assert "folder/odd.png cannot be shown as a picture" in text
    assert "Error" not in text
    assert "0x" not in text
    assert me.page.inner_text("#item-name") == "odd.png"


def test_a_picture_of_several_pages_says_so_and_one_that_browsers_do_not_know_is_shown(browser, gallery):
    import io

    from PIL import Image

    first, *others = (Image.new("L", (40, 30), 40 * at) for at in (1, 2, 3))
    several, alone = io.BytesIO(), io.BytesIO()
    first.save(several, "TIFF", save_all=True, append_images=others)
    first.save(alone, "TIFF")
    site = gallery({"a.tif": several.getvalue(), "b.tif": alone.getvalue()})
    me = visit(browser, site, "own", "owner").ready()
    names = []
    for last in (False, True):
        me.page.wait_for_selector("#picture-frame:not([hidden])")
        assert me.page.evaluate("document.querySelector('#picture').naturalWidth") == 40
        names.append(me.page.inner_text("#item-name"))
        if not last:
            me.press("a")
    assert sorted(names) == ["a.tif · page 1 of 3", "b.tif"]


GUIDE = """# Digits
1. look
2. *then* press
- see [the page](https://example.org/a_(b)) or https://example.org/c.
- [bad](javascript:alert(1)) <b>raw</b>

| digit | means |
| --- | --- |
| **7** | seven <img src=x onerror=alert(3)> |
"""


def test_guidelines_have_links_numbers_and_tables(browser, site):
    items = [NewItem("a", "a")]
    projects.create(site.desk.store, "p", "text", ["x", "y"], items, guideline=GUIDE)
    me = visit(browser, site).ready()
    me.page.wait_for_selector("#guide:not([hidden])")
    guide = me.page.locator("#guide-text")
    assert guide.locator("ol li").all_inner_texts() == ["look", "then press"]
    links = guide.locator("a")
    assert [link.get_attribute("href") for link in links.all()] == [
        "https://example.org/a_(b)",
        "https://example.org/c",
    ]
    assert {link.get_attribute("rel") for link in links.all()} == {"noopener noreferrer"}
    assert "[bad](javascript:alert(1)) <b>raw</b>" in guide.inner_text()
    assert guide.locator("table td").all_inner_texts() == ["7", "seven <img src=x onerror=alert(3)>"]
    assert guide.locator("img, b, script").count() == 0
    assert me.troubles == []


def test_the_bar_asks_once_at_a_time_so_that_the_newest_count_stands(context, site):
    site.desk.project(items=6)
    me = Visit(context).open(site.link("ann")).ready()
    me.page.wait_for_selector("body[data-epoch]")
    asked = []

    def hold(route):
        asked.append(route)
        if len(asked) > 1:
            route.continue_()

    me.page.route("**/api/state", hold)
    me.press("1")
    me.saved()
    while not asked:
        me.page.wait_for_timeout(20)
    old = asked[0].fetch()  # what the server says now, and what arrives late
    me.press("1")
    me.saved()
    me.page.wait_for_timeout(600)
    assert len(asked) == 1
    asked[0].fulfill(response=old)
    me.page.wait_for_selector("#progress-text:text-is('2 of 6')", timeout=3000)


# -- the team view's figures


def team_of(me):
    me.page.click("#view-team")
    me.page.wait_for_selector("#team .tile")
    return me.page.inner_text("#team")


def test_the_time_that_is_left_counts_answers_not_items(browser, site):
    """75 items with two votes each, 25 of them done, 60 answers an hour each: a hundred answers, 50 minutes."""
    site.desk.project(items=75, votes=2)
    for at in range(25):
        for name in ("ann", "ben"):
            [lease] = site.desk.next(name)
            site.desk.say(name, lease.item, 0, lease=lease.token, answered=60.0 * at)
    assert "the rest takes 50 min of work" in team_of(visit(browser, site, "own", "owner").ready())


def models(desk, right, facts):
    """A model for each of these: one control item each, guessed right or wrong."""
    for at, good in enumerate(right):
        epoch = ranking.prepare(desk.store, [ranking.Ranked(at + 1, "control", 0.1, None, 0 if good else 1)])
        ranking.swap(desk.store, epoch, ranking.Trained(10 * at + 10, 0, desk.clock.now(), facts))
        desk.label("ann", 0)


def test_a_handful_of_control_items_is_no_curve_and_nobody_is_told_to_stop(browser, site):
    site.desk.project(items=60)
    models(site.desk, [0, 1, 0, 0, 1, 0, 0, 0], {"rule": "flips"})
    said = team_of(visit(browser, site, "own", "owner").ready())
    assert "Learning curve" not in said
    assert "8 control items so far" in said
    assert "cannot tell yet" in said
    assert "too few control items" in said
    assert "\tstop" not in said


def test_enough_control_items_are_a_curve_and_the_card_has_its_facts(browser, site):
    site.desk.project(items=60)
    audit = {"wrong": [0.08, 0.06, 0.1], "agrees": 0.9, "asked": 0.7}
    facts = {"audit": audit, "nc1": 0.0321, "covered": 3, "redundancy": 0.5, "reserved": {"items": 6, "picked": 0}}
    models(site.desk, [1] * 12, facts)
    said = team_of(visit(browser, site, "own", "owner").ready())
    assert "Learning curve" in said
    assert "set aside at random from the whole folder" in said
    assert "3 of 3\t8 % (6 % to 10 %)\t100 % (76 % to 100 %)\t12\t0.032\t0.50\tcheck labels" in said.replace(
        "\u202f", " "
    )


def test_an_owner_reads_what_the_last_training_noted(browser, site):
    site.desk.project(items=60)
    models(site.desk, [1], {"notes": ["this is over"]})
    models(site.desk, [1], {"notes": ["<b>1 of 3 classes</b> has <img src=x onerror=alert(1)> no label yet"]})
    own = visit(browser, site, "own", "owner").ready()
    assert "The last training noted:" in team_of(own)
    assert own.page.locator("#noted li").all_inner_texts() == [
        "<b>1 of 3 classes</b> has <img src=x onerror=alert(1)> no label yet."
    ]
    assert own.troubles == []
    assert "noted" not in team_of(visit(browser, site, "eve", "reviewer").ready()), "who cannot change anything"


@pytest.mark.parametrize(
    ("arm", "strategy", "words"),
    [
        ("strategy", "ncal(fusion=rank)", "geometry of the classes"),
        ("strategy", "margin", "The strategy of this project, margin, put it first"),
        ("control", "margin", "25 % of the items are"),
    ],
)
def test_the_reason_goes_by_the_projects_settings(browser, site, arm, strategy, words):
    site.desk.project(items=5, strategy=strategy, control=0.25)
    site.desk.rank([1, 2, 3, 4, 5], arm=arm)
    me = visit(browser, site).ready()
    me.press("1")
    me.saved()
    me.page.keyboard.press("w")
    me.page.wait_for_selector("#why[open] p")
    assert words in me.page.inner_text("#why").replace("\u202f", " ")
