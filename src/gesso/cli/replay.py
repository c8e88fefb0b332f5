"""Implements `gesso replay`: shows a trace again."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gesso.cli.progress import is_screen

if TYPE_CHECKING:
    from gesso.engine.events import Event


def replay(
    file: Annotated[Path, typer.Argument(help="A file written by gesso generate --trace.")],
    speed: Annotated[float, typer.Option(help="How many times as fast as it was; 0 does not wait.")] = 1.0,
) -> int:
    """Replay a trace: the canvas resolves again as it did."""
    from gesso.cli.session import present
    from gesso.engine.trace import read_trace
    from gesso.errors import OptionError

    if speed < 0:
        raise OptionError(f"--speed must be at least 0, got {speed}", option="speed")
    live = is_screen(sys.stdout)
    trace = read_trace(file)
    result = present(_paced(trace.events, speed if live else 0.0), live=live, as_json=False, special=trace.special)
    return 130 if result.finish_reason == "cancelled" else 0


def _paced(events: "Iterable[tuple[float, Event]]", speed: float) -> "Iterator[Event]":
    import time

    started = time.monotonic()
    for seconds, event in events:
        if speed:
            time.sleep(max(0.0, seconds / speed - (time.monotonic() - started)))
        yield event
