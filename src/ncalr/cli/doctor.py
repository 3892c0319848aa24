"""`ncalr doctor`: what is here, what is missing, and the line that installs it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

EXTRAS = {
    "torch": ("torch", "learning, and acquisition on a GPU"),
    "safetensors": ("torch", "saving models"),
    "sklearn": ("sklearn", "scikit-learn models, digits"),
    "PIL": ("images", "image files"),
    "matplotlib": ("lab", "reports"),
    "pyarrow": ("parquet", "Parquet files"),
    "fastapi": ("web", "labelling in the browser"),
    "psycopg": ("postgres", "labelling on PostgreSQL"),
    "lightning": ("lightning", "a callback for Lightning"),
    "transformers": ("hf", "Hugging Face networks and trainer"),
    "timm": ("timm", "timm networks"),
    "cleanlab": ("cleanlab", "a rival beside the audit"),
    "ray": ("ray", "many machines"),
}


def run(
    root: Annotated[str | None, typer.Option("--root", help="Where the datasets are (or set NCALR_DATA).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Look at versions, devices and data: what is here, what is missing, and the line that installs it."""
    import json

    facts = examine(root)
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    print(f"ncalr {facts['versions']['ncalr']}, Python {facts['python']}, {facts['cores']} cores")
    print("devices: " + ", ".join(facts["devices"]))
    for name, found in facts["extras"].items():
        state = "here" if found["here"] else f"missing: {found['install']}"
        print(f"  {name:<14}{found['for']:<40}{state}")
    print(f"datasets in {facts['root']}:")
    for name, here in facts["datasets"].items():
        about = facts["about"][name]
        print(f"  {name:<16}{'here' if here else 'not there'}; {about['size']}; licence: {about['licence']}")
        if not here:
            print(f"  {'':<16}{about['get']}")


def examine(root: str | None = None) -> dict[str, Any]:
    """The facts as plain data."""
    from ncalr.data import DATASETS, data_root
    from ncalr.data.catalog import how_to_get, is_there
    from ncalr.extras import installed
    from ncalr.loop.environment import environment

    place = data_root(root)
    extras = {
        module: {"here": installed(module), "for": use, "install": f"pip install 'ncalr[{extra}]'"}
        for module, (extra, use) in EXTRAS.items()
    }
    datasets = {name: is_there(entry, place) for name, entry in DATASETS.items()}
    about = {
        name: {
            "size": f"{entry.items:,} items and {entry.test_items:,} for the test, {entry.classes} classes",
            "licence": entry.licence,
            "get": how_to_get(entry, place),
        }
        for name, entry in DATASETS.items()
    }
    found = {"extras": extras, "root": str(place), "datasets": datasets, "about": about}
    return {**environment(), "devices": _devices(), **found}


def check_web() -> None:
    """Raise where the extra `web` is missing, with the line that installs it."""
    from ncalr.extras import check_installed

    for module in ("fastapi", "sqlalchemy", "alembic", "uvicorn", "PIL"):
        check_installed(module, "web", "labelling")


def _devices() -> list[str]:
    from ncalr.extras import installed

    if not installed("torch"):
        return ["cpu"]
    import torch

    return ["cpu", *(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))]
