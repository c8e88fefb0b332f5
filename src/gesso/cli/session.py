"""What `generate` and `chat` share: Ctrl-C, the three ways to show a result, and traces."""

import dataclasses
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console

from gesso.cli.render import show_live, write_plain
from gesso.engine.events import Event, Failed, Finished, event_to_dict
from gesso.engine.result import GenerationResult
from gesso.errors import GessoError, OptionError

TRACE_VERSION = 1


def present(events: Iterable[Event], *, live: bool, as_json: bool, special: frozenset[int]) -> GenerationResult:
    """Show a request and return its result."""
    if live:
        return show_live(events, Console(highlight=False), special)
    if as_json:
        result = _result(events)
        print(json.dumps(result_to_dict(result), ensure_ascii=False))
        return result
    return write_plain(events)


def _result(events: Iterable[Event]) -> GenerationResult:
    """What the last event says."""
    *_, last = events
    if not isinstance(last, Finished):
        raise GessoError(last.message if isinstance(last, Failed) else "the request never finished")
    return last.result


def result_to_dict(result: GenerationResult) -> dict[str, object]:
    """All fields and derived figures of a result."""
    derived = {
        "canvases": result.canvases,
        "tokens_per_forward": round(result.tokens_per_forward, 3),
        "tokens_per_second": round(result.tokens_per_second, 2),
    }
    return {**dataclasses.asdict(result), **derived}


def recorded(
    events: Iterable[Event], path: Path, *, model: str, prompt: str, special: frozenset[int]
) -> Iterator[Event]:
    """Pass events on and write them to `path`, one JSON object a line, with the seconds since the start.

    Raises:
        OptionError: the file cannot be written.
    """
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise OptionError(f"--trace {path}: {error.strerror}") from None
    with file:
        header = {"gesso_trace": TRACE_VERSION, "model": model, "prompt": prompt, "special": sorted(special)}
        file.write(json.dumps(header, ensure_ascii=False) + "\n")
        started = time.monotonic()
        for event in events:
            line = {"seconds": round(time.monotonic() - started, 4), **event_to_dict(event)}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            yield event


def note(message: str) -> None:
    """A remark for the person, not part of the output."""
    print(message, file=sys.stderr)
