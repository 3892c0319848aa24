"""From the folder of a slice into the repository: journals without what a comparison or resuming does not need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def keep(out: Path, target: Path) -> None:
    """Copy every JSON file below `out`, compactly: no scores of single picks, no name of a machine's kernel."""
    for source in sorted(out.rglob("*.json*")):
        place = target / source.relative_to(out)
        place.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text()
        if source.name == "journal.jsonl":
            text = "".join(
                json.dumps(_compact(line), separators=(",", ":")) + "\n" for line in map(json.loads, text.splitlines())
            )
        elif source.name == "environment.json":
            text = (
                json.dumps({name: fact for name, fact in json.loads(text).items() if name != "system"}, indent=1) + "\n"
            )
        place.write_text(text)


def _compact(line: dict[str, Any]) -> dict[str, Any]:
    line = {name: value for name, value in line.items() if name not in ("scores", "parts")}
    by = line.get("by")
    if isinstance(by, list) and len(set(by)) == 1:
        line["by"] = by[0]
    return line
