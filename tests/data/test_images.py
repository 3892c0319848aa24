"""Image files as a pool: sizes, names, broken files."""

from __future__ import annotations

import struct
import sys
import zlib

import numpy as np
import pytest
from PIL import Image

from ncalr.data import EncodedPool, ImagePool, Pool
from ncalr.errors import BadInput, MissingExtra, Note


@pytest.fixture
def folder(tmp_path):
    """Three images in two folders, and a file that is none."""
    rng = np.random.default_rng(0)
    for name, shape in (("cats/a.png", (8, 8, 3)), ("cats/b.webp", (20, 10, 3)), ("dogs/c.PNG", (8, 8))):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, shape, np.uint8)).save(tmp_path / name, lossless=True)
    (tmp_path / "notes.txt").write_text("not an image")
    return tmp_path


def test_names_shapes_and_pixels(folder):
    pool = ImagePool(folder, size=8)
    assert isinstance(pool, Pool)
    assert pool.ids.tolist() == ["cats/a.png", "cats/b.webp", "dogs/c.PNG"]
    found = pool.read(np.array([2, 0]))
    assert (found.shape, found.dtype) == ((2, 8, 8, 3), np.uint8)
    np.testing.assert_array_equal(found[1], np.asarray(Image.open(folder / "cats/a.png")))
    assert (found[0][..., 0] == found[0][..., 2]).all()  # grey, made three channels
    assert len(pool.read(slice(None))) == 3
    assert ImagePool(folder, size=(4, 6), channels=1).read(slice(0, 1)).shape == (1, 4, 6, 1)


def test_the_middle_is_cut_out(tmp_path):
    pixels = np.zeros((4, 12, 3), np.uint8)
    pixels[:, 4:8] = 200
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    assert (ImagePool(tmp_path, size=4).read(slice(None)) == 200).all()


def test_a_broken_file_is_named_and_skipped_only_if_asked(folder):
    whole = (folder / "cats/a.png").read_bytes()
    (folder / "cats/a.png").write_bytes(whole[: len(whole) // 2])
    pool = ImagePool(folder, size=8)
    with pytest.raises(BadInput, match=r"cats/a\.png cannot be read as an image .*: skip_broken=True$"):
        pool.read(slice(None))
    kept = ImagePool(folder, size=8, skip_broken=True)
    assert kept.skipped == ["cats/a.png"]
    assert kept.ids.tolist() == ["cats/b.webp", "dogs/c.PNG"]
    assert kept.read(slice(None)).shape == (2, 8, 8, 3)


def test_lists_of_files(folder):
    pool = ImagePool([folder / "dogs/c.PNG"], size=8)
    assert pool.ids.tolist() == [(folder / "dogs/c.PNG").as_posix()]
    for source, words in (
        ([folder / "no.png", folder / "cats/a.png"], "1 of 2 image files do not exist"),
        ([], "at least one"),
        (folder / "no", "not a folder"),
        (folder / "cats" / "a.png", "not a folder"),
    ):
        with pytest.raises(BadInput, match=words):
            ImagePool(source, size=8)
    (folder / "empty").mkdir()
    with pytest.raises(BadInput, match="no images below"):
        ImagePool(folder / "empty", size=8)


def test_an_image_of_far_too_many_pixels_is_a_broken_file(folder):
    whole = (folder / "cats" / "a.png").read_bytes()
    head = b"IHDR" + struct.pack(">IIBBBBB", 2**31 - 1, 8000, 8, 2, 0, 0, 0)
    bomb = whole[:12] + head + struct.pack(">I", zlib.crc32(head)) + whole[33:]
    (folder / "cats" / "a.png").write_bytes(bomb)
    with pytest.raises(BadInput, match=r"cats/a\.png cannot be read as an image"):
        ImagePool(folder, size=8).read(slice(None))
    assert ImagePool(folder, size=8, skip_broken=True).skipped == ["cats/a.png"]
    with pytest.raises(BadInput, match="image 0"):
        EncodedPool([bomb], size=8).read(slice(None))


def test_nothing_but_broken_files(tmp_path):
    (tmp_path / "x.png").write_bytes(b"nothing")
    with pytest.raises(BadInput, match="none of the 1 files"):
        ImagePool(tmp_path, size=8, skip_broken=True)


@pytest.mark.parametrize("options", [{"size": 0}, {"size": 8, "channels": 2}])
def test_options_that_cannot_be(folder, options):
    with pytest.raises(BadInput):
        ImagePool(folder, **options)


def test_images_without_pillow(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtra, match=r"pip install 'ncalr\[images\]'"):
        ImagePool(folder, size=8).read(slice(None))


def test_a_network_learns_from_files(tmp_path):
    """Bright and dark squares, through the whole chain: files, a stream, a network, evidence."""
    from ncalr.learn import Job, TorchLearner, needs_of

    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    for at, label in enumerate(labels):
        Image.fromarray((rng.integers(0, 60, (8, 8, 3)) + 150 * label).astype(np.uint8)).save(tmp_path / f"{at:02}.png")
    pool = ImagePool(tmp_path, size=8)
    learner = TorchLearner(
        "resnet8", "digits", device="cpu", progress=False, epochs=4, checkpoints=2, data="stream", workers=0
    )
    model = learner.fit(Job(pool, pool.ids[:20], labels[:20], needs=needs_of("ncal")))
    assert (model.evidence()["logits"].argmax(1).numpy() == labels[20:]).mean() > 0.9


def test_tiff_and_bmp(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    for name in ("a.bmp", "b.tif", "c.TIFF"):
        Image.fromarray(pixels).save(tmp_path / name)
    pool = ImagePool(tmp_path, size=8)
    assert pool.ids.tolist() == ["a.bmp", "b.tif", "c.TIFF"]
    assert (pool.read(slice(None)) == pixels).all()
    assert (EncodedPool([(tmp_path / "b.tif").read_bytes(), str(tmp_path / "a.bmp")]).read(slice(None)) == pixels).all()


@pytest.mark.parametrize("ending", ["tif", "png"])
@pytest.mark.parametrize("channels", [1, 3])
def test_grey_images_of_sixteen_bits_are_read_over_their_own_range(tmp_path, ending, channels):
    wide = np.linspace(500, 4000, 64).reshape(8, 8)
    Image.fromarray(wide.astype(np.uint16)).save(tmp_path / f"x.{ending}")
    found = ImagePool(tmp_path, size=8, channels=channels).read(slice(None))[0, ..., 0]
    np.testing.assert_allclose(found.ravel(), np.linspace(0, 255, 64), atol=1)


def test_the_first_page_is_read_and_a_note_says_so(tmp_path):
    pages = [Image.new("L", (8, 8), grey) for grey in (40, 80)]
    pages[0].save(tmp_path / "x.tif", save_all=True, append_images=pages[1:])
    with pytest.warns(Note, match="image files of several pages .*: their first page is read"):
        assert (ImagePool(tmp_path, size=8).read(slice(None)) == 40).all()
    pages[0].save(tmp_path / "x.gif", save_all=True, append_images=pages[1:])  # moving pictures are no pages
    assert len(ImagePool([tmp_path / "x.gif"], size=8).read(slice(None))) == 1


def test_heic_alone_says_what_to_do(tmp_path):
    (tmp_path / "x.HEIC").write_bytes(b"no image")
    advice = "HEIC is not read: save such pictures as JPEG or PNG first"
    with pytest.raises(BadInput, match=rf"no images below .*; looked for \.png, .*\. {advice}"):
        ImagePool(tmp_path, size=8)
    with pytest.raises(BadInput, match=advice):
        ImagePool([tmp_path / "x.HEIC"], size=8).read(slice(None))
    with pytest.raises(BadInput, match=advice):
        EncodedPool([str(tmp_path / "x.HEIC")], size=8).read(slice(None))
    with pytest.raises(BadInput) as error:
        EncodedPool([b"no image"], size=8).read(slice(None))
    assert "HEIC" not in str(error.value)
    assert "_io" not in str(error.value)


def test_pixels_that_are_no_numbers_are_said_and_can_be_left_out(tmp_path):
    values = np.arange(64, dtype=np.float32).reshape(8, 8)
    Image.fromarray(values).save(tmp_path / "good.tif")
    values[3, 3] = np.inf
    Image.fromarray(values).save(tmp_path / "bad.tif")
    with pytest.raises(BadInput, match="NaN or infinite"):
        ImagePool(tmp_path, size=8).read(np.arange(2))
    assert len(ImagePool(tmp_path, size=8, skip_broken=True)) == 1
