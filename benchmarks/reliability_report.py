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
        "test_browser: fifty answers without a network, tab closed and opened again, arrive once, in order, with their times",
    ),
    "R6": ("session expiry", "test_browser: cookies gone, door shown, new link, everything delivered"),
    "R7": (
        "no silent overwrite",
        "test_store_answers: 1,000 random steps of three tabs on both databases, full history; 409 with both values",
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
        "test_store_rest: up, down, up; a SQLite file is copied first (of PostgreSQL the owner keeps a backup); a newer database refused untouched. Two schemas so far, 0001 and 0002",
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
    "S4": ("CSRF, CORS, Host", "test_server: 421 and 403 that name --public-url"),
    "S5": ("authorisation", "test_server: every route and role; a route without an entry fails"),
    "S6": (
        "path traversal",
        "test_server, test_security: eleven names, six keys, nothing read, exported or run from outside",
    ),
    "S7": (
        "user content inert",
        "test_server: fresh pixels, type from bytes, sandbox; SVG, HTML, PDF refused; BMP, TIFF shown as PNG or JPEG",
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
    "S15": (
        "rate limits",
        "test_server, test_security: 429 with Retry-After on entering, answering, exporting, any request; 30 items a person",
    ),
    "S16": ("passwords", "there are none: links and tokens of 256 random bits, hashed"),
    "S17": ("webhooks", "there are none"),
    "S19": (
        "supply chain",
        "test_supply: requirements/web.lock with hashes; .ci/audit fails on a known weakness; SBOM in build/audit",
    ),
    "U1": (
        "accessibility",
        "benchmarks/accessibility.py, results/accessibility.md; test_browser: keyboard, names, contrast",
    ),
    "S18": ("privacy", "test_browser: only our own origin is asked; no access log"),
}


# promise, what is asked, the table, the figure's name, and the limit it has to keep (with "=": exactly so)
TARGETS = [
    ("R1", "no acknowledged answer missing, SQLite, 200 kills", "kills.sqlite", "missing", "= 0"),
    ("R1", "no acknowledged answer missing, PostgreSQL, 200 kills", "kills.postgresql", "missing", "= 0"),
    ("R4", "no answer lost or doubled, 10,000 answers", "lossy.sqlite", "missing", "= 0"),
    ("R13", "next, p95 ms, the real training at full load", "training", "next_p95_ms", 100),
    ("R13", "submit, p95 ms, the real training at full load", "training", "submit_p95_ms", 150),
    ("R15", "next, p95 ms, a million items, SQLite", "million.sqlite", "next_p95_ms", 50),
    ("R15", "submit, p95 ms, a million items, SQLite", "million.sqlite", "submit_p95_ms", 50),
    ("R15", "next, p95 ms, a million items, PostgreSQL", "million.postgresql", "next_p95_ms", 50),
    ("R15", "submit, p95 ms, a million items, PostgreSQL", "million.postgresql", "submit_p95_ms", 50),
    ("R15", "first item, s, SQLite", "million.sqlite", "first_item_s", 2),
    ("R15", "first item, s, PostgreSQL", "million.postgresql", "first_item_s", 2),
    ("R15", "memory of the server, MB", "million.postgresql", "memory_mb", 500),
    ("R16", "growth of the heap, MB, 5,000 pictures", "memory", "heap_growth_mb", 50),
    ("R17", "database is locked, 20 writers, 10 minutes", "writers.sqlite", "locked", "= 0"),
    ("", "from the command to the first item, s", "start", "command_to_item_s", 5),
    ("", "from the key to the next item, p95 ms", "keys", "p95_ms", 100),
]


def targets(found: dict) -> list[str]:
    """What was promised in figures, what was measured, at which load of the machine, and whether it is kept."""
    lines = ["## Promises in figures", "", "| | promise | limit | measured | load | kept |", "| --- |" + " --- |" * 5]
    for key, promise, table, name, limit in TARGETS:
        figures = found.get(table, {})
        value = figures.get(name)
        kept = "not run" if value is None else "yes" if (value == 0 if limit == "= 0" else value <= limit) else "**no**"
        cells = [key, promise, limit, "" if value is None else value, _load(figures), kept]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return [*lines, ""]


def text(found: dict) -> str:
    machine = found["machine"]
    lines = [
        "# Reliability of the labelling server",
        "",
        f"{machine['cores']} cores shared with other work (load in the tables), {machine['system']}, Python {machine['python']}, SQLite {machine['sqlite']}.",
        "Made by `python benchmarks/reliability.py SECTION ... report`; the sizes reached are in the tables, `--scale 1` is the full size of each section.",
        "",
        "Each table says when it was measured, and on which commit (with a + where the code had changes that were not committed). Of runs before that was noted, the commit is named that brought the figures into the repository: the code measured is that one or shortly before it, and later changes of the server are not in them.",
        "",
        "A run with a niceness below 0 went before the other work on the machine, as it would on a quiet one.",
        "",
        *targets(found),
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


def _load(figures: dict) -> str:
    """The machine's load, and whether the run went before other work on it."""
    ahead = f", niceness {figures['niceness']}" if "niceness" in figures else ""
    return f"{figures['load']}{ahead}" if "load" in figures else ""


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
        "People faster than real ones over HTTP, two processes multiplying matrices beside the server with the priority of the real training, all on the same two cores; times as the client sees them.",
    ),
    (
        "R13: the real training",
        "training",
        "1,797 pictures, ten people over HTTP; the worker trains a network again and again, is killed halfway and started again.",
    ),
    (
        "From the command to the first item",
        "start",
        "`ncalr label` on a folder of 500 pictures, each time a new project, in a Chromium that is open already; medians, and the worst.",
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
