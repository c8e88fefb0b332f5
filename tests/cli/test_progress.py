"""What is shown while a command works, and that nothing is where nobody looks."""

import io
import json
import sys
from pathlib import Path

import pytest
from engine.tiny import reciter
from rich.live import Live

from cli.conftest import Gesso, Terminal
from gesso import api
from gesso.cli.options import load_engine
from gesso.cli.progress import is_screen, run_shown, working
from gesso.cli.session import present
from gesso.control.edit import edit
from gesso.control.fill import fill
from gesso.control.job import run_job
from gesso.engine.engine import Engine
from gesso.load_options import LoadOptions

HOLE = "fig {{ }} plum"


@pytest.fixture(scope="session")
def tiny(bundled: Path) -> Engine:
    return api.load(bundled / "mini", "cpu")


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error, as a terminal. Not a fixture: pytest puts its own back when a test begins."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    return terminal


def test_a_screen_is_a_terminal_that_can_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert is_screen(Terminal())
    assert not is_screen(io.StringIO())
    assert not is_screen(None)
    monkeypatch.setenv("TERM", "dumb")
    assert not is_screen(Terminal())


def test_a_spinner_tells_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = watched(monkeypatch)
    with working("loading [bold]x[/bold]"):
        pass
    with working("loading") as tell:
        tell("counting")
    assert "counting" in screen.getvalue()
    assert "loading [bold]x[/bold]" in screen.getvalue()


def test_loading_is_told_before_anything_heavy_is_imported(
    monkeypatch: pytest.MonkeyPatch, tiny: Engine, bundled: Path
) -> None:
    screen = watched(monkeypatch)
    seen: list[str] = []

    class Finder:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "gesso.api":
                seen.append(screen.getvalue())

    monkeypatch.delattr("gesso.api")
    monkeypatch.delitem(sys.modules, "gesso.api")
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    load_engine(LoadOptions(model=str(bundled / "mini"), device="cpu"))
    assert "loading" in seen[0]


def test_json_is_waited_for_with_a_word(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    screen = watched(monkeypatch)
    engine = reciter("fig")
    present(iter(engine.stream("hi", seed=1)), live=False, as_json=True, special=frozenset())
    assert "answering" in screen.getvalue()
    assert json.loads(capsys.readouterr().out)["text"] == "fig"


def test_a_job_of_several_candidates_shows_its_steps(monkeypatch: pytest.MonkeyPatch, tiny: Engine) -> None:
    screen = watched(monkeypatch)
    shown = run_shown(tiny, fill(tiny, HOLE, seed=1, max_denoising_steps=1, max_new_tokens=3))
    plain = run_job(tiny, fill(tiny, HOLE, seed=1, max_denoising_steps=1, max_new_tokens=3))
    assert (shown.text, shown.holes) == (plain.text, plain.holes)
    assert "round 1 \N{MIDDLE DOT} 3 candidates \N{MIDDLE DOT} 0 steps" in screen.getvalue()


def test_a_job_of_one_request_shows_its_canvas(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = watched(monkeypatch)
    engine = reciter("pear fig")
    shown = run_shown(engine, edit(engine, "fig", "Go on.", seed=1))
    assert shown.text == run_job(engine, edit(engine, "fig", "Go on.", seed=1)).text == "pear fig"
    assert "step 1/12" in screen.getvalue()


@pytest.mark.parametrize("term", ["dumb", None])
def test_nothing_is_shown_where_nothing_can_be_drawn(
    monkeypatch: pytest.MonkeyPatch, tiny: Engine, term: str | None
) -> None:
    watched(monkeypatch)
    if term is None:
        monkeypatch.setattr(sys, "stderr", io.StringIO())
    else:
        monkeypatch.setenv("TERM", term)
    with working("loading"):
        run_shown(tiny, fill(tiny, HOLE, seed=1, max_denoising_steps=1, max_new_tokens=3))
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", ["fill", "edit", "choose"])
def test_commands_show_progress_on_standard_error_alone(
    gesso: Gesso, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    drawn: list[object] = []
    start = Live.start
    monkeypatch.setattr(Live, "start", lambda self, refresh=False: (drawn.append(self.console.stderr), start(self))[1])
    if command == "edit":
        monkeypatch.setattr(api, "load", lambda *_, **__: reciter("pear"))
    (tmp_path / "text").write_text("fig plum" if command == "edit" else HOLE)
    file = str(tmp_path / "text")
    arguments = {
        "fill": [file, "--seed", "1", "--max-denoising-steps", "1"],
        "edit": [file, "Go on."],
        "choose": ["x", "--options", "fig,plum", "--seed", "1"],
    }
    call = [command, *arguments[command]]
    quiet = gesso(*call)
    assert (quiet.code, drawn) == (0, []), quiet.err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = gesso(*call)
    assert (shown.code, shown.out) == (0, quiet.out)
    assert len(drawn) >= 2
    assert all(drawn), "all of it on standard error"
