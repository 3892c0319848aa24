"""Files that appear whole or not at all."""

from __future__ import annotations

import pytest

from ncalr.data.files import write_whole, written_whole


def test_a_file_takes_the_place_of_the_old_one_in_one_step(tmp_path):
    path = tmp_path / "a.txt"
    write_whole(path, "old")
    with written_whole(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError, ValueError, KeyboardInterrupt])
def test_whatever_goes_wrong_the_old_one_is_as_it_was(tmp_path, error):
    path = tmp_path / "a.txt"
    write_whole(path, "old")

    def fail():
        with written_whole(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
