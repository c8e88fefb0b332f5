"""A file is written whole, or what stood in its place is kept."""

import errno
import os
import stat
from pathlib import Path

import pytest

from gesso.whole_file import link_or_copy, write_beside, write_whole

resource = pytest.importorskip("resource", reason="nothing bounds files here")
NEW = b"n" * 5000


@pytest.fixture
def small_disk() -> object:
    """Lets no file grow beyond a thousand bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.usefixtures("small_disk")
def test_what_does_not_fit_leaves_the_folder_as_it_is(tmp_path: Path, old: bytes | None) -> None:
    path = tmp_path / "file"
    if old is not None:
        path.write_bytes(old)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OSError, match="too large") as caught:
        write_whole(path, NEW)
    assert caught.value.filename == str(path)
    assert sorted(tmp_path.iterdir()) == before
    assert old is None or path.read_bytes() == old


def test_a_mode_and_a_link_are_kept_and_new_files_are_ordinary(tmp_path: Path) -> None:
    file, link, plain = tmp_path / "file", tmp_path / "link", tmp_path / "plain"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_whole(link, NEW)
    assert (link.is_symlink(), file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (True, NEW, 0o640)
    plain.write_bytes(b"")
    write_whole(tmp_path / ("x" * 255), NEW)
    assert (tmp_path / ("x" * 255)).stat().st_mode == plain.stat().st_mode


def test_hard_links_and_devices_are_written_themselves(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"old")
    os.link(one, other)
    write_whole(one, NEW)
    assert other.read_bytes() == NEW
    write_whole(Path(os.devnull), NEW)
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("place", ["folder", "folder/none/file", "file/below"])
def test_what_cannot_be_a_file_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(OSError) as caught:  # noqa: PT011 - of several kinds
        write_whole(tmp_path / place, NEW)
    assert caught.value.filename == str(tmp_path / place)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]


def test_a_pipe_without_a_name_is_written_itself() -> None:
    reading, writing = os.pipe()
    write_whole(Path(f"/dev/fd/{writing}"), b"new")
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"new"


def test_a_link_to_itself_stays_and_is_named(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(OSError, match="levels of symbolic links") as caught:
        write_whole(loop, NEW)
    assert (caught.value.filename, loop.is_symlink()) == (str(loop), True)


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EPERM])
def test_a_mounted_file_and_a_strangers_are_written_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError(number, os.strerror(number), str(self), None, str(target))

    file = tmp_path / "file"
    file.write_bytes(b"old")
    monkeypatch.setattr(Path, "replace", refuse)
    write_whole(file, NEW)
    assert (file.read_bytes(), list(tmp_path.iterdir())) == (NEW, [file])


def test_a_file_stays_its_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, given = tmp_path / "file", []
    file.write_bytes(b"old")
    monkeypatch.setattr(os, "chown", lambda _path, *owner: given.append(owner))
    write_whole(file, NEW)
    assert given == [(file.stat().st_uid, file.stat().st_gid)]


@pytest.mark.parametrize(("mode", "beside"), [(0o644, 0o600), (None, 0o666)])
def test_nobody_else_reads_what_takes_the_place_of_a_file(tmp_path: Path, mode: int | None, beside: int) -> None:
    file = tmp_path / "file"
    if mode is not None:
        file.write_bytes(b"old")
        file.chmod(mode)
    umask = os.umask(0)
    try:
        assert stat.S_IMODE(write_beside(file, NEW).stat().st_mode) == beside
    finally:
        os.umask(umask)


def no_links(source: Path, target: Path) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted", str(source), None, str(target))


def test_a_file_gets_another_name_or_a_copy_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, name, copy = (tmp_path / each for each in ("source", "name", "copy"))
    source.write_bytes(NEW)
    link_or_copy(source, name)
    assert name.samefile(source)
    with pytest.raises(FileExistsError):
        link_or_copy(source, name)
    monkeypatch.setattr(os, "link", no_links)
    link_or_copy(source, copy)
    assert (copy.read_bytes(), copy.samefile(source)) == (NEW, False)


@pytest.mark.usefixtures("small_disk")
def test_no_part_of_a_copy_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path("/dev/zero") if Path("/dev/zero").exists() else pytest.skip("there is no endless device")
    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(OSError, match="File too large"):
        link_or_copy(source, tmp_path / "copy")
    assert not list(tmp_path.iterdir())
