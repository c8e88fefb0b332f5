"""The canvas on a terminal: what is shown, and what never reaches it."""

import io
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from engine.tiny import reciter
from rich.console import Console, RenderableType
from rich.live import Live

from cli.conftest import Gesso
from gesso import api
from gesso.cli import render
from gesso.cli.render import BANDS, WAITING, draw_canvas, figures, printable, show_live, style_of, write_plain
from gesso.engine.events import BlockCommitted, DenoisingFrame, Event, Failed, Finished
from gesso.engine.result import GenerationResult
from gesso.errors import GessoError

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WORDS = "pear fig apple kiwi lemon mango plum lime grape peach"


@pytest.fixture(autouse=True)
def every_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "REFRESH_SECONDS", 0.0)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[RenderableType]:
    """Everything that is put on the screen while a canvas resolves."""
    updates: list[RenderableType] = []
    update = Live.update

    def spy(self: Live, renderable: RenderableType, *, refresh: bool = False) -> None:
        updates.append(renderable)
        update(self, renderable, refresh=refresh)

    monkeypatch.setattr(Live, "update", spy)
    return updates


def terminal(width: int = 60, height: int = 20) -> Console:
    return Console(
        force_terminal=True, width=width, height=height, file=io.StringIO(), highlight=False,
        color_system="truecolor", _environ={"TERM": "xterm-256color"},
    )  # fmt: skip


def screen(console: Console) -> str:
    """All that was written, without the codes that move and colour."""
    return ESCAPES.sub("", raw(console))


def raw(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def lines(renderable: RenderableType, console: Console) -> list[str]:
    return ["".join(part.text for part in line) for line in console.render_lines(renderable, pad=False)]


def record(text: str, **options: Any) -> tuple[list[Event], frozenset[int]]:
    engine = reciter(text)
    return list(engine.stream("hi", seed=7, **options)), engine.tokenizer.special_ids


def result_of(events: Iterable[Event]) -> GenerationResult:
    return next(event.result for event in events if isinstance(event, Finished))


def test_legend_step_counter_and_speed_are_shown(drawn: list[RenderableType]) -> None:
    events, special = record(WORDS)
    console = terminal()
    result = show_live(iter(events), console, special)
    assert result == result_of(events)
    pictures = ["\n".join(lines(picture, console)) for picture in drawn]
    assert len(pictures) == 4
    for number, picture in enumerate(pictures):
        assert f"canvas {number // 2 + 1} \N{MIDDLE DOT} step {number % 2 + 1}/12" in picture
        assert "tok/s" in picture
        assert "accepted 8/8" in picture
        assert all(name in picture for *_, name in BANDS)
    assert "pear fig" in pictures[0]
    assert "lime grape peach" in pictures[-1]
    text = screen(console)
    assert "step 1/12" in text
    assert "tok/s" in text
    assert "sure" in text


def test_without_colours_certainty_is_seen_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """By bold, underlined and dim letters, and a legend in them."""
    monkeypatch.setenv("NO_COLOR", "1")
    events, special = record(WORDS)
    console = Console(
        force_terminal=True, width=60, height=20, file=io.StringIO(), _environ={"TERM": "xterm", "NO_COLOR": "1"}
    )
    show_live(iter(events), console, special)
    codes = set(re.findall(r"\x1b\[([0-9;]+)m", raw(console)))
    assert codes <= {"0", "1", "2", "3", "4"}
    assert re.search(r"\x1b\[1msure\x1b\[0m  likely  \x1b\[4mopen\x1b\[0m  \x1b\[2mnoise\x1b\[0m", raw(console))
    assert len({style_of(entropy, coloured=False) for entropy in (0.0, 0.1, 1.0, 9.0)}) == len(BANDS)


def test_the_answer_and_one_line_about_it_stay(drawn: list[RenderableType]) -> None:
    events, special = record("fig\napple")
    console = terminal(width=100)
    show_live(iter(events), console, special)
    last = screen(console).rstrip("\n").split("\n")[-3:]
    assert [line.strip("\r ") for line in last[:2]] == ["fig", "apple"]
    assert last[2] == " \N{MIDDLE DOT} ".join(figures(result_of(events)))
    assert "seed 7" in last[2]
    assert last[2].startswith(f"{result_of(events).completion_tokens} tokens \N{MIDDLE DOT} 1 canvas \N{MIDDLE DOT} 2 ")


@pytest.mark.parametrize("counted", [True, False])
def test_an_answer_without_canvases_is_drawn_as_it_grows(drawn: list[RenderableType], counted: bool) -> None:
    """One that is written token by token; and one of a server that tells nothing of its tokens."""
    whole = result_of(record("pear fig")[0])
    ids = ((30,), (31,)) if counted else ((), ())
    events: list[Event]
    events = [BlockCommitted(n, ids[n], word, "", 1, True, mode="ar") for n, word in enumerate(("pear ", "fig"))]
    console = terminal(width=100)
    show_live(iter([*events, Finished(replace(whole, mode="ar"))]), console, frozenset())
    pictures = [lines(picture, console) for picture in drawn]
    assert [picture[0].strip() for picture in pictures] == ["pear", "pear fig"]
    below = [[line.partition(" \N{MIDDLE DOT} ")[0] for line in picture[1:]] for picture in pictures]
    assert below == ([["", "1 token"], ["", "2 tokens"]] if counted else [[], []])
    last = screen(console).rstrip("\n").split("\n")[-1]
    assert "token by token" in last
    assert "canvas" not in last


def test_what_there_was_of_an_answer_that_breaks_off_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Iterable[Event]:
        yield BlockCommitted(0, (), "pear ", "hm", 1, True, mode="ar")
        yield BlockCommitted(1, (), "fig", "", 1, True, mode="ar")
        raise GessoError("the connection broke")

    console = terminal(width=100)
    with pytest.raises(GessoError, match="the connection broke"):
        show_live(broken(), console, frozenset())
    last = [line.strip("\r ") for line in screen(console).rstrip("\n").split("\n")[-4:]]
    assert last == ["hm", "", "pear fig", "[broken off: the answer ends here, unfinished]"]
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    with pytest.raises(GessoError, match="the connection broke"):
        write_plain(broken())
    assert out.getvalue() == "pear fig\n"
    with pytest.raises(GessoError, match="no answer"):
        write_plain([Failed("crash", "no answer")])
    assert out.getvalue() == "pear fig\n"


def test_something_is_said_while_the_prompt_is_read() -> None:
    events, special = record(WORDS)
    console = terminal()

    def slow() -> Iterable[Event]:
        assert WAITING in screen(console)
        yield from events

    show_live(slow(), console, special)
    assert WAITING not in screen(console).rsplit("step 1/12", 1)[-1]


def test_thoughts_are_shown_apart(drawn: list[RenderableType]) -> None:
    events, special = record("<|channel>thought\npear\n<channel|>fig", thinking=True)
    console = terminal()
    show_live(iter(events), console, special)
    assert screen(console).index("pear") < screen(console).rindex("fig")
    assert "thought" not in screen(console).split("\n")[-2]


def test_certainty_is_colour() -> None:
    assert [style_of(entropy) for entropy in (0.0, 0.049, 0.05, 0.5, 1.5, 99.0)] == [
        "bold green", "bold green", "green", "yellow", "red", "red",
    ]  # fmt: skip
    frame = DenoisingFrame(
        0, 1, 12, 0.8, (1, 30, 31, 32), (True,) * 4, (0.0, 0.0, 1.0, 9.0), ("<eos>", "a", "b\n", "c")
    )
    text = draw_canvas(frame, frozenset({1}))
    assert text.plain == "\N{MIDDLE DOT}ab\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}\nc"
    assert [str(span.style) for span in text.spans] == ["dim", "bold green", "yellow", "red"]


EVIL = "fig\x1b]0;owned\x07\x1b[2J\x9b5n\x08\r\x7fpear\u202e\u2066x"


def test_control_characters_never_reach_the_terminal(drawn: list[RenderableType]) -> None:
    """A title, a cleared screen, a question to the terminal, a deleted character, text turned around."""
    events, special = record(f"<|channel>thought\n{EVIL}<channel|>{EVIL}", thinking=True)
    hostile = DenoisingFrame(
        0, 1, 12, 0.8, (30, 31, 32), (True,) * 3, (0.0, 0.5, 9.0), ("\x1b]0;owned\x07", "\x1b[2J\x9b5n", "\x08\u202e")
    )
    block = BlockCommitted(0, (30,), "\x1b[1337mfig", "\x1b]0;owned\x07", 2, True)
    console = terminal()
    result = show_live(iter([hostile, block, hostile, *events]), console, special)
    written = raw(console)
    for bad in ("\x1b]", "\x1b[2J", "\x1b[1337m", "\x9b", "\x07", "\x08", "\x7f", "\u202e", "\u2066"):
        assert bad not in written
    assert {c for c in screen(console) if not c.isprintable()} <= {"\n", "\r"}
    assert result.text == result.reasoning == EVIL, "the result itself is what the model said"
    assert "fig" in screen(console)
    assert "pear" in screen(console)


def test_printable_keeps_what_is_text() -> None:
    spaces, joined = "10\u00a0%\u3000\u202f\u2009", "\u0645\u06cc\u200c\u0631 \U0001f469\u200d\U0001f467"
    for text in ("a b\n\tc", "caf\u00e9 \U0001f600 \u4e2d", "[bold]x[/bold]", "", spaces, joined):
        assert printable(text) == text
    assert printable("a\x00b\x1b\x85\u2028\ud800") == "a" + "b".join(["\N{MIDDLE DOT}", "\N{MIDDLE DOT}" * 4])
    assert printable("a\tb", keep="\n") == "a\N{MIDDLE DOT}b"


def test_markup_in_the_text_is_text(drawn: list[RenderableType]) -> None:
    events, special = record("[red]fig[/red] [/nope]")
    console = terminal()
    show_live(iter(events), console, special)
    assert "[red]fig[/red] [/nope]" in screen(console)


@pytest.mark.parametrize(
    ("width", "height"), [(60, 20), (100, 50), (30, 10), (24, 12), (60, 6), (40, 5), (20, 5), (12, 3)]
)
def test_a_frame_fits_on_the_screen(drawn: list[RenderableType], width: int, height: int) -> None:
    """What is taller than the screen could not be drawn over."""
    events, special = record(f"{WORDS}\n" * 9)
    console = terminal(width, height)
    show_live(iter(events), console, special)
    assert len(drawn) > 20
    for picture in drawn:
        assert len(lines(picture, console)) < height
    assert screen(console).count("peach") >= 9, "all of it is printed in the end"


@pytest.mark.parametrize(("width", "height"), [(20, 5), (1, 1), (5, 2), (200, 1)])
def test_a_tiny_terminal_is_no_reason_to_fail(drawn: list[RenderableType], width: int, height: int) -> None:
    events, special = record(WORDS)
    console = terminal(width, height)
    result = show_live(iter(events), console, special)
    assert result.text == WORDS
    assert len(drawn) == 4


def test_frames_that_come_too_fast_are_left_out(drawn: list[RenderableType], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "REFRESH_SECONDS", 3600.0)
    events, special = record(WORDS)
    show_live(iter(events), terminal(), special)
    assert len(drawn) == 2, "the first of every canvas is always shown"


def test_generate_draws_in_a_terminal_and_replay_does_again(
    gesso: Gesso, monkeypatch: pytest.MonkeyPatch, drawn: list[RenderableType], tmp_path: Any
) -> None:
    monkeypatch.setattr(api, "load", lambda *_, **__: reciter(WORDS))
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("LINES", "24")
    outcome = gesso("generate", "hi", "--seed", 7, "--trace", tmp_path / "trace")
    assert (outcome.code, len(drawn)) == (0, 4)
    text = ESCAPES.sub("", outcome.out)
    assert WORDS in text
    assert "seed 7" in text
    again = gesso("replay", tmp_path / "trace", "--speed", 1000)
    assert (again.code, len(drawn)) == (0, 8)
    assert WORDS in ESCAPES.sub("", again.out)
    quiet = gesso("generate", "hi", "--plain")
    assert (quiet.out, len(drawn)) == (WORDS + "\n", 8)
    assert gesso("generate", "hi", "--json").out.startswith('{"text"')
    assert len(drawn) == 8
