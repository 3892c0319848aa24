"""`ncalr pool`: pools on disk, made, grown, given columns, looked at, checked, taken out again."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(no_args_is_help=True, help="Pools on disk: sharded arrays with ids and checksums, of any size.")

Folder = Annotated[Path, typer.Argument(help="The folder of the pool.")]
Sources = Annotated[
    list[str] | None,
    typer.Argument(help="NAME=FILE.npy for each column; or tables: .parquet, .arrow, .feather, .npz, .safetensors."),
]
Ids = Annotated[
    str | None,
    typer.Option(help="For tables: their column that names the items. For NAME=FILE.npy: a file of ids, .npy or .txt."),
]
Columns = Annotated[
    str | None, typer.Option(help="Columns of the tables to take, by commas, as the tables name them; all if none.")
]
Rename = Annotated[list[str] | None, typer.Option(help="OLD=NEW: a column of the tables under another name.")]
Images = Annotated[Path | None, typer.Option(help="A folder of images, made vectors by --network.")]
Network = Annotated[str, typer.Option(help="A network by name, such as 'timm:NAME(pretrained=true)'.")]
Size = Annotated[int, typer.Option(help="Pixels that images are brought to.")]
SkipBroken = Annotated[bool, typer.Option("--skip-broken", help="Leave out files that cannot be read as an image.")]
Untrained = Annotated[
    bool, typer.Option("--untrained", help="Take the network although its weights are random: random features.")
]
Device = Annotated[str | None, typer.Option(help="Where the network runs: cpu or cuda.")]
ShardItems = Annotated[int | None, typer.Option(help="Items a shard; about 128 MB if not given.")]


@app.command()
def create(
    folder: Folder,
    sources: Sources = None,
    ids: Ids = None,
    rename: Rename = None,
    columns: Columns = None,
    dtype: Annotated[
        list[str] | None, typer.Option(help="NAME=float16, bfloat16 or float32: how to store a column.")
    ] = None,
    images: Images = None,
    network: Network = "",
    size: Size = 224,
    skip_broken: SkipBroken = False,
    untrained: Untrained = False,
    device: Device = None,
    shard_items: ShardItems = None,
) -> None:
    """Write a new pool.

    Example: ncalr pool create pool features=features.npy logits=logits.npy --ids names.txt --dtype features=float16
    """
    from ncalr.data.manifest import read_manifest
    from ncalr.data.shards import write_shards

    made: dict[str, Any] = {}
    stored: dict[str, str] = {}
    if images is not None:
        _check_images_alone(sources, ids, rename, columns, network)
        blocks, made = _embedded(images, network, size, skip_broken, untrained, device)
    else:
        blocks, stored = _blocks(sources or [], ids, _pairs(rename), columns)
    stored |= _pairs(dtype)
    write_shards(folder, blocks, shard_items=shard_items, dtypes=stored, made=made)
    info(folder)
    _note_strangers(read_manifest(folder).columns)


@app.command()
def append(
    folder: Folder,
    sources: Sources = None,
    ids: Ids = None,
    rename: Rename = None,
    columns: Columns = None,
    images: Images = None,
    network: Network = "",
    size: Size = 224,
    skip_broken: SkipBroken = False,
    untrained: Untrained = False,
    device: Device = None,
    shard_items: ShardItems = None,
) -> None:
    """Add items to a pool. If anything fails (a full disk, too), the pool is as it was."""
    from ncalr.data.manifest import read_manifest
    from ncalr.data.shards import append_shards

    made: dict[str, Any] = {}
    if images is not None:
        _check_images_alone(sources, ids, rename, columns, network)
        before = read_manifest(folder).made.get("features")
        blocks, made = _embedded(images, network, size, skip_broken, untrained, device, before)
    else:
        blocks, _ = _blocks(sources or [], ids, _pairs(rename), columns)
    append_shards(folder, blocks, shard_items=shard_items, made=made)
    info(folder)


@app.command()
def put(
    folder: Folder,
    sources: Annotated[
        list[str] | None, typer.Argument(help="NAME=FILE.npy for each column, rows in the order of the pool.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Write columns anew that the pool has already.")] = False,
    drop: Annotated[list[str] | None, typer.Option(help="A column to take out of the pool.")] = None,
    ids: Annotated[
        Path | None,
        typer.Option(help="Rows in another order: a file of the pool's ids in that order, .npy, .txt or .csv."),
    ] = None,
    dtype: Annotated[
        list[str] | None, typer.Option(help="NAME=float16, bfloat16 or float32: how to store a column; as it comes.")
    ] = None,
) -> None:
    """Put columns into a pool, for the items it has. After a failure or a kill it is as it was, or as it was to be.

    Example: ncalr pool put pool flips=flips.npy predictions=predictions.npy --replace
    """
    from ncalr.cli.query import has_text_ids, read_ids
    from ncalr.data.shards import put_columns
    from ncalr.errors import BadInput

    if any("=" not in source for source in sources or []):
        raise BadInput(f"columns are put as NAME=FILE.npy, got {' '.join(sources or [])}")
    columns, _ = _arrays(sources or [], None)
    names = None if ids is None else read_ids(ids, texts=has_text_ids(folder))
    put_columns(folder, columns, names, replace=replace, drop=drop or (), dtypes=_pairs(dtype))
    info(folder)
    _note_strangers(columns)


@app.command()
def info(folder: Folder) -> None:
    """Say what a pool holds."""
    from ncalr.data.manifest import IDS, read_manifest
    from ncalr.lab.tables import counted

    manifest = read_manifest(folder)
    size = sum(file.bytes for shard in manifest.shards for file in shard.files.values())
    print(f"{folder}: {manifest.rows:,} items, {counted(len(manifest.shards), 'shard')}, {size / 1e9:.3g} GB")
    for name, kind in manifest.columns.items():
        print(f"  {name:<24} {kind}")
    if IDS not in manifest.columns:
        print(f"  {IDS:<24} 0..{manifest.rows - 1}")
    for name, facts in manifest.made.items():
        known = ", ".join(f"{key} {value}" for key, value in facts.items() if key != "scales")
        print(f"  {name} were made with {known}")


@app.command()
def verify(folder: Folder) -> None:
    """Read all of a pool and compare it with its checksums. Exit code 1 if anything is wrong."""
    from ncalr.data.manifest import leftovers, read_manifest
    from ncalr.data.verify import verify as look

    found, manifest = look(folder), read_manifest(folder)
    left = leftovers(folder, manifest)
    if not manifest.sealed:
        print(
            "note: the manifest is of an earlier format and has no checksum: a shard that was removed from it would "
            "not be noticed. The next append or put writes one",
            file=sys.stderr,
        )
    if left:
        print(
            f"note: {len(left)} files are left of a put that was killed, or belong to one that is under way; they do "
            f"no harm, and the next put removes them. The first is {left[0].name}",
            file=sys.stderr,
        )
    for damage in found:
        print(damage, file=sys.stderr)
    print(f"{folder}: {'whole' if not found else f'{len(found)} places are damaged'}")
    if found:
        raise typer.Exit(1)


@app.command()
def export(folder: Folder, out: Annotated[Path, typer.Argument(help="A .parquet file to write.")]) -> None:
    """Write a pool as one Parquet file: the ids and every column."""
    from ncalr.data.exchange import to_parquet
    from ncalr.errors import BadInput

    if out.suffix != ".parquet":
        raise BadInput(f"pools are exported as .parquet, got {out.name!r}")
    print(f"{to_parquet(folder, out):,} items written to {out}")


def _check_images_alone(sources: Any, ids: Any, rename: Any, columns: Any, network: str) -> None:
    from ncalr.errors import BadInput

    if sources or not network or rename or columns or ids:
        raise BadInput("--images needs --network, and no other sources, --ids, --rename or --columns")


def _embedded(
    images: Path,
    network: str,
    size: int,
    skip_broken: bool,
    untrained: bool,
    device: str | None,
    before: dict[str, Any] | None = None,
) -> tuple[Any, dict[str, dict[str, Any]]]:
    """The vectors of a folder of images, block after block, and what they depend on; `before`: of those there are."""
    from ncalr.data.images import ImagePool
    from ncalr.learn.embed import check_trained, embed, facts

    check_trained(network, untrained)
    pool = ImagePool(images, size=size, skip_broken=skip_broken, advice="--skip-broken")
    if pool.skipped:
        print(f"{len(pool.skipped)} files left out, the first is {pool.skipped[0]}", file=sys.stderr)
    made = facts(pool, network, untrained=untrained, before=before)
    return embed(pool, network, device=device, untrained=untrained, scales=made["scales"]), {"features": made}


def _blocks(
    sources: list[str], ids: str | None, rename: dict[str, str], columns: str | None
) -> tuple[Any, dict[str, str]]:
    """The blocks to write and how some columns are stored."""
    from ncalr.errors import BadInput

    named = [source for source in sources if "=" in source]
    if not sources or (named and len(named) < len(sources)):
        raise BadInput("give columns as NAME=FILE.npy, or tables, or --images; tables and columns cannot be mixed")
    if named and (rename or columns):
        raise BadInput("--rename and --columns are for tables; write NAME=FILE.npy with the name that is wanted")
    return _arrays(named, ids) if named else _tables(sources, ids, rename, columns)


def _note_strangers(columns: Iterable[str]) -> None:
    """Columns that no query will read: a name may be misspelt."""
    import difflib

    from ncalr.acquire.evidence import POOL_AXIS
    from ncalr.data.manifest import IDS

    for name in set(columns) - {*POOL_AXIS, IDS, "items"}:
        near = difflib.get_close_matches(name.lower(), POOL_AXIS, n=1, cutoff=0.6)
        hint = f" Did you mean {near[0]!r}?" if near else f" Strategies read {', '.join(POOL_AXIS)}."
        print(
            f"note: no strategy of ncalr's own reads a column {name!r}.{hint} Another name is "
            f"given by NAME=FILE.npy, or for tables by --rename {name}={near[0] if near else 'features'}",
            file=sys.stderr,
        )


def _arrays(named: list[str], ids: str | None) -> tuple[Any, dict[str, str]]:
    from ncalr.cli.query import read_array, read_ids
    from ncalr.data.exchange import by_item

    columns = by_item({name: read_array(Path(path)) for name, path in _pairs(named).items()})
    if ids is not None:
        columns["ids"] = read_ids(Path(ids))
    return columns, {}


def _tables(
    sources: list[str], ids: str | None, rename: dict[str, str], columns: str | None
) -> tuple[Any, dict[str, str]]:
    from ncalr.data.exchange import read_columns, stored_dtypes

    wanted = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]

    def blocks() -> Iterator[Any]:
        for source in sources:
            yield from read_columns(source, ids=ids, rename=rename, columns=wanted)

    return blocks(), stored_dtypes(sources[0], rename)


def _pairs(words: list[str] | None) -> dict[str, str]:
    from ncalr.errors import BadInput

    pairs: dict[str, str] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise BadInput(f"expected NAME=VALUE, got {word!r}")
        if name in pairs:
            raise BadInput(f"{name} was given twice: {pairs[name]!r} and {value!r}")
        pairs[name] = value
    return pairs
