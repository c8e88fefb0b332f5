"""Replays: from events or a file, in a notebook or as a page."""

import json
from pathlib import Path
from typing import Any

import pytest
from display.test_replay_page import data_of

import gesso
from engine.tiny import reciter
from gesso.engine.events import BlockCommitted, DenoisingFrame, Failed
from gesso.engine.trace import read_trace, record, replay
from gesso.errors import DataError, OptionError

WORDS = "pear fig apple kiwi lemon mango plum lime grape peach"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    engine = reciter(WORDS)
    path = tmp_path / "trace.jsonl"
    events = record(engine.stream("hi", seed=7), path, model="mini", prompt="hi", special=engine.tokenizer.special_ids)
    assert [type(event).__name__ for event in events][-1] == "Finished"
    return path


def test_events_and_their_file_are_the_same_replay(trace: Path) -> None:
    engine = reciter(WORDS)
    from_file = gesso.replay(trace)
    from_events = gesso.replay(engine.stream("hi", seed=7), prompt="hi")
    pages = [data_of(shown.html) for shown in (from_file, from_events)]
    times = [row.pop("seconds") for row in pages[0][1:]]
    assert times == sorted(times)
    assert times[-1] > 0
    assert {row.pop("seconds") for row in pages[1][1:]} == {0}, "events have no times"
    assert pages[0][0].pop("model") == "mini"
    assert pages[1][0].pop("model") == ""
    for page in pages:
        for name in ("seconds", "seconds_to_first_block", "seconds_to_prompt"):
            page[-1]["result"].pop(name)
    assert pages[0] == pages[1]
    assert replay(str(trace)) == from_file


def test_a_replay_shows_every_step_behind_what_was_committed(trace: Path) -> None:
    shown = replay(trace)
    events = [event for _, event in read_trace(trace).events]
    head, *data = data_of(shown.html)
    written = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    assert head == written[0]
    for row in written:
        row.pop("canvas_tokens", None)
    assert data == written[1:]
    assert "".join(row["text"] for row in data if row["event"] == "block") == WORDS
    frames = [event for event in events if isinstance(event, DenoisingFrame)]
    assert len(frames) == sum(row["event"] == "draft" for row in data)
    assert f'<pre dir="auto">{WORDS}</pre>' in shown.html


def test_a_notebook_gets_a_frame_and_a_file_the_page(trace: Path, tmp_path: Path) -> None:
    shown = replay(trace)
    assert shown._repr_html_().startswith("<iframe ")
    assert "DenoisingFrame" not in repr(shown), "a notebook keeps it beside the page"
    shown.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == shown.html


def test_a_request_that_failed_says_so() -> None:
    frame = DenoisingFrame(0, 1, 12, 0.8, (30,), (True,), (0.0,), ("fig",))
    failed = replay([frame, Failed("crash", "out of memory")]).html
    assert len(data_of(failed)) == 2
    assert '<p class="warning" dir="auto">out of memory</p>' in failed
    assert "out of memory" not in replay([frame]).html


def test_what_has_no_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no denoising step") as caught:
        replay(reciter("fig").stream("hi", frames=False))
    assert caught.value.hint == "stream with frames=True"

    with pytest.raises(OptionError, match="no denoising step"):
        replay([])
    with pytest.raises(DataError, match="No such file"):
        replay(tmp_path / "none")
    with pytest.raises(OptionError, match=r"^source must be a file or events, got 5$"):
        replay(5)


def test_an_answer_token_by_token_has_no_denoising_step() -> None:
    block = BlockCommitted(0, (5,), "fig", "", 0, True, mode="ar")
    with pytest.raises(OptionError, match="written token by token") as caught:
        replay([block])
    assert caught.value.hint == "ask for canvases"


def test_a_replay_that_cannot_be_written_names_its_file(trace: Path, tmp_path: Path) -> None:
    for name in ("page.html", "page.svg"):
        with pytest.raises(OptionError, match=f"{name} cannot be written: No such file"):
            replay(trace).save(tmp_path / "none" / name)


def test_a_line_nested_too_deeply_is_refused(trace: Path) -> None:
    with trace.open("a") as file:
        file.write("[" * 100_000 + "\n")
    with pytest.raises(DataError, match="no JSON"):
        read_trace(trace)


def test_numbers_that_no_trace_has_are_refused_by_line(trace: Path) -> None:
    lines = trace.read_text("utf-8").splitlines()
    for wrong, what in ((f'{{"seconds": {"1" * 5000}}}', "no JSON"), (f'{{"seconds": 1{"0" * 400}}}', "too large")):
        trace.write_text("\n".join([lines[0], wrong, *lines[1:]]))
        with pytest.raises(DataError, match=f"line 2: .*{what}"):
            read_trace(trace)
    row = json.loads(lines[1])
    row["entropy"][0] = 10**400
    trace.write_text("\n".join([lines[0], json.dumps(row), *lines[2:]]))
    with pytest.raises(DataError, match=r"line 2: .*too large"):
        read_trace(trace)


def test_a_trace_is_read_up_to_a_bound(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gesso.engine.trace.MOST_BYTES", trace.stat().st_size)
    whole = read_trace(trace)
    with trace.open("ab") as file:
        file.write(b"\n")
    with pytest.raises(DataError, match=r"has more than \d+ MiB"):
        read_trace(trace)
    with pytest.raises(DataError, match=r"^/dev/zero has more than"):
        read_trace(Path("/dev/zero"))
    trace.write_bytes(b"\xef\xbb\xbf" + trace.read_bytes().removesuffix(b"\n"))
    monkeypatch.undo()
    assert read_trace(trace) == whole, "an editor's mark of UTF-8 is no part of it"


def test_a_trace_that_cannot_be_written_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="--trace") as caught:
        list(record([], tmp_path / "none" / "x", model="", prompt="", special=frozenset()))
    assert caught.value.option == "trace"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_a_trace_that_a_full_disk_cuts_short_names_the_option() -> None:
    with pytest.raises(OptionError, match=r"^--trace /dev/full: No space left") as caught:
        list(record([Failed("crash", "x")], Path("/dev/full"), model="", prompt="", special=frozenset()))
    assert caught.value.option == "trace"


def test_the_header_is_read(trace: Path) -> None:
    head = json.loads(trace.read_text("utf-8").split("\n")[0])
    read = read_trace(trace)
    assert (read.model, read.prompt, sorted(read.special)) == (head["model"], head["prompt"], head["special"])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (["x"], "a file or events, got 'x' among them"),
        (b"x", "got 120 among them"),
        ("", "source is empty"),
        (5, "got 5"),
    ],
)
def test_what_is_no_events_is_refused_as_that(source: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        replay(source)
