"""Answers on the disk: torn ends are cut, and a file is of one batch and one process."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gesso.batch.journal import Journal
from gesso.errors import OptionError

FACTS = {"input": "abc", "model": "mini"}


def line(number: int, status: int = 200) -> str:
    response = {"status_code": status, "request_id": "r", "body": {"text": "\u00e9\n" * number}}
    return json.dumps({"id": f"i{number}", "custom_id": f"c{number}", "response": response, "error": None})


def test_what_is_appended_is_known_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with Journal(path, FACTS) as journal:
        journal.append([line(1), line(2, status=404)])
    with Journal(path, FACTS) as journal:
        assert journal.done == {"i1", "i2"}
        assert journal.failed == 1
        journal.append([line(3)])
    assert [json.loads(text)["id"] for text in path.read_text().splitlines()] == ["i1", "i2", "i3"]


def test_errors_of_a_server_are_dropped_and_lines_that_could_not_be_read_keep_theirs(tmp_path: Path) -> None:
    path, linked = tmp_path / "out.jsonl", tmp_path / "linked.jsonl"
    linked.touch(mode=0o640)
    path.symlink_to(linked)
    unread = json.dumps({"id": "i4", "custom_id": None, "response": None, "error": {"code": "x", "message": "y"}})
    with Journal(path, FACTS) as journal:
        journal.append([line(1), line(2, status=500), line(3), unread])
        assert journal.drop_errors() == 1
        assert journal.drop_errors() == 0
        assert (journal.done, journal.failed) == ({"i1", "i3", "i4"}, 1)
        journal.append([line(2)])
    assert path.read_text().splitlines() == [line(1), line(3), unread, line(2)]
    assert path.is_symlink()
    assert linked.stat().st_mode & 0o777 == 0o640
    assert {entry.name for entry in tmp_path.iterdir()} == {"out.jsonl", "linked.jsonl", "out.jsonl.batch"}


def test_errors_stay_where_the_disk_takes_no_file_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.jsonl"

    def full(self: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    with Journal(path, FACTS) as journal:
        journal.append([line(1), line(2, status=500)])
        monkeypatch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match=r"out\.jsonl'$"):
            journal.drop_errors()
        journal.append([line(3)])
    assert path.read_text().splitlines() == [line(1), line(2, status=500), line(3)]
    assert {entry.name for entry in tmp_path.iterdir()} == {"out.jsonl", "out.jsonl.batch"}


def test_every_torn_end_is_cut(tmp_path: Path) -> None:
    """Whatever byte a killed process came to: whole lines stay, and no line is there twice."""
    whole = f"{line(1)}\n{line(2)}\n".encode()
    middle = whole.index(b"\n")
    for length in (0, 1, middle // 2, middle, middle + 1, middle + 2, len(whole) - 2, len(whole) - 1, len(whole)):
        path = tmp_path / f"{length}.jsonl"
        Journal(path, FACTS).close()
        path.write_bytes(whole[:length])
        with Journal(path, FACTS) as journal:
            left = {1, 2} - {int(identity[1:]) for identity in journal.done}
            assert len(journal.done) == whole[:length].count(b"\n")
            journal.append([line(number) for number in sorted(left)])
        assert path.read_bytes() == whole


def test_zeros_that_a_file_system_left_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with Journal(path, FACTS) as journal:
        journal.append([line(1)])
    with path.open("ab") as file:
        file.write(b"\0" * 100 + b"\n")
    with Journal(path, FACTS) as journal:
        assert journal.done == {"i1"}
    assert path.read_text() == line(1) + "\n"


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(OptionError, match="no output of a batch"):
        Journal(path, FACTS)
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    "notes", [b"my notes", b"hello\n", b"[1]\n", b"\xff\n", b'{"output": "abc"', b'{"output": "abc"}']
)
def test_foreign_facts_are_left_alone(tmp_path: Path, notes: bytes) -> None:
    beside = tmp_path / "out.jsonl.batch"
    beside.write_bytes(notes)
    with pytest.raises(OptionError, match=r"out\.jsonl\.batch is there already"):
        Journal(tmp_path / "out.jsonl", FACTS)
    assert beside.read_bytes() == notes


def test_facts_that_were_torn_are_written_anew(tmp_path: Path) -> None:
    whole = json.dumps(FACTS).encode() + b"\n"
    for length in range(len(whole) + 1):
        path = tmp_path / f"{length}.jsonl"
        beside = path.with_name(f"{path.name}.batch")
        beside.write_bytes(whole[:length])
        Journal(path, FACTS).close()
        assert beside.read_bytes() == whole


def test_another_input_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with Journal(path, FACTS) as journal:
        journal.append([line(1)])
    with pytest.raises(OptionError, match="with another input") as refused:
        Journal(path, {**FACTS, "input": "xyz"})
    assert "out.jsonl.batch" in (refused.value.hint or "")
    with Journal(path, FACTS) as journal:
        assert journal.done == {"i1"}


def test_a_file_without_answers_becomes_another_batchs(tmp_path: Path) -> None:
    path, other = tmp_path / "out.jsonl", {**FACTS, "input": "xyz"}
    Journal(path, FACTS).close()
    Journal(path, other).close()
    path.unlink()
    Journal(path, FACTS).close()
    with Journal(path, other) as journal:
        journal.append([line(1)])
    with pytest.raises(OptionError, match="with another input"):
        Journal(path, FACTS)


@pytest.mark.parametrize("name", [".", "folder"])
def test_a_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OptionError, match=f"{name} is a folder"):
        Journal(Path(name), FACTS)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A device is not read, which would never end."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (Path("/dev/null"), pipe):
        with pytest.raises(OptionError, match=f"^{path} is no file"):
            Journal(path, FACTS)
        assert not path.with_name(f"{path.name}.batch").exists()


FULL = """
import resource, signal, sys
from pathlib import Path
from gesso.batch.journal import Journal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
line = '{"id": "%d", "response": {"status_code": 200}, "fill": "' + "x" * 50_000 + '"}'
path = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, resource.RLIM_INFINITY))
first = Journal(path, {})
first.append([line % 0])
for _ in range(2):
    try:
        first.append([line % 1])
    except OSError as error:
        print(error.errno, path.stat().st_size < 60_000, error.filename == str(path))
first.close()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
kept = first  # still referred to, as by a traceback
with Journal(path, {}) as second:
    print(sorted(second.done))
    second.append([line % 1])
with Journal(path, {}) as third:
    print(sorted(third.done), path.read_bytes().count(b"\\n"))
"""


def test_a_full_disk_keeps_the_file_from_nobody(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, tmp_path / "out.jsonl"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stderr, ran.returncode) == ("", 0)
    assert ran.stdout.split("\n")[:4] == [*2 * [f"{errno.EFBIG} True True"], "['0']", "['0', '1'] 2"]


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with Journal(path, FACTS), pytest.raises(OptionError, match="another process"):
        Journal(path, FACTS)
    Journal(path, FACTS).close()
