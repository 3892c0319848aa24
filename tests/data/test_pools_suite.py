"""Every pool through the conformance suite; and every check finds what it is there for."""

from __future__ import annotations

import io
from itertools import count

import numpy as np
import pytest
from PIL import Image

from ncalr.data.dataset import load
from ncalr.data.encoded import EncodedPool
from ncalr.data.images import ImagePool
from ncalr.data.pool import ArrayPool
from ncalr.data.shards import ShardedPool, write_shards
from ncalr.data.splits import Subset
from ncalr.data.tables import TextPool, read_table
from ncalr.testing import pools
from ncalr.testing.pools import POOL_CHECKS, PoolCase, check_pool

VECTORS = np.random.default_rng(0).random((11, 3), np.float32)
IMAGES = np.random.default_rng(0).integers(0, 256, (7, 4, 4, 3), np.uint8)
TEXTS = ["one", "two, three", "", "vier", "one"]


def mapped(folder):
    np.save(folder / "x.npy", VECTORS)
    return PoolCase(lambda: ArrayPool(np.load(folder / "x.npy", mmap_mode="r")), VECTORS)


def sharded(folder):
    write_shards(folder / "shards", VECTORS, ids=[f"i{at}" for at in range(11)], shard_items=4)
    return PoolCase(lambda: ShardedPool(folder / "shards"), VECTORS)


def sharded_images(folder):
    write_shards(folder / "shards", iter([IMAGES[:1], IMAGES[1:]]), shard_items=3)
    return PoolCase(lambda: ShardedPool(folder / "shards"), IMAGES)


def image_files(folder):
    for at, image in enumerate(IMAGES):
        Image.fromarray(image).save(folder / f"{at}.png")
    return PoolCase(lambda: ImagePool(folder, size=4), IMAGES)


def part_of_shards(folder):
    case = sharded(folder)
    return PoolCase(lambda: Subset(case.make(), [9, 0, 5, 6]), VECTORS[[9, 0, 5, 6]])


def texts(folder):
    return PoolCase(lambda: TextPool(TEXTS, ids=[5, 3, 8, 1, 0]), np.array(TEXTS, object))


def table(folder):
    path = folder / "t.csv"
    path.write_text("key,text\n" + "".join(f'{at},"{text}"\n' for at, text in enumerate(TEXTS)))
    return PoolCase(lambda: read_table(path, text="text", id_column="key"), np.array(TEXTS, object))


def array(folder):
    return PoolCase(lambda: ArrayPool(VECTORS.copy()), VECTORS)


def png(image):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def encoded(folder):
    return PoolCase(lambda: EncodedPool([png(image) for image in IMAGES], ids=range(7, 0, -1)), IMAGES)


def of_the_hub(folder, column, items):
    pyarrow = pytest.importorskip("pyarrow")
    for split in ("train", "test"):  # three items a piece
        with pyarrow.ipc.new_stream(
            folder / f"{split}.arrow", pyarrow.table({"x": column, "label": [0] * 7}).schema
        ) as file:
            file.write_table(pyarrow.table({"x": column, "label": [0] * 7}), max_chunksize=3)
    return PoolCase(lambda: load(f"folder:{folder}").pool, items)


def hub_images(folder):
    return of_the_hub(folder, [{"bytes": png(image), "path": None} for image in IMAGES], IMAGES)


def hub_texts(folder):
    return of_the_hub(folder, ["a", "b", "", "d", "e", "f", "a"], np.array(["a", "b", "", "d", "e", "f", "a"], object))


def hub_vectors(folder):
    return of_the_hub(folder, VECTORS[:7].tolist(), VECTORS[:7])


MAKERS = [
    array,
    mapped,
    sharded,
    sharded_images,
    image_files,
    part_of_shards,
    texts,
    table,
    encoded,
    hub_images,
    hub_texts,
    hub_vectors,
]


@pytest.mark.parametrize("check", POOL_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_pool_conforms(make, check, tmp_path):
    check(make(tmp_path))


class Spoilt:
    """A pool that does everything right but for what is given here."""

    def __init__(self, read=None, **names):
        self.right = ArrayPool(VECTORS.copy(), ids=[f"i{at}" for at in range(11)])
        self.ids, self.shape, self.dtype, self.n = self.right.ids, self.right.shape, self.right.dtype, 11
        self.change = read
        for name, value in names.items():
            setattr(self, name, value)

    def read(self, positions):
        return self.change(self, positions) if self.change else np.array(self.right.read(positions))

    def __len__(self):
        return self.n


def as_they_lie(pool, positions):
    return VECTORS[np.sort(np.arange(11)[positions])]


def each_once(pool, positions):
    return VECTORS[list(dict.fromkeys(np.arange(11)[positions].tolist()))]


def forward_only(pool, positions):
    places = np.arange(11)[positions]
    return VECTORS[np.sort(places) if isinstance(positions, slice) else places]


def own_memory(pool, positions):
    return pool.right.items[positions]


def around_the_corner(pool, positions):
    return VECTORS[positions if isinstance(positions, slice) else np.asarray(positions) % 11]


def crashes(pool, positions):
    if not isinstance(positions, slice) and len(positions) and max(positions) >= 11:
        raise RuntimeError("no idea")
    return VECTORS[positions]


def empty_as_float64(pool, positions):
    found = VECTORS[positions]
    return found if len(found) else found.astype(float)


def moves_ids(pool, positions):
    pool.ids = pool.ids[::-1]
    return VECTORS[positions]


NUMBERS = count()


def new_ids():
    return Spoilt(ids=np.arange(11) + next(NUMBERS))


class NoShape:
    ids, dtype, read, __len__ = VECTORS, np.dtype(float), Spoilt.read, Spoilt.__len__


BROKEN = [
    ("check_ids", lambda: Spoilt(ids=np.array([0] * 11)), "ids repeat"),
    ("check_ids", lambda: Spoilt(ids=np.arange(11) / 2), "whole numbers or texts"),
    ("check_ids", lambda: Spoilt(ids=np.arange(10)), "10 ids, 11 items"),
    ("check_ids", lambda: Spoilt(ids=list(range(11))), "expected an array"),
    ("check_ids", lambda: Spoilt(ids=np.arange(11)[:, None]), r"expected \(n,\)"),
    ("check_ids", NoShape, "not a Pool"),
    ("check_permanent", new_ids, "other ids"),
    ("check_permanent", lambda: Spoilt(moves_ids), "reading changed the ids"),
    (
        "check_permanent",
        lambda: Spoilt(lambda pool, positions: VECTORS[positions] + pool.number, number=next(NUMBERS)),
        "other items",
    ),
    ("check_length", lambda: Spoilt(n=10), "does not read all"),
    ("check_length", lambda: Spoilt(lambda pool, positions: VECTORS[positions][:2]), "2 items were read, len says 11"),
    ("check_form", lambda: Spoilt(shape=(4,)), "has shape"),
    ("check_form", lambda: Spoilt(shape=[3]), "expected a tuple"),
    ("check_form", lambda: Spoilt(dtype=np.dtype(float)), "is float32, the pool float64"),
    ("check_form", lambda: Spoilt(dtype=np.float32), "expected a NumPy dtype"),
    ("check_form", lambda: Spoilt(empty_as_float64), "is float64"),
    ("check_form", lambda: Spoilt(lambda pool, positions: VECTORS[positions].tolist()), "gave list"),
    ("check_items", lambda: Spoilt(lambda pool, positions: VECTORS[positions] + 1), "not those of the case"),
    ("check_order", lambda: Spoilt(as_they_lie), "another order"),
    ("check_order", lambda: Spoilt(each_once), "gave other items"),
    ("check_slices", lambda: Spoilt(forward_only), "not what it is of a list"),
    ("check_untouched", lambda: Spoilt(own_memory), "altered the pool"),
    ("check_out_of_range", lambda: Spoilt(around_the_corner), "was accepted"),
    ("check_out_of_range", lambda: Spoilt(crashes), "got RuntimeError: no idea"),
]


@pytest.mark.parametrize(("check", "make", "said"), BROKEN, ids=[check for check, _, _ in BROKEN])
def test_the_suite_finds_what_is_broken(check, make, said):
    with pytest.raises(AssertionError, match=said):
        getattr(pools, check)(PoolCase(make, VECTORS))


def test_every_check_can_fail():
    assert {check for check, _, _ in BROKEN} == {check.__name__ for check in POOL_CHECKS}


def test_all_at_once():
    check_pool(Spoilt, VECTORS)
    check_pool(Spoilt)


def test_the_case_is_mended(tmp_path):
    """A check that alters the pool puts it back: the others see what they should."""
    case = PoolCase(lambda: Spoilt(own_memory), VECTORS)
    with pytest.raises(AssertionError):
        pools.check_untouched(case)
    assert np.array_equal(case.pool.read(slice(None)), VECTORS)
