"""The pictures of a report as files for a paper: SVG and PDF, called after the headings they stand under."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any

from ncalr.data.files import write_whole

_PIECES = re.compile(r"<h2>(?P<heading>.*?)</h2>|(?P<picture><svg.*?</svg>)", re.DOTALL)


def write_figures(page: Path, drawn: Mapping[str, Any], folder: Path) -> list[Path]:
    """The pictures of a page, which were `drawn` (`plots.kept`) for it; the paths of the PDF files."""
    folder.mkdir(parents=True, exist_ok=True)
    heading, seen, written = "", Counter[str](), []
    for piece in _PIECES.finditer(page.read_text(encoding="utf-8")):
        picture = piece["picture"]
        if picture is None:
            heading = re.sub(r"\W+", "-", unescape(piece["heading"]).lower()).strip("-")
        elif picture in drawn:
            seen[heading] += 1
            name = heading if seen[heading] == 1 else f"{heading}-{seen[heading]}"
            write_whole(folder / f"{name}.svg", f'<?xml version="1.0" encoding="utf-8"?>\n{picture}\n')
            written.append(folder / f"{name}.pdf")
            drawn[picture].savefig(written[-1], metadata={"CreationDate": None})
    return written
