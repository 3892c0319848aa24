"""The results as Markdown: one table of cases, one of strategies, and which targets are met."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from acquisition_contenders import DISTURBED

Results = dict[str, Any]

CACHE_BYTES = 25e6
MEMORY_DEMAND = 2000.0

INTRODUCTION = """\
# Acquisition: time and memory, side by side

Made by `python benchmarks/acquisition.py` from `acquisition.json`; not to be edited by hand.

{machine}.

Pool features are the ReLU of a Gaussian mixture, d = 512 float32, with {labelled:,} labelled items, from seed {seed}.
Every figure comes from a process of its own that first solves a few thousand items, so that imports and the compilation
of kernels are not in the times.

- *time*: median of five calls or more (two seconds of them), or of as many as begin within ten seconds. A peer that
  would take minutes was asked for fewer picks and is given per pick. † other processes had more than {disturbed} cores
  meanwhile, and the time is that of the fastest call.
- *processor*: processor time of the fastest call, all threads together, where it was measured.
- *extra*: the most memory resident during the first call, less what was resident (the inputs) before it.
  "out of memory" is more than 12 GB of it.
- *× floor*: against what the method must at least do, measured in the same run: a sum over the same bytes by two
  threads, times the passes; for methods made of matrix products, these products at the speed of one large product.
- *same picks*: the share of its picks that ours has too.
"""


def render(results: Results) -> str:
    """The whole page."""
    parts = [_introduction(results), _cases(results), _strategies(results), _targets(results)]
    return "\n".join(part for part in parts if part)


def _introduction(results: Results) -> str:
    facts = results["machine"]
    machine = (
        f"{facts['cores']} cores ({facts['processor']}), {facts['memory_gb']} GB, {facts['system']}, "
        f"Python {facts['python']}; {_libraries(results)}; measured {_dates(results)}"
    )
    return INTRODUCTION.format(
        machine=machine,
        labelled=results["labelled"],
        seed=results["seed"],
        disturbed=DISTURBED,
    )


def _libraries(results: Results) -> str:
    found = {
        library.split(",")[0]: row["version"]
        for case in results["cases"].values()
        for library, row in case["rows"].items()
        if "version" in row
    }
    return ", ".join(f"{library} {version}" for library, version in sorted(found.items()))


def _dates(results: Results) -> str:
    dates = sorted({case["date"] for case in results["cases"].values()})
    return dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"


# -- tables ---------------------------------------------------------------------------------------------------


def _cases(results: Results) -> str:
    lines = [
        "| case | library | time | processor | extra MB | × floor | same picks |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, case in results["cases"].items():
        if name != "registry":
            lines += _case_lines(case)
    return "\n".join(lines) + "\n"


def _case_lines(case: Results) -> Iterator[str]:
    cached = ", which fit the cache" if not case["flops"] and case["floor"]["bytes"] < CACHE_BYTES else ""
    least = _time(floor(case)) + _mark(case["floor"])
    yield f"| {case['title']} | *floor: {case['floor_words']}{cached}* | {least} | | | 1 | |"
    for library, row in case["rows"].items():
        shown = "plain NumPy" if library == "numpy" else f"**{library}**" if library.startswith("ncalr") else library
        if "failed" in row:
            yield f"| | {shown} | {row['failed']} | | | | |"
            continue
        common = f"{row['in_common']:.1%}" if "in_common" in row else ""
        ratio = row["seconds"] / (floor(case) * row["k"] / case["k"])
        busy = _time(row["processor"]) if "processor" in row and row["k"] == case["k"] else ""
        times = f"{_shown_time(case, row)} | {busy}"
        yield f"| | {shown} | {times} | {row['extra_mb']:,.0f} | {_figure(ratio)} | {common} |"


def _strategies(results: Results) -> str:
    case = results["cases"].get("registry")
    if case is None:
        return ""
    lines = [
        f"## {case['title'][0].upper()}{case['title'][1:]}",
        "",
        "| strategy | time | extra MB |",
        "| --- | --- | --- |",
    ]
    for name, row in case["rows"].items():
        lines.append(
            f"| {name} | {row['failed']} | |"
            if "failed" in row
            else f"| {name} | {_shown_time(case, row)} | {row['extra_mb']:,.0f} |"
        )
    return "\n".join(lines) + "\n"


def floor(case: Results) -> float:
    """Seconds of the floor of the whole case."""
    if case["flops"]:
        return float(case["flops"] / case["floor"]["flops_a_second"])
    return float(case["passes"] * case["floor"]["seconds"])


def _shown_time(case: Results, row: Results) -> str:
    if row["k"] < case["k"]:
        return f"{_time(row['seconds'] / row['k'])} a pick (k = {row['k']}){_mark(row)}"
    return _time(row["seconds"]) + _mark(row)


def _mark(row: Results) -> str:
    return " †" if row["others_cores"] > DISTURBED else ""


def _time(seconds: float) -> str:
    if seconds < 0.0095:
        return f"{seconds * 1000:.2g} ms"
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.1f} s"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.2g}"


# -- targets --------------------------------------------------------------------------------------------------


def _targets(results: Results) -> str:
    lines = ["## Targets", "", "| target | found | met |", "| --- | --- | --- |"]
    for words, needed, check in TARGETS:
        if all(name in results["cases"] for name in needed):
            found, met = check(results["cases"])
            lines.append(f"| {words} | {found} | {'yes' if met else '**no**'} |")
    lines += [
        f"| ahead of every peer and of plain NumPy: {words} | {found} | {'yes' if met else '**no**'} |"
        for words, found, met in _ahead(results["cases"])
    ]
    return "\n".join(lines) + "\n"


def _below_floor(name: str, limit: float) -> Callable[[Results], tuple[str, bool]]:
    def check(cases: Results) -> tuple[str, bool]:
        ratio = cases[name]["rows"]["ncalr"]["seconds"] / floor(cases[name])
        return f"{_figure(ratio)} × floor", ratio <= limit

    return check


def _below_memory(name: str, limit: float) -> Callable[[Results], tuple[str, bool]]:
    def check(cases: Results) -> tuple[str, bool]:
        extra = cases[name]["rows"]["ncalr"]["extra_mb"]
        return f"{extra:,.0f} MB", extra < limit

    return check


def _faster(name: str, peer: str, times: float) -> Callable[[Results], tuple[str, bool]]:
    def check(cases: Results) -> tuple[str, bool]:
        rows = cases[name]["rows"]
        if "failed" in rows[peer]:
            return rows[peer]["failed"], True
        ratio = rows[peer]["seconds"] / rows["ncalr"]["seconds"]
        return f"{_figure(ratio)} ×", ratio >= times

    return check


def _half_time(cases: Results) -> tuple[str, bool]:
    ratio = cases["ncal_float16"]["rows"]["ncalr"]["seconds"] / cases["ncal_float32"]["rows"]["ncalr"]["seconds"]
    return f"{_figure(ratio)} ×", ratio <= 2


def _strategy_memory(cases: Results) -> tuple[str, bool]:
    rows = cases["registry"]["rows"]
    failed = [name for name, row in rows.items() if "failed" in row]
    name = max((name for name in rows if name not in failed), key=lambda name: rows[name]["extra_mb"])
    words = f"at most {rows[name]['extra_mb']:,.0f} MB ({name})" + "".join(f"; {name} failed" for name in failed)
    return words, rows[name]["extra_mb"] < MEMORY_DEMAND and not failed


TARGETS: list[tuple[str, tuple[str, ...], Callable[[Results], tuple[str, bool]]]] = [
    ("NCAL 1M × 512 float32 ≤ 1.8 × floor", ("ncal_float32",), _below_floor("ncal_float32", 1.8)),
    ("NCAL 1M × 512 float32 < 100 MB extra", ("ncal_float32",), _below_memory("ncal_float32", 100)),
    ("NCAL float16 ≤ 2 × the time of float32", ("ncal_float16", "ncal_float32"), _half_time),
    ("NCAL float16 without a full copy (1 GB)", ("ncal_float16",), _below_memory("ncal_float16", 500)),
    (
        "k-centre 50k ≥ 10 × faster than scikit-activeml",
        ("coreset_50k",),
        _faster("coreset_50k", "scikit-activeml", 10),
    ),
    ("CDAL below k passes", ("cdal",), _below_floor("cdal", 1.0)),
    ("BADGE 10 classes ≤ 1.3 × k passes", ("badge_10",), _below_floor("badge_10", 1.3)),
    ("BADGE 100 classes ≤ 1.3 × k passes", ("badge_100",), _below_floor("badge_100", 1.3)),
    ("margin 1M × 100 ≤ 3 × one pass", ("margin",), _below_floor("margin", 3)),
    ("entropy 1M × 100 ≤ 3 × one pass", ("entropy",), _below_floor("entropy", 3)),
    ("every strategy on 200k × 512 under 2 GB extra", ("registry",), _strategy_memory),
]


def _ahead(cases: Results) -> Iterator[tuple[str, str, bool]]:
    """Against the fastest other, time a pick, in every case that has another."""
    for case in cases.values():
        paces = {name: row["seconds"] / row["k"] for name, row in case["rows"].items() if "failed" not in row}
        others = {name: pace for name, pace in paces.items() if not name.startswith("ncalr")}
        if "ncalr" in paces and others:
            best = min(others, key=lambda name: others[name])
            ratio = others[best] / paces["ncalr"]
            yield case["title"], f"{_figure(ratio)} × the speed of {best}", ratio > 1


# -- the README -----------------------------------------------------------------------------------------------

SUMMARY = [
    "ncal_float32",
    "coreset_50k",
    "coreset_200k",
    "badge_10",
    "badge_100",
    "cdal",
    "margin",
    "entropy",
    "typiclust_10k",
]


def summary(results: Results) -> str:
    """The README's table, and how to read it."""
    cores = results["machine"]["cores"]
    return (
        f"Time to choose on {cores} CPU cores, and memory beyond the inputs; the same inputs for all, "
        "every figure from a process of its own. † other processes\nhad more than "
        f"{DISTURBED} cores meanwhile ([all cases, all peers, how it was measured](results/acquisition.md)).\n\n"
    ) + "\n".join(_summary(results["cases"]))


def _summary(cases: Results) -> Iterator[str]:
    yield "| | ncalr | extra MB | fastest peer | extra MB | plain NumPy |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name in SUMMARY:
        if name in cases:
            case = cases[name]
            rows = {library: row for library, row in case["rows"].items() if "failed" not in row}
            peers = [library for library in case["rows"] if library != "numpy" and not library.startswith("ncalr")]
            ours = rows["ncalr"]
            yield (
                f"| {case['title']} | **{_shown_time(case, ours)}** | {ours['extra_mb']:,.0f} "
                f"| {_best_peer(case, rows, peers)} | "
                f"{_shown_time(case, rows['numpy']) if 'numpy' in rows else ''} |"
            )


def _best_peer(case: Results, rows: Results, peers: list[str]) -> str:
    able = [library for library in peers if library in rows]
    if not able:
        words = "; ".join(f"{library}: {case['rows'][library]['failed']}" for library in peers) or "none has it"
        return f"{words} |"
    best = min(able, key=lambda library: rows[library]["seconds"] / rows[library]["k"])
    return f"{best} {_shown_time(case, rows[best])} | {rows[best]['extra_mb']:,.0f}"
