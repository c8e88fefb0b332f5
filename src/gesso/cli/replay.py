"""Implements `gesso replay`: shows a trace again."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gesso.cli.progress import is_screen
from gesso.cli.signals import INTERRUPTED
from gesso.errors import OptionError

if TYPE_CHECKING:
    from gesso.engine.events import Event
    from gesso.engine.trace import Trace


def replay(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A file written by gesso generate --trace; - reads standard input."),
    ],
    speed: Annotated[float, typer.Option(metavar="X", help="How many times as fast as it was; 0 does not wait.")] = 1.0,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it as a page for a browser instead.")] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it as an animated picture instead.")] = None,
    gif: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it as an animated GIF instead.")] = None,
    font: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of the GIF: a .ttf or .otf, for text that is not Latin.")
    ] = None,
) -> int:
    """Replay a trace: the canvas resolves again as it did, here or in files."""
    from gesso.cli.session import present

    if not speed >= 0:  # which is no number either
        raise OptionError(f"--speed must be at least 0, got {speed}", option="speed")
    if font is not None and gif is None:
        raise OptionError("--font has no meaning without --gif", option="font")
    _refuse_same(file, {"html": html, "svg": svg, "gif": gif})
    trace = _read(file)
    if html or svg or gif:
        _write(trace, html, svg, gif, font)
        return 0
    live = is_screen(sys.stdout)
    result = present(_paced(trace.events, speed if live else 0.0), live=live, as_json=False, special=trace.special)
    return INTERRUPTED if result.finish_reason == "cancelled" else 0


def _read(file: str) -> "Trace":
    from gesso.engine.trace import read_trace

    if file == "-":
        return read_trace(Path("standard input"), sys.stdin.buffer)
    return read_trace(Path(file))


def _refuse_same(trace: str, outputs: dict[str, Path | None]) -> None:
    """Refuses an output in the place of the trace, which would be lost, or of another output."""
    taken = {} if trace == "-" else {Path(trace).resolve(): "the trace"}
    for name, path in outputs.items():
        if path is None or (path.exists() and not path.is_file()):  # a device takes whatever is written to it
            continue
        if path.resolve() in taken:
            raise OptionError(f"--{name} is {path}, as is {taken[path.resolve()]}: name another file", option=name)
        taken[path.resolve()] = f"--{name}"


def _write(trace: "Trace", html: Path | None, svg: Path | None, gif: Path | None, font: Path | None) -> None:
    """Write files of a trace, all of them made before the first is written."""
    from gesso.engine.trace import replay_of
    from gesso.whole_file import write_whole

    shown = replay_of(trace)
    made = {
        "html": (html, shown.html.encode() if html else b""),
        "svg": (svg, shown.svg.encode() if svg else b""),
        "gif": (gif, shown.gif(font) if gif else b""),
    }
    for name, (path, content) in made.items():
        if path is not None:
            try:
                write_whole(path, content)
            except OSError as error:
                raise OptionError(f"--{name} {path}: {error.strerror}", option=name) from None


def _paced(events: "Iterable[tuple[float, Event]]", speed: float) -> "Iterator[Event]":
    import time

    started = time.monotonic()
    for seconds, event in events:
        if speed:
            time.sleep(max(0.0, seconds / speed - (time.monotonic() - started)))
        yield event
