"""`gesso edit` as it is typed: what it prints, what it writes, and what it leaves alone."""

import errno
import io
import itertools
import json
import os
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine.tiny import reciter

from cli.conftest import Gesso
from gesso import api
from gesso.cli.app import run
from gesso.cli.files import write_atomically
from gesso.control import job as gesso_job
from gesso.errors import GessoError

TEXT = "def f(x):\r\n    return x  # \u00e9\r\n\r\nend\tx \r\n"
EDITED = "def f(x):\r\n    return 2 * x\r\n\r\nend\tx \r\n"
Answer = Callable[..., None]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "some file.py"
    path.write_bytes(TEXT.encode())
    path.chmod(0o751)
    return path


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Lets the model say a text."""

    def say(text: str, **options: Any) -> None:
        monkeypatch.setattr(api, "load", lambda *_, **__: reciter(text, **options))

    return say


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes output a terminal, and what is typed into it the next lines."""

    def type_in(text: str) -> None:
        typed = iter(text.splitlines())

        def read(_: str = "") -> str:
            try:
                return next(typed)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setattr("builtins.input", read)
        monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)

    return type_in


def plain(text: str) -> str:
    """Without colours."""
    return re.sub("\x1b\\[[0-9;]*m", "", text)


def untouched(file: Path) -> bool:
    return file.read_bytes() == TEXT.encode() and list(file.parent.iterdir()) == [file]


def test_what_goes_to_standard_output_keeps_its_line_ends(
    gesso: Gesso, file: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer("return 2 * x")
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="\r\n")
    monkeypatch.setattr(sys, "stdout", out)
    gesso("edit", file, "Double it.", "--match", "    return x  # \u00e9")
    assert out.buffer.getvalue() == EDITED.encode()  # type: ignore[attr-defined]
    assert untouched(file)


def test_standard_input_is_read_as_it_is(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    answer("return 2 * x")
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode()), encoding="ascii"))
    monkeypatch.setattr(sys, "stdout", out)
    assert run(["edit", "-", "Double it.", "--lines", "2"]) == 0
    assert out.buffer.getvalue() == EDITED.encode()  # type: ignore[attr-defined]


def test_in_place_leaves_a_file_alone_that_must_not_be_written_to(
    gesso: Gesso, file: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever runs the tests may write to any file: the system's answer is made up."""
    before = file.read_bytes()
    answer("return value + 12")
    monkeypatch.setattr("os.access", lambda path, mode: not (mode == os.W_OK and Path(path) == file.resolve()))
    outcome = gesso("edit", file, "Change 7 to 12.", "--lines", "2", "--in-place")
    assert outcome.code != 0
    assert "Permission denied" in outcome.err
    assert file.read_bytes() == before


@pytest.mark.parametrize("command", [("edit", "Change 7 to 12."), ("fill",)])
def test_a_folder_that_takes_no_files_is_told_before_anything_is_loaded(
    gesso: Gesso, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    file = tmp_path / "text"
    file.write_text("fig {{ }} plum")
    monkeypatch.setattr(api, "load", None)
    monkeypatch.setattr("os.access", lambda path, mode: not (mode & os.X_OK and Path(path) == tmp_path.resolve()))
    outcome = gesso(command[0], file, *command[1:], "--in-place")
    told = f"gesso: {file}: the folder {tmp_path.resolve()} takes no files: Permission denied\n"
    assert (outcome.code, outcome.out, outcome.err) == (2, "", told)


def test_a_diff_of_a_name_that_is_no_text_has_its_bytes(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    answer("return 2 * x")
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr("gesso.cli.edit.read_text", lambda _: (TEXT.encode(), TEXT))
    assert run(["edit", "caf\udce9.py", "Double it.", "--lines", "2", "--diff"]) == 0
    assert out.buffer.getvalue().startswith(b"--- caf\xe9.py\n+++ caf\xe9.py\n")


def test_in_place_writes_the_file_and_nothing_else(gesso: Gesso, file: Path, answer: Answer) -> None:
    answer("return 2 * x")
    before = file.stat()
    shown = gesso("edit", file, "Double it.", "--lines", "2-2", "--in-place")
    assert (shown.code, shown.out, shown.err) == (0, "", "")
    assert file.read_bytes() == EDITED.encode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert file.stat().st_ino != before.st_ino, "a new file took its place"
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("allowed", [True, False])
def test_in_place_keeps_the_owner_where_it_may(file: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool) -> None:
    given: list[tuple[int, int]] = []

    def chown(_: str, user: int, group: int) -> None:
        given.append((user, group))
        if not allowed:
            raise PermissionError(errno.EPERM, "no")

    monkeypatch.setattr("os.chown", chown)
    write_atomically(file, TEXT.encode(), b"new")
    assert given == [(file.stat().st_uid, file.stat().st_gid)]
    assert file.read_bytes() == b"new"


def test_what_does_not_change_is_not_written(gesso: Gesso, file: Path, answer: Answer) -> None:
    answer("def f(x):")
    before = file.stat()
    shown = gesso("edit", file, "Leave it.", "--lines", "1", "--in-place", "--diff")
    assert (shown.code, shown.out) == (0, "")
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_link_stays_a_link(gesso: Gesso, file: Path, answer: Answer, tmp_path: Path) -> None:
    answer("return 2 * x")
    link = tmp_path / "link"
    link.symlink_to(file.name)
    gesso("edit", link, "Double it.", "--lines", "2", "--in-place")
    assert link.is_symlink()
    assert file.read_bytes() == EDITED.encode()


def test_a_diff_that_patch_reads(gesso: Gesso, file: Path, answer: Answer) -> None:
    answer("return 2 * x")
    shown = gesso("edit", file, "Double it.", "--lines", "2", "--diff")
    assert shown.out.split("\n") == [
        f"--- {file}",
        f"+++ {file}",
        "@@ -1,4 +1,4 @@",
        " def f(x):\r",
        "-    return x  # \u00e9\r",
        "+    return 2 * x\r",
        " \r",
        " end\tx \r",
        "",
    ]
    assert untouched(file)


def test_a_terminal_sees_the_diff_and_no_control_characters(
    gesso: Gesso, file: Path, answer: Answer, terminal: Callable[[str], None]
) -> None:
    answer("x\x1b[2J = 1")
    terminal("")
    shown = gesso("edit", file, "Clear it.", "--lines", "2", "--seed", 4)
    assert "\x1b[31m-    return x  # \u00e9\x1b[0m\n" in shown.out
    assert "\x1b[32m+    x\N{MIDDLE DOT}[2J = 1\x1b[0m\n" in shown.out
    assert plain(shown.out).splitlines()[-1].endswith("s \N{MIDDLE DOT} seed 4")
    answer("return x  # \u00e9")
    shown = gesso("edit", file, "Leave it.", "--lines", "2")
    assert plain(shown.out).startswith("nothing changes \N{MIDDLE DOT} ")


def test_the_whole_result_as_json(gesso: Gesso, file: Path, answer: Answer) -> None:
    answer("class")
    shown = gesso("edit", file, "Double it.", "--match", "def", "--json", "--seed", 3)
    result = json.loads(shown.out)
    assert (result["before"], result["selected"], result["replacement"]) == ("", "def", "class")
    assert result["text"] == "class" + result["after"] == TEXT.replace("def", "class")
    assert result["changed"] is True
    assert result["diff"].startswith(f"--- {file}\n")
    assert result["denoising_steps"] == sum(result["answer"]["denoising_steps"]) > 0
    assert result["answer"]["seed"] == 3
    assert untouched(file)


@pytest.mark.parametrize("arguments", [(), ("--in-place",), ("--json",), ("--diff", "--in-place")])
def test_half_an_answer_changes_nothing(gesso: Gesso, file: Path, answer: Answer, arguments: tuple[str, ...]) -> None:
    answer("fig " * 300)
    shown = gesso("edit", file, "Go on.", "--lines", "2", *arguments)
    assert (shown.code, shown.out == "") == (1, "--json" not in arguments)
    assert shown.err.startswith("gesso: nothing is changed: the answer was not finished within")
    assert shown.err.count("\n") == 1
    assert untouched(file)


@pytest.mark.parametrize("arguments", [(), ("--in-place",), ("--json",), ("--diff",)])
def test_an_edit_that_changes_nothing_says_so(
    gesso: Gesso, file: Path, answer: Answer, arguments: tuple[str, ...]
) -> None:
    answer("def")
    shown = gesso("edit", file, "Go on.", "--match", "def", *arguments)
    assert (shown.code, shown.err) == (0, "nothing is changed: the model gave back what is selected as it was\n")
    assert untouched(file)


def test_a_refusal_is_written_into_no_file(gesso: Gesso, file: Path, answer: Answer) -> None:
    answer("That is outside my skills.")
    shown = gesso("edit", file, "Tell a joke.", "--in-place", "--max-new-tokens", 100)
    told = "gesso: nothing is changed: the model answered 'That is outside my skills.'\n"
    assert (shown.code, shown.out, shown.err) == (1, "", told)
    assert untouched(file)


def test_no_answer_deletes_nothing(gesso: Gesso, file: Path, answer: Answer) -> None:
    answer("")
    shown = gesso("edit", file, "Go on.", "--in-place")
    assert (shown.code, shown.out, shown.err) == (1, "", "gesso: nothing is changed: the answer is empty\n")
    assert untouched(file)


@pytest.mark.parametrize("moment", ["run", "write"])
def test_ctrl_c_leaves_everything_as_it_was(
    gesso: Gesso, file: Path, answer: Answer, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    answer("return 2 * x")
    place = (gesso_job, "run_job") if moment == "run" else (os, "replace")
    monkeypatch.setattr(*place, interrupt)
    shown = gesso("edit", file, "Double it.", "--lines", "2", "--in-place")
    assert (shown.code, shown.out) == (130, "")
    assert untouched(file)


def test_a_write_that_fails_leaves_everything_as_it_was(
    gesso: Gesso, file: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    answer("return 2 * x")
    monkeypatch.setattr(os, "fsync", full)
    shown = gesso("edit", file, "Double it.", "--lines", "2", "--in-place")
    assert (shown.code, shown.err) == (2, f"gesso: {file}: No space left on device\n")
    assert untouched(file)


@pytest.fixture
def linked(file: Path) -> Path:
    """A second hard link of the file."""
    other = file.parent / "other"
    other.hardlink_to(file)
    return other


@pytest.mark.parametrize("new", [b"short", TEXT.encode() * 100])
def test_hard_links_stay_when_a_file_is_written(file: Path, linked: Path, new: bytes) -> None:
    before = file.stat()
    write_atomically(file, TEXT.encode(), new)
    assert file.read_bytes() == linked.read_bytes() == new
    after = file.stat()
    assert (after.st_ino, after.st_nlink, after.st_mode) == (before.st_ino, 2, before.st_mode)
    assert sorted(file.parent.iterdir()) == sorted([file, linked])


@pytest.mark.parametrize("fails", [{1}, {2}, {2, 3}])
def test_a_linked_file_that_cannot_be_written_loses_nothing(
    file: Path, linked: Path, monkeypatch: pytest.MonkeyPatch, fails: set[int]
) -> None:
    """The copy, the file, or the file and its restoration do not reach the disk."""
    number = itertools.count(1)

    def full(_: int) -> None:
        if next(number) in fails:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises((OSError, GessoError), match="No space left on device") as failed:
        write_atomically(file, TEXT.encode(), b"new")
    beside = [path for path in file.parent.iterdir() if path not in (file, linked)]
    if fails == {2, 3}:
        assert [path.read_bytes() for path in beside] == [TEXT.encode()]
        assert str(beside[0]) in str(failed.value)
    else:
        assert beside == []
        assert file.read_bytes() == linked.read_bytes() == TEXT.encode()


def test_a_linked_file_that_somebody_else_wrote_meanwhile_is_left_alone(file: Path, linked: Path) -> None:
    with pytest.raises(GessoError, match="was changed by somebody else"):
        write_atomically(file, b"what it was", b"what it becomes")
    assert linked.read_bytes() == TEXT.encode()
    assert sorted(file.parent.iterdir()) == sorted([file, linked])


def test_a_file_that_somebody_else_wrote_meanwhile_is_left_alone(file: Path) -> None:
    with pytest.raises(GessoError, match="was changed by somebody else"):
        write_atomically(file, b"what it was", b"what it becomes")
    assert untouched(file)


OLD = "a\r\nb\r\nc\r\nd\r\ne"
NEW = "A\r\nb\r\nC\r\nd\r\nE\r\nF"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("y\ny\ny", NEW),
        ("n\nn\nn", OLD),
        ("n\na", "a\r\nb\r\nC\r\nd\r\nE\r\nF"),
        ("y\nq", "A\r\nb\r\nc\r\nd\r\ne"),
        ("what\n\nN\nY", "a\r\nb\r\nC\r\nd\r\ne"),
        ("a", NEW),
        ("q", OLD),
        ("", OLD),
    ],
)
def test_changes_are_taken_one_by_one(
    gesso: Gesso, tmp_path: Path, answer: Answer, terminal: Callable[[str], None], typed: str, expected: str
) -> None:
    file = tmp_path / "list"
    file.write_bytes(OLD.encode())
    answer(NEW.replace("\r\n", "\n"))
    terminal(typed)
    shown = gesso("edit", file, "Shout.", "--interactive")
    assert shown.code == 0, shown.err
    assert file.read_bytes() == expected.encode()
    assert "@@ line 1 @@\n-a\n+A\n" in plain(shown.out)


@pytest.mark.parametrize(
    ("instruction", "arguments", "message"),
    [
        (" ", (), "instruction is empty"),
        ("Double it.", ("--lines", "3"), "text: there is nothing to edit in what is selected"),
        ("Double it.", ("--strength", "0"), "--strength must be above 0 and at most 1, got 0.0"),
        ("Double it.", ("--context", "-1"), "--context must be an integer of at least 0, got -1"),
    ],
)
def test_what_cannot_be_edited_is_told_before_anything_is_loaded(
    gesso: Gesso,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    instruction: str,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.setattr(api, "load", None)
    shown = gesso("edit", file, instruction, *arguments)
    assert (shown.code, shown.out, shown.err) == (2, "", f"gesso: {message}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--lines", "2", "--match", "x"), "--match and --lines contradict"),
        (("--lines", "9"), "lines: the text has 4"),
        (("--lines", "two"), "--lines must be a line such as 10"),
        (("--lines", "3"), "text: there is nothing to edit"),
        (("--match", "x"), "--match must occur exactly once in the text, it occurs 3 times"),
        (("--strength", "0"), "--strength must be above 0"),
        (("--strength", "1.1"), "--strength must be above 0 and at most 1"),
        (("--context", "-1"), "--context must be"),
        (("--max-new-tokens", "0"), "--max-new-tokens must be"),
        (("--diff", "--json"), "--json and --diff contradict"),
        (("--interactive",), "--interactive needs a terminal"),
        (("--interactive", "--json"), "--interactive and --json contradict"),
        (("--interactive", "--diff"), "--interactive and --diff contradict"),
    ],
)
def test_a_mistake_is_one_line(gesso: Gesso, file: Path, arguments: tuple[str, ...], message: str) -> None:
    shown = gesso("edit", file, "Double it.", *arguments)
    assert (shown.code, shown.out == "") == (2, "--json" not in arguments)
    assert shown.err.startswith(f"gesso: {message}")
    assert shown.err.count("\n") == 1
    assert untouched(file)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("missing", (), "No such file"),
        (".", (), "Is a directory"),
        ("bytes", (), "bytes is no UTF-8 text"),
        ("empty", (), "text: there is nothing to edit"),
        ("-", ("--in-place",), "--in-place needs a file"),
        ("-", ("--interactive",), "--interactive needs a file"),
    ],
)
def test_a_file_that_cannot_be_edited_is_one_line(
    gesso: Gesso, tmp_path: Path, name: str, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "bytes").write_bytes(b"caf\xe9")
    (tmp_path / "empty").write_bytes(b"")
    shown = gesso("edit", name if name == "-" else tmp_path / name, "Double it.", *arguments)
    assert (shown.code, shown.out) == (2, "")
    assert message in shown.err
    assert shown.err.count("\n") == 1


def test_an_empty_instruction_is_refused(gesso: Gesso, file: Path) -> None:
    shown = gesso("edit", file, "")
    assert (shown.code, shown.err) == (2, "gesso: instruction is empty\n")
