"""Shows what a command works on: on standard error, in a terminal only, and gone when the work is done."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

    from gesso.control.job import Job
    from gesso.engine.engine import Engine, Request
    from gesso.engine.result import GenerationResult

T = TypeVar("T")


def is_screen(stream: TextIO | None) -> bool:
    """Says whether `stream` is a terminal on which something can be drawn anew."""
    return stream is not None and stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")


def stdout_console() -> "Console":
    """Makes a console on standard output, which wraps lines of text in a terminal and where COLUMNS says so."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not is_screen(sys.stdout) and "COLUMNS" not in os.environ)


def stderr_console(*, markup: bool = True) -> "Console":
    """Makes a console on standard error. Where that is no terminal a line is as long as it is: a file has no width, and
    who searches one looks for whole lines."""
    from rich.console import Console

    whole = not is_screen(sys.stderr)
    return Console(stderr=True, highlight=False, markup=markup, emoji=False, soft_wrap=whole)


@contextlib.contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Shows a line with a spinner while the work goes on; what is yielded changes its text."""
    if not is_screen(sys.stderr):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    spinner = Spinner("dots", Text(what), style="status.spinner")
    # Drawn at once: the thread that turns it comes late where modules are imported meanwhile.
    with Live(spinner, console=Console(stderr=True, highlight=False), transient=True, refresh_per_second=12.5):
        yield lambda text: spinner.update(text=Text(text))


def run_shown(engine: "Engine", job: "Job[T]") -> T:
    """Runs a job to its end, as `run_job` does, and shows how far it is.

    A round of one request is shown as its canvas, a round of several as a line with the steps so far.

    Raises:
        UserError: what the job or one of its requests is refused for.
    """
    from gesso.control.job import run_job, run_jobs

    if not is_screen(sys.stderr):
        return run_job(engine, job)
    rounds = steps = 0

    def answer(requests: "list[Request]") -> "list[GenerationResult]":
        nonlocal rounds, steps
        rounds += 1
        if len(requests) == 1:
            results = [_drawn(engine, requests[0])]
        else:
            with working(f"round {rounds} \N{MIDDLE DOT} {len(requests)} candidates \N{MIDDLE DOT} {steps} steps"):
                results = engine.generate_batch(requests)
        steps += sum(sum(result.denoising_steps) for result in results)
        return results

    return run_jobs(answer, [job])[0]


def _drawn(engine: "Engine", request: "Request") -> "GenerationResult":
    from rich.console import Console

    from gesso.cli.render import draw_live

    stream = engine.stream(request.prompt, **request.options)
    return draw_live(iter(stream), Console(stderr=True, highlight=False), engine.tokenizer.special_ids)
