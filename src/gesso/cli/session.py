"""Shows a result in the three ways that `generate`, `chat` and `replay` share."""

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console

from gesso.cli.output import print_json
from gesso.cli.progress import working
from gesso.cli.render import show_live, write_plain
from gesso.engine.events import Event, Failed, Finished
from gesso.engine.result import GenerationResult
from gesso.errors import GessoError

if TYPE_CHECKING:
    from gesso.engine.engine import Engine

LARGE = 10**9
"""Active parameters of which a step over a whole canvas takes a CPU many seconds."""


def present(events: Iterable[Event], *, live: bool, as_json: bool, special: frozenset[int]) -> GenerationResult:
    """Shows a request and returns its result."""
    if live:
        return show_live(events, Console(highlight=False), special)
    if as_json:
        with working("answering"):
            result = _result(events)
        print_json(result.to_dict())
        return result
    return write_plain(events)


def _result(events: Iterable[Event]) -> GenerationResult:
    """What the last event says."""
    *_, last = events
    if not isinstance(last, Finished):
        raise GessoError(last.message if isinstance(last, Failed) else "the request never finished")
    return last.result


def note_slow_canvases(engine: "Engine", options: Mapping[str, Any]) -> None:
    """Says where canvases would take long, and nobody chose a mode: a large model on a CPU."""
    from gesso.config import ModelConfig
    from gesso.models.describe import parameters

    config = engine.config
    chosen = "mode" in options or engine.defaults.mode != "canvas"
    if chosen or engine.model.device.type != "cpu" or not isinstance(config, ModelConfig):
        return
    if (active := parameters(config)[1]) >= LARGE:
        note(
            f"{active / 1e9:.1f} B active parameters on a CPU: --mode auto writes token by token where that is quicker"
        )


def note(message: str) -> None:
    """Prints a remark for the person, not part of the output."""
    print(message, file=sys.stderr)
