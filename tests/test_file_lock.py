"""One process at a time writes a file or a folder."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from gesso import file_lock
from gesso.errors import OptionError
from gesso.file_lock import held_folder, hold


def test_a_folder_is_held_while_it_is_emptied_and_renamed(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    with held_folder(folder, "taken"):
        for _ in range(2):
            with pytest.raises(OptionError, match=r"^taken$") as info, held_folder(folder, "taken"):
                pass
            assert info.value.option == "out"
        (folder / "file").write_text("x", "utf-8")
        folder = folder.rename(tmp_path / "other")
        with pytest.raises(OptionError, match=r"^taken$"), held_folder(folder, "taken"):
            pass
    with held_folder(folder, "taken"):
        pass
    assert [path.name for path in folder.iterdir()] == ["file"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_forked_process_holds_nothing(tmp_path: Path) -> None:
    """A worker that outlives the process which made it, one that was killed, keeps nobody from the folder."""
    reading, writing = os.pipe()
    begun, begins = os.pipe()
    with held_folder(tmp_path, "taken"):
        child = os.fork()
        if not child:
            os.close(writing)
            os.write(begins, b"x")
            os.read(reading, 1)  # until the other end is closed
            os._exit(0)
        os.read(begun, 1)
    try:
        with held_folder(tmp_path, "taken"):
            pass
    finally:
        for end in (writing, reading, begun, begins):
            os.close(end)
        os.waitpid(child, 0)


@pytest.mark.parametrize(("number", "refused"), [(errno.ENOLCK, False), (errno.EIO, True)])
def test_a_file_system_without_locks_keeps_nobody_from_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, refused: bool
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(number, "told so")

    monkeypatch.setattr(file_lock.fcntl, "flock", fail)
    with (tmp_path / "file").open("ab") as file:
        if refused:
            with pytest.raises(OSError, match="told so"):
                hold(file, "taken", "out")
        else:
            hold(file, "taken", "out")


def test_a_system_without_locks_keeps_nobody_from_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_lock, "fcntl", None)
    with held_folder(tmp_path, "taken"), held_folder(tmp_path, "taken"):
        pass
