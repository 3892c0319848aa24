"""Files that appear whole or not at all, and locks."""

from __future__ import annotations

import errno
import os
import sys
from types import SimpleNamespace

import pytest

from ncalr.data.files import Held, held, write_whole, written_whole


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


def test_a_lock_is_held_by_one_and_says_by_whom(tmp_path):
    path = tmp_path / "lock"
    with held(path, "the first"):
        with pytest.raises(Held, match="held by the first") as error, held(path, "the second"):
            pass
        assert error.value.by == "the first"
    with held(path, "a third"):
        assert path.read_text() == "a third"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_lock_that_was_given_back_is_free_whoever_was_forked_meanwhile(tmp_path):
    end, go_on = os.pipe()
    with held(tmp_path / "lock"):
        child = os.fork()
        if not child:
            os.close(go_on)
            os.read(end, 1)
            os._exit(0)
    try:
        with held(tmp_path / "lock"):
            pass
    finally:
        os.close(go_on)
        os.waitpid(child, 0)
        os.close(end)


def test_where_there_is_no_fcntl_windows_holds_the_lock(tmp_path, monkeypatch):
    taken = []

    def locking(file, how, count):
        place = (os.fstat(file).st_ino, os.lseek(file, 0, os.SEEK_CUR))
        assert (count, place[1] > 10**6) == (1, True), "far behind what others read"
        if how == "take":
            if place in taken:
                raise PermissionError(errno.EACCES, "locked")
            taken.append(place)
        else:
            taken.remove(place)

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK="take", LK_UNLCK="back"))
    with held(tmp_path / "lock", "me"), pytest.raises(Held, match="held by me"), held(tmp_path / "lock"):
        pass
    assert not taken
    with held(tmp_path / "lock"):
        assert taken


def test_where_there_are_no_locks_nothing_is_held(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", None)
    with held(tmp_path / "lock", "one"), held(tmp_path / "lock", "two"):
        pass

    def flock(file, how):
        raise OSError(errno.ENOTSUP, "not on this file system")

    monkeypatch.setitem(sys.modules, "fcntl", SimpleNamespace(flock=flock, LOCK_EX=2, LOCK_NB=4, LOCK_UN=8))
    with held(tmp_path / "lock", "one"), held(tmp_path / "lock", "two"):
        pass
