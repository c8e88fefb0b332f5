"""`gesso replay`: show a trace again."""

import sys
from collections.abc import Iterator
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
    from gesso.errors import OptionError

    if speed < 0:
        raise OptionError(f"--speed must be at least 0, got {speed}")
    live = is_screen(sys.stdout)
    special, events = read_trace(file)
    result = present(_paced(events, speed if live else 0.0), live=live, as_json=False, special=special)
    return 130 if result.finish_reason == "cancelled" else 0


def read_trace(path: Path) -> "tuple[frozenset[int], list[tuple[float, Event]]]":
    """Special token ids, and the events with their seconds.

    Raises:
        DataError: the file is no trace, is cut short, or has a bad line, which is named by its number.
    """
    import json

    from gesso.cli.session import TRACE_VERSION
    from gesso.engine.events import Finished, event_from_dict
    from gesso.errors import DataError

    try:
        # Not splitlines(): JSON leaves U+2028 and its like as they are, inside a line.
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is no trace: it is not UTF-8 text") from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}, line {number}: no JSON ({error.msg})") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number}: no JSON object")
        rows.append(row)
    special = rows[0].get("special")
    if rows[0].get("gesso_trace") != TRACE_VERSION or not isinstance(special, list):
        raise DataError(f"{path} is no gesso trace of version {TRACE_VERSION}")
    events = []
    for number, row in enumerate(rows[1:], 2):
        try:
            seconds = float(row.pop("seconds"))
            event = event_from_dict(row)
        except KeyError:
            raise DataError(f"{path}, line {number}: no seconds") from None
        except (TypeError, ValueError) as error:
            raise DataError(f"{path}, line {number}: {error}") from None
        if not 0 <= seconds < float("inf"):
            raise DataError(f"{path}, line {number}: seconds is {seconds}")
        events.append((seconds, event))
    if not events or not isinstance(events[-1][1], Finished):
        raise DataError(f"{path} is cut short: its last line is not the end of a request")
    return frozenset(token for token in special if isinstance(token, int)), events


def _paced(events: "list[tuple[float, Event]]", speed: float) -> "Iterator[Event]":
    import time

    started = time.monotonic()
    for seconds, event in events:
        if speed:
            time.sleep(max(0.0, seconds / speed - (time.monotonic() - started)))
        yield event
