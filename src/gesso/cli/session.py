"""Shows a result in the three ways that `generate`, `chat` and `replay` share."""

from collections.abc import Iterable

from rich.console import Console

from gesso.cli.output import print_json
from gesso.cli.progress import working
from gesso.cli.render import show_live, write_plain
from gesso.engine.events import Event, Failed, Finished
from gesso.engine.result import GenerationResult
from gesso.errors import GessoError


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
