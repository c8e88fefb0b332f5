"""Traces: what `generate --trace` writes, `replay` shows; anything else is refused, by line."""

import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from engine.tiny import reciter

from cli.conftest import Gesso, Outcome
from gesso import api
from gesso.cli import replay as replay_module
from gesso.cli.app import run
from gesso.engine.events import DenoisingFrame, Finished
from gesso.engine.trace import read_trace, replay
from gesso.errors import DataError
from gesso.extras import pip_install

PROMPT = "Sort: pear, fig\u2028\u0085"


@pytest.fixture
def trace(gesso: Gesso, tmp_path: Path) -> tuple[Path, Outcome]:
    path = tmp_path / "trace.jsonl"
    outcome = gesso("generate", PROMPT, "--seed", 3, "--max-new-tokens", 12, "--trace", path)
    assert (outcome.code, outcome.err) == (0, "")
    return path, outcome


def test_a_trace_is_replayed(gesso: Gesso, trace: tuple[Path, Outcome]) -> None:
    path, outcome = trace
    assert gesso("generate", PROMPT, "--seed", 3, "--max-new-tokens", 12).out == outcome.out
    assert gesso("replay", path) == outcome
    assert gesso("replay", path, "--speed", 0) == outcome


def test_a_trace_comes_from_standard_input(
    trace: tuple[Path, Outcome],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, outcome = trace

    def piped(content: bytes, *arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), "ascii"))
        code = run(["replay", "-", *arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    content = path.read_bytes()
    assert piped(content) == outcome
    assert piped(content, "--html", str(tmp_path / "page.html")).code == 0
    assert (tmp_path / "page.html").read_text("utf-8") == replay(path).html
    refused = piped(content.splitlines(keepends=True)[0])
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "gesso: standard input is cut short: its last line is not the end of a request\n"


def test_a_trace_holds_every_event_in_json_lines(trace: tuple[Path, Outcome]) -> None:
    path, _ = trace
    head, *lines = [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]
    assert (head["gesso_trace"], head["model"], head["prompt"]) == (1, "mini", PROMPT)
    kinds = [line["event"] for line in lines]
    steps = lines[-1]["result"]["denoising_steps"]
    assert kinds == [*["draft"] * steps[0], "block", *["draft"] * steps[1], "block", "finished"]
    seconds = [line["seconds"] for line in lines]
    assert seconds == sorted(seconds)
    read = read_trace(path)
    assert (read.model, read.prompt, read.special) == ("mini", PROMPT, frozenset(range(20)))
    assert [at for at, _ in read.events] == seconds
    assert isinstance(read.events[0][1], DenoisingFrame)
    assert isinstance(read.events[-1][1], Finished)


def test_json_and_a_trace_go_together(gesso: Gesso, tmp_path: Path) -> None:
    outcome = gesso("generate", "x", "--seed", 3, "--max-new-tokens", 8, "--json", "--trace", tmp_path / "t")
    assert json.loads(outcome.out)["text"] + "\n" == gesso("replay", tmp_path / "t").out


def test_line_breaks_of_every_kind_survive(gesso: Gesso, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Model text may hold what Python takes for the end of a line and JSON does not."""
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\r\nh\n\n"
    monkeypatch.setattr(api, "load", lambda *_, **__: reciter(text))
    outcome = gesso("generate", "x", "--trace", tmp_path / "t")
    assert outcome.out == text + "\n"
    assert gesso("replay", tmp_path / "t") == outcome


def refused(path: Path, content: str | bytes) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError) as caught:
        read_trace(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_a_trace_that_is_cut_short_is_refused(gesso: Gesso, trace: tuple[Path, Outcome]) -> None:
    path, _ = trace
    lines = path.read_text("utf-8").split("\n")[:-1]
    for count in range(len(lines)):
        message = refused(path, "".join(line + "\n" for line in lines[:count]))
        assert ("is cut short" if count else "is no gesso trace") in message
        broken = refused(path, "\n".join([*lines[:count], lines[count][: len(lines[count]) // 2]]))
        assert f"line {count + 1}: no JSON" in broken
    outcome = gesso("replay", path)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    path.write_text("\n".join(lines), "utf-8")
    assert gesso("replay", path).code == 0, "only the last line break is missing"


def test_a_bad_line_is_named_by_its_number(trace: tuple[Path, Outcome]) -> None:
    path, _ = trace
    lines = path.read_text("utf-8").split("\n")[:-1]
    for number in range(1, len(lines) + 1):
        for junk, what in (
            ("garbage", "no JSON"), ("", "no JSON"), ("[]", "no JSON object"), ("5", "no JSON object"),
            ("null", "no JSON object"),
        ):  # fmt: skip
            message = refused(path, "\n".join([*lines[: number - 1], junk, *lines[number:]]) + "\n")
            assert f"line {number}: {what}" in message
        if number > 1:
            message = refused(path, "\n".join([*lines[: number - 1], "{}", *lines[number:]]) + "\n")
            assert f"line {number}: no seconds" in message


def test_an_output_never_takes_the_place_of_the_trace(gesso: Gesso, trace: tuple[Path, Outcome]) -> None:
    path, _ = trace
    held = path.read_bytes()
    (link := path.with_name("link")).symlink_to(path)
    for kind in ("html", "svg", "gif"):
        for name in (path, link):
            outcome = gesso("replay", path, f"--{kind}", name)
            assert (outcome.code, outcome.out) == (2, "")
            assert f"--{kind} is {name}, as is the trace" in outcome.err
    page = path.with_name("page")
    outcome = gesso("replay", path, "--html", page, "--svg", page)
    assert (outcome.code, page.exists()) == (2, False)
    assert f"--svg is {page}, as is --html: name another file" in outcome.err
    assert path.read_bytes() == held


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"event": "draught"}, "unknown event 'draught'"),
        ({"seconds": "soon"}, "could not convert"),
        ({"seconds": None}, "float"),
        ({"seconds": -1.0}, "seconds is -1.0"),
        ({"seconds": float("nan")}, "seconds is nan"),
        ({"seconds": float("inf")}, "seconds is inf"),
        ({"tokens": 5}, "tokens is 5"),
        ({"tokens": [5]}, "equally long"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_bad_event_is_named_by_its_line(trace: tuple[Path, Outcome], change: dict[str, Any], what: str) -> None:
    path, _ = trace
    lines = path.read_text("utf-8").split("\n")[:-1]
    lines[2] = json.dumps({**json.loads(lines[2]), **change})
    message = refused(path, "\n".join(lines))
    assert "line 3: " in message
    assert what in message


@pytest.mark.parametrize(
    "content",
    [
        "{}",
        '{"gesso_trace": 2, "special": []}',
        '{"gesso_trace": 1}',
        '{"gesso_trace": 1, "special": 5}',
        '{"gesso_trace": 1, "special": {}}',
        '{"model": "mini"}',
        b"\x00\xff\xfe",
        b"caf\xe9\n",
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, content: str | bytes) -> None:
    assert "is no " in refused(tmp_path / "t", content)


def test_what_cannot_be_read_or_written_is_one_line(gesso: Gesso, tmp_path: Path) -> None:
    for arguments in (
        ("replay", tmp_path),
        ("replay", tmp_path / "nosuch"),
        ("generate", "x", "--trace", tmp_path),
        ("generate", "x", "--trace", tmp_path / "nosuch" / "trace"),
    ):
        outcome = gesso(*arguments)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
        assert "directory" in outcome.err


def test_a_replay_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    events: Any = [(0.0, "a"), (1.0, "b"), (4.0, "c"), (4.0, "d")]

    def times(speed: float) -> list[float]:
        clock[0] = 100.0
        return [clock[0] - 100.0 for _ in replay_module._paced(events, speed)]

    assert times(1.0) == [0.0, 1.0, 4.0, 4.0]
    assert times(2.0) == [0.0, 0.5, 2.0, 2.0]
    assert times(0.0) == [0.0, 0.0, 0.0, 0.0]


# Files.


def test_a_trace_as_files(gesso: Gesso, trace: tuple[Path, Outcome], tmp_path: Path) -> None:
    path, _ = trace
    names = {kind: tmp_path / f"out.{kind}" for kind in ("html", "svg", "gif")}
    outcome = gesso("replay", path, *(part for kind, name in names.items() for part in (f"--{kind}", name)))
    assert outcome == Outcome(0, "", "")
    shown = replay(path)
    assert names["html"].read_text("utf-8") == shown.html
    assert names["svg"].read_text("utf-8") == shown.svg
    assert names["gif"].read_bytes() == shown.gif()
    for kind, name in names.items():
        shown.save(tmp_path / f"again.{kind}")
        assert (tmp_path / f"again.{kind}").read_bytes() == name.read_bytes()


@pytest.mark.parametrize("kind", ["html", "svg", "gif"])
def test_a_picture_that_does_not_fit_leaves_the_old_one(
    gesso: Gesso, trace: tuple[Path, Outcome], tmp_path: Path, kind: str
) -> None:
    resource = pytest.importorskip("resource", reason="nothing bounds files here")
    file = tmp_path / "picture"
    file.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))
    try:
        outcome = gesso("replay", trace[0], f"--{kind}", file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (outcome.code, outcome.err) == (2, f"gesso: --{kind} {file}: File too large\n")
    assert file.read_text() == "old"


def test_mistakes_about_files_are_one_line(gesso: Gesso, trace: tuple[Path, Outcome], tmp_path: Path) -> None:
    path, _ = trace
    for arguments, told in (
        (("--html", tmp_path / "nosuch" / "x.html"), "--html"),
        (("--svg", tmp_path), "--svg"),
        (("--speed", "nan"), "--speed must be at least 0, got nan"),
        (("--font", path), "--font has no meaning without --gif"),
        (("--gif", tmp_path / "x.gif", "--font", path), "cannot be read as a font"),
    ):
        outcome = gesso("replay", path, *arguments)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
        assert told in outcome.err
    assert not (tmp_path / "x.gif").exists()


def test_a_gif_without_pillow_names_the_extra(
    gesso: Gesso, trace: tuple[Path, Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    outcome = gesso("replay", trace[0], "--gif", tmp_path / "x.gif")
    assert outcome.code == 2
    assert pip_install("vision") in outcome.err
