"""`ncalr embed`: pictures or texts into vectors, for `ncalr label --embeddings`, `ncalr suggest` and `ncalr audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    source: Annotated[
        Path, typer.Argument(help="A folder of images, a table of texts (.csv, .jsonl, ...), or a labelling project.")
    ],
    network: Annotated[
        str, typer.Option(help="A network with trained weights: 'timm:NAME(pretrained=true)' or hf:NAME.")
    ],
    out: Annotated[Path, typer.Option(help="The .npy file to write, a row an item.")],
    size: Annotated[int, typer.Option(help="Pixels that images are brought to.")] = 224,
    text_column: Annotated[str, typer.Option(help="The column of texts.")] = "",
    untrained: Annotated[
        bool, typer.Option("--untrained", help="Take the network although its weights are random: random features.")
    ] = False,
    device: Annotated[str | None, typer.Option(help="Where the network runs: cpu or cuda.")] = None,
) -> None:
    """Write what a trained network makes of each picture or text: a row an item, in the order `ncalr label` has them.

    Example: ncalr embed photos/ --network 'timm:resnet18(pretrained=true)' --out vectors.npy
    """
    from ncalr.cli.doctor import check_web
    from ncalr.errors import BadInput
    from ncalr.extras import check_installed

    check_web()
    check_installed("torch", "torch,timm", "a network that makes vectors")
    if out.suffix != ".npy" or not out.absolute().parent.is_dir():
        raise BadInput(f"vectors are written to a .npy file in a folder that is there, got {out}")
    from ncalr.web.vectors import embedded, items_of

    found, items = items_of(source, text_column)
    rows, unread = embedded(found, items, network, size=size, untrained=untrained, device=device)
    _write(out, rows)
    print(f"{len(rows):,} vectors of {rows.shape[1]:,} dimensions written to {out}")
    if unread:
        print(f"{len(unread):,} pictures could not be read (the first is {unread[0]!r}): their rows are the mean")


def _write(out: Path, rows: object) -> None:
    import numpy as np

    from ncalr.data.files import written_whole
    from ncalr.errors import BadInput

    try:
        with written_whole(out) as file:
            np.save(file, np.asarray(rows), allow_pickle=False)
    except OSError as error:
        raise BadInput(f"{out} cannot be written ({error.strerror}); choose another place") from None
