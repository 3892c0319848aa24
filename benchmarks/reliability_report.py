"""results/reliability.md from results/reliability.json: every promise of the labelling server with its figure or its test."""

from __future__ import annotations

TESTS = {
    "R2": (
        "power loss",
        "test_store_rest: every connection WAL and synchronous=FULL; PostgreSQL with synchronous_commit=off refused",
    ),
    "R3": (
        "idempotent submit",
        "test_server: five at once, replies byte-equal, one row; same id, other body: 409 (both databases in test_store_answers)",
    ),
    "R5": (
        "offline outbox",
        "test_browser: answers without a network, tab closed and opened again, arrive once, in order, with their times",
    ),
    "R6": ("session expiry", "test_browser: cookies gone, door shown, new link, everything delivered"),
    "R7": (
        "no silent overwrite",
        "test_store_answers: random interleavings of three tabs on both databases, full history; 409 with both values",
    ),
    "R9": ("two tabs", "test_browser and test_store_queue: never the same item"),
    "R10": ("lease expiry", "test_store_queue, stopped clock: free one second after; the late answer kept and marked"),
    "R11": ("honest emptiness", "test_store_queue, test_server, test_browser"),
    "R12": (
        "ordering",
        "test_store_queue: served order equals the sorted order for 1, 2 and 10 people, both databases",
    ),
    "R14": ("atomic reorder", "test_store_queue: no request sees a mix while orders are swapped"),
    "R19": (
        "migrations",
        "test_store_rest: up, down, up; copied first; a newer database refused untouched. One schema was released so far",
    ),
    "R21": (
        "export = screen",
        "test_server (four forms, per class, same bytes twice), test_exchange (import of export is equal)",
    ),
    "R22": (
        "audit",
        "test_store_answers: UPDATE and DELETE refused by the database; the chain of hashes finds a change from outside",
    ),
    "R23": ("disk full", "test_store_answers (page limit), test_server (507)"),
    "R24": ("clock jumps", "test_store_rest: a day forth and back moves nothing"),
    "S1": ("no default secret", "test_server: random, 0600, refused when others can read it"),
    "S2": ("closed by default", "test_exchange: other addresses refused without TLS; links once, 24 h"),
    "S3": (
        "sessions",
        "test_server, test_store_rest: HttpOnly, SameSite=Strict, __Host- on TLS, ended on the server, hashes only",
    ),
    "S4": ("CSRF, CORS, Host", "test_server: 400 and 403 that name --public-url"),
    "S5": ("authorisation", "test_server: every route and role; a route without an entry fails"),
    "S6": ("path traversal", "test_server: eleven names, six keys, nothing read outside"),
    "S7": (
        "user content inert",
        "test_server: fresh pixels, type from bytes, sandbox; SVG, HTML, PDF, BMP, TIFF refused",
    ),
    "S8": (
        "page CSP",
        "test_server, test_browser: no inline code, no console error in the whole path, no foreign request",
    ),
    "S9": ("XSS", "test_browser: payload as class, text, guideline, person, project; nothing runs"),
    "S10": ("bombs", "test_server: 65,000 x 65,000 PNG refused, decoder killed on time, server alive"),
    "S11": ("CSV injection", "test_exchange: no cell begins with = + - @ tab or return; exact round trip"),
    "S12": ("no pickle", "test_server: no pickle, joblib, torch.load, yaml.load in the app"),
    "S13": ("filters", "test_server: unknown fields and settings refused"),
    "S14": ("SSRF", "there is no import by URL"),
    "S15": ("rate limits", "test_server: 429 with Retry-After on entering, answering, exporting"),
    "S16": ("passwords", "there are none: links and tokens of 256 random bits, hashed"),
    "S17": ("webhooks", "there are none"),
    "S18": ("privacy", "test_browser: only our own origin is asked; no access log"),
}


NOT_YET = [
    "## Not shown yet",
    "",
    "* 50 ms at the 95th percentile with a million items (R15), and 100 ms from key to next item: these runs shared two cores with much",
    "  other work (the load is in the tables). A label costs about 10 ms of processor time for lease and answer together.",
    "* Full sizes where a table says fewer than 5,000 items (R8), 10,000 answers (R4) or 5,000 pictures (R16).",
    "* R13 with a real training of five minutes; R19 from an older released schema, of which there is none.",
]


def text(found: dict) -> str:
    machine = found["machine"]
    lines = [
        "# Reliability of the labelling server",
        "",
        f"{machine['cores']} cores shared with other work (load in the tables), {machine['system']}, Python {machine['python']}, SQLite {machine['sqlite']}.",
        "Made by `python benchmarks/reliability.py SECTION ... report`; the sizes reached are in the tables, `--scale 1` is the full size of each section.",
        "",
    ]
    for title, prefix, note in SECTIONS:
        rows = {key: figures for key, figures in sorted(found.items()) if key.split(".")[0] == prefix}
        if not rows:
            continue
        lines += [f"## {title}", "", note, ""]
        names = list(dict.fromkeys(name for figures in rows.values() for name in figures))
        keys = [key for key in names if any(key in figures for figures in rows.values())]
        lines += ["| | " + " | ".join(rows) + " |", "| --- |" + " --- |" * len(rows)]
        lines += [
            f"| {name.replace('_', ' ')} | " + " | ".join(_cell(f.get(name)) for f in rows.values()) + " |"
            for name in keys
        ]
        lines.append("")
    lines += [
        "## Promises that are tests",
        "",
        "In `tests/web`, run by `make test` on SQLite and, where it says so, PostgreSQL and Chromium.",
        "",
        "| | promise | where |",
        "| --- | --- | --- |",
    ]
    lines += [f"| {key} | {promise} | {where} |" for key, (promise, where) in TESTS.items()]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {each}" for key, each in value.items())
    if isinstance(value, list):
        return "none" if not value else "; ".join(map(str, value))
    return (
        "" if value is None else f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    )


SECTIONS = [
    (
        "R1: acknowledged is durable",
        "kills",
        "SIGKILL to the server at a random moment under 20 clients over HTTP, each sending an answer until it is acknowledged.",
    ),
    ("R4: lost replies", "lossy", "Three replies in ten are thrown away and the answer is sent again."),
    (
        "R8: no double hand-out, no over-collection",
        "crowd",
        "50 clients (threads on one store) until nothing is left; k votes an item.",
    ),
    (
        "R13, R15: many items while a training runs",
        "million",
        "People faster than real ones over HTTP, two processes multiplying matrices at nice 10 beside the server, all on the same two cores; times as the client sees them.",
    ),
    (
        "R17: writers and a trainer on SQLite",
        "writers",
        "20 writers over HTTP without a pause, and a process that writes and swaps orders of 10,000.",
    ),
    ("R18, R20: backup under load, and the move between databases", "move", "Hashes of the chain of events compared."),
    ("R16: browser memory", "memory", "Chromium's heap after garbage collection, before and after."),
    (
        "Key to next item",
        "keys",
        "Headless Chromium, pictures of 256 pixels, half a second of looking at each; from the key press to the next item on the page, playwright's own overhead included.",
    ),
]
