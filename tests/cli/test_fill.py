"""`gesso fill` as it is typed."""

import io
import json
import sys
from pathlib import Path

import pytest

from cli.conftest import Gesso
from gesso import api
from gesso.cli.app import run
from gesso.cli.files import check_output
from gesso.errors import OptionError

BEFORE, AFTER = "\ufeffdef f(x):\r\n\treturn ", "  \r\n\n# é 日本 \t"
QUICK = ("--seed", 1, "--max-denoising-steps", 1, "--max-new-tokens", 3)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "text"
    path.write_bytes(f"{BEFORE}{{{{ what }}}}{AFTER}".encode())
    return path


def content(text: str) -> str:
    """What is in the hole; all around it must be there."""
    assert text.startswith(BEFORE)
    assert text.endswith(AFTER)
    return text[len(BEFORE) : -len(AFTER)]


def test_the_text_is_printed_as_it_is(gesso: Gesso, file: Path) -> None:
    shown = gesso("fill", file, *QUICK)
    assert (shown.code, shown.err) == (0, "")
    assert content(shown.out)
    assert gesso("fill", file, *QUICK).out == shown.out
    assert "{{ what }}" in file.read_bytes().decode()


def test_a_file_is_written_in_place_and_keeps_its_mode(gesso: Gesso, file: Path) -> None:
    printed = gesso("fill", file, *QUICK).out
    file.chmod(0o640)
    shown = gesso("fill", file, "--in-place", *QUICK)
    assert (shown.code, shown.out) == (0, "")
    assert file.read_bytes() == printed.encode()
    assert file.stat().st_mode & 0o777 == 0o640
    assert list(file.parent.iterdir()) == [file]


def test_another_file_is_written(gesso: Gesso, file: Path, tmp_path: Path) -> None:
    shown = gesso("fill", file, "--output", tmp_path / "out", *QUICK)
    assert (shown.code, shown.out) == (0, "")
    assert content((tmp_path / "out").read_bytes().decode())


def test_the_whole_result_as_json(gesso: Gesso, file: Path) -> None:
    shown = gesso("fill", file, "--json", "--alternatives", 1, *QUICK)
    result = json.loads(shown.out)
    (hole,) = result["holes"]
    assert hole["name"] == "what"
    assert content(result["text"]) == hole["text"]
    assert len(hole["alternatives"]) == 1
    assert result["seed"] == 1


def test_the_instruction_is_what_the_model_is_asked(gesso: Gesso, file: Path) -> None:
    short, long = (
        json.loads(gesso("fill", file, "--json", *QUICK, *more).out) for more in ((), ("--instruction", "x" * 99))
    )
    assert long["prompt_tokens"] > short["prompt_tokens"]


def test_standard_input_is_not_translated(
    gesso: Gesso, bundled: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = gesso("fill", file, *QUICK).out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert run(["fill", "-", *(str(part) for part in QUICK)]) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(("name", "problem"), [("absent/x", "No such file or directory"), ("", "Is a directory")])
def test_a_file_that_cannot_be_written_is_told_before_anything_is_loaded(
    gesso: Gesso, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: str
) -> None:
    monkeypatch.setattr(api, "load", None)
    shown = gesso("fill", file, "--output", tmp_path / name)
    assert (shown.code, shown.out, shown.err) == (2, "", f"gesso: --output {tmp_path / name}: {problem}\n")
    shown = gesso("fill", file, "--alternatives", -1)
    assert (shown.code, shown.err) == (2, "gesso: --alternatives must be an integer of at least 0, got -1\n")
    shown = gesso("generate", "x", "--trace", tmp_path / name)
    assert (shown.code, shown.out, shown.err) == (2, "", f"gesso: --trace {tmp_path / name}: {problem}\n")


@pytest.mark.parametrize(("denied", "name"), [("out", "out"), (".", "new")], ids=["a file", "a folder"])
def test_what_must_not_be_written_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, denied: str, name: str
) -> None:
    """Whoever runs the tests may write to any file: the system's answer is made up."""
    (tmp_path / "out").touch()
    check_output(tmp_path / name, "output")
    monkeypatch.setattr("os.access", lambda path, _: Path(path).resolve() != (tmp_path / denied).resolve())
    with pytest.raises(OptionError, match="Permission denied") as refused:
        check_output(tmp_path / name, "output")
    assert refused.value.option == "output"


def test_a_terminal_shows_the_holes(gesso: Gesso, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "text"
    file.write_text("fig {{ }} \x1b[2J plum")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = gesso("fill", file, *QUICK)
    assert shown.code == 0
    first, last = shown.out.splitlines()[0], shown.out.splitlines()[-1]
    assert first.startswith("fig ")
    assert "\x1b[2J" not in shown.out
    assert "seed 1" in last


def test_a_mistake_is_one_line(gesso: Gesso, file: Path, tmp_path: Path) -> None:
    plain, bytes_ = tmp_path / "plain", tmp_path / "bytes"
    plain.write_text("no hole")
    bytes_.write_bytes(b"\xff {{ }}")
    for arguments, message in [
        ((plain,), "no hole"),
        ((bytes_,), "no UTF-8 text"),
        ((tmp_path / "absent",), "absent: No such file"),
        ((tmp_path,), "Is a directory"),
        ((file, "--in-place", "--output", "x"), "contradict"),
        (("-", "--in-place"), "--in-place needs a file"),
        ((file, "--alternatives", -1), "alternatives must be"),
        ((file, "--seed", -1), "--seed must be"),
        ((file, "--mode", "auto"), "--mode must be one of canvas, ar, got 'auto'"),
        ((file, "--canvas-length", 999), "--canvas-length 999"),
        ((file, "--output", tmp_path / "absent" / "x"), "No such file"),
        ((), "Missing argument"),
    ]:
        before = file.read_bytes()
        shown = gesso("fill", *arguments)
        assert shown.code == 2, arguments
        assert message in shown.err
        assert shown.err.count("\n") == 1
        assert file.read_bytes() == before
