"""Names that come from files become paths in one place, and files of others are read behind one guard."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "ncalr"

JOINS = {
    # (file, function): why what is joined here is no name from a file that somebody sent
    ("cli/run.py", "reproduce"): "a name of a protocol in the package",
    ("data/catalog.py", "folder_of"): "names of the datasets in the package",
    ("data/catalog.py", "how_to_get"): "names of the datasets in the package",
    ("data/fetch.py", "download"): "names of the archives in the package",
    ("data/folders.py", "_array_split"): "train or test",
    ("data/folders.py", "class_folders"): "test or val",
    ("data/hub.py", "is_hub"): "two fixed names",
    ("data/hub.py", "_files"): "the folder's own listing",
    ("data/named.py", "_cifar"): "names of the files in the package",
    ("data/named.py", "_fashion_mnist"): "names of the files in the package",
    ("data/named.py", "_unpacked"): "names of the files in the package",
    ("data/named.py", "_unzip_tables"): "names of the files in the package",
    ("data/received.py", "inside"): "this is the place",
    ("data/received.py", "free_memory"): "names of the system's files",
    ("evaluate/strangers.py", "_arrays"): "names of splits in the package",
    ("evaluate/strangers.py", "_find"): "names of splits in the package",
    ("evaluate/strangers.py", "_folder"): "a path that the user types",
    ("evaluate/strangers.py", "examples"): "a path that the user types",
    ("lab/figures.py", "write_figures"): "headings of the page that was just made, letters and - alone",
    ("lab/overview.py", "write_overview"): "names that file_name makes of noises",
    ("lab/session.py", "carry_out"): "names that file_name makes of noises",
    ("learn/sklearn_learner.py", "_array"): "names of the arrays in the package",
    ("learn/sklearn_learner.py", "_read_about"): "names of the arrays in the package",
    ("learn/sklearn_learner.py", "load"): "names of the arrays in the package",
    ("learn/sklearn_learner.py", "save"): "names of the arrays in the package",
    ("learn/storage.py", "write"): "the number of an epoch",
    ("loop/run.py", "model_folder"): "the number of a round",
    ("oracles/named.py", "_columns"): "the file of a spec, which may be a full path; it is read as plain arrays",
    ("oracles/named.py", "_matrix"): "the file of a spec, which may be a full path; it is read as plain arrays",
    ("web/folder.py", "being_made"): "names of the project's own files",
    ("web/media.py", "picture"): "a digest, a size and a time",
    ("web/models.py", "keep"): "the number of an order and random letters",
    ("web/sources.py", "_pictures"): "the folder's own listing",
}

LIBRARY_CALLS = {
    "np.load",
    "json.load",
    "np.fromfile",
    "pickle.load",
    "torch.load",
    "open_memmap",
    "np.lib.format.open_memmap",
}


def functions(tree):
    """Every function with its name, and the module's own level."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
    yield tree


def own_nodes(function):
    """The nodes of a function without those of functions inside it."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += ast.iter_child_nodes(node)


def is_fixed(node, constants):
    """Whether a name that is joined stands in the source: a text, or a constant of the package."""
    if isinstance(node, ast.JoinedStr):
        parts = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        return all(is_fixed(part, constants) for part in parts)
    return (
        isinstance(node, ast.Constant)
        or (isinstance(node, ast.Name) and node.id.isupper())
        or (isinstance(node, ast.Call) and ast.unparse(node.func) == "slug")
    )


PATHS = {
    "Path",
    "parent",
    "parents",
    "folder",
    "path",
    "cache",
    "root",
    "out",
    "target",
    "place",
    "base",
    "source",
    "home",
}
"""What a path is called in this package, where no annotation says so."""


def is_path(node, known):
    """Whether the left side of / is a path, by what it is made of."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return is_path(node.left, known) or (isinstance(node.right, ast.Constant) and isinstance(node.right.value, str))
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func).rpartition(".")[2]
        return name in {
            "Path",
            "inside",
            "data_root",
            "with_name",
            "resolve",
            "expanduser",
            "absolute",
            "training_folder",
        }
    if isinstance(node, ast.Attribute):
        return node.attr in PATHS
    if isinstance(node, ast.Subscript):
        return is_path(node.value, known)
    return isinstance(node, ast.Name) and (node.id in PATHS or node.id in known)


def paths_of(function):
    """Names of a function that hold paths: annotated ones, and those that are assigned a path."""
    found = set()
    if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        for argument in [*function.args.args, *function.args.kwonlyargs]:
            if argument.annotation is not None and "Path" in ast.unparse(argument.annotation):
                found.add(argument.arg)
    for node in own_nodes(function):
        if isinstance(node, ast.Assign) and is_path(node.value, found):
            found |= {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


def joins(tree):
    """Functions in which something that is not fixed is joined to a path."""
    for function in functions(tree):
        known = paths_of(function)
        for node in own_nodes(function):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                if is_path(node.left, known) and not is_fixed(node.right, set()):
                    yield getattr(function, "name", ""), node
            elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("joinpath", "join"):
                where = ast.unparse(node.func)
                if where.endswith(("joinpath", "path.join")):
                    yield getattr(function, "name", ""), node
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "Path" and len(node.args) > 1:
                yield getattr(function, "name", ""), node


@cache
def sources():
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in SOURCE.rglob("*.py")
    }


def test_received_names_become_paths_in_one_place():
    found = {(file, name): node for file, tree in sources().items() for name, node in joins(tree)}
    unknown = {place: ast.unparse(node) for place, node in found.items() if place not in JOINS}
    assert not unknown, "join names from files with ncalr.data.received.inside, or say in JOINS why it is none"
    assert not JOINS.keys() - found.keys(), "these are joined there no more"


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("def f(folder, name): return folder / name", 1),
        ("def f(place: Path, name): return place / f'{name}.npy'", 1),
        ("def f(here): there = Path(here); return there / facts['file']", 1),
        ("def f(): return Path('a', name)", 1),
        ("def f(x): return x.joinpath(name)", 1),
        ("def f(x): return os.path.join(x, name)", 1),
        ("def f(x): return x / 'lock' / name", 1),
        ("def f(folder): return folder / 'lock'", 0),
        ("def f(folder): return folder / MANIFEST", 0),
        ("def f(total, n): return total / n", 0),
    ],
)
def test_the_rule_finds_joins(line, count):
    assert len(list(joins(ast.parse(line)))) == count


def test_libraries_read_files_behind_the_guard():
    """`np.load` and its like are nowhere: `ncalr.data.received` reads headers and sizes first."""
    found = [
        (file, ast.unparse(node))
        for file, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in LIBRARY_CALLS
    ]
    assert found == [("testing/learners.py", "np.load(path, allow_pickle=False)")]  # of files it has just written


OPENERS = {"ZipFile": "r", "ParquetFile": "", "open_file": "", "open_stream": "", "read_schema": "", "GzipFile": ""}


def test_archives_and_tables_are_opened_behind_the_guard():
    """Every reader of a library stands in a `with reading(...)`, or in a function that is called from one."""
    bare = set()
    for file, tree in sources().items():
        for function in functions(tree):
            if not hasattr(function, "name"):
                continue
            guarded = {
                id(inner)
                for node in ast.walk(function)
                if isinstance(node, ast.With) and any("reading(" in ast.unparse(item) for item in node.items)
                for inner in ast.walk(node)
            }
            for node in own_nodes(function):
                called = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
                if called in OPENERS and id(node) not in guarded:
                    bare.add((file, function.name))
    assert bare == {
        ("web/exchange.py", "_read_parquet"),  # called by _read, which guards every reader
        ("web/models.py", "write"),  # written, not read
    }
