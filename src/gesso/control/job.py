"""Runs work that takes several requests, the later ones made from the results of the earlier.

A job is a generator: it yields lists of requests, is sent their results in the same order, and returns what it was for.
So it knows nothing of how requests are run: `run_job` runs them on an engine, the server among everybody else's.
"""

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from gesso.engine.engine import Engine, Request
from gesso.engine.result import GenerationResult

T = TypeVar("T")

Job = Generator[list[Request], list[GenerationResult], T]
Answer = Callable[[list[Request]], list[GenerationResult]]
"""Runs requests and returns their results in the same order."""

MOST_REQUESTS = 8
"""Candidates that a job tries in one round. A round may be longer: who runs it shares it out."""


def run_job(engine: Engine, job: Job[T]) -> T:
    """Runs a job to its end.

    Raises:
        UserError: what the job or one of its requests is refused for.
    """
    return run_jobs(engine.generate_batch, [job])[0]


def run_jobs(answer: Answer, jobs: Sequence[Job[T]]) -> list[T]:
    """Runs several jobs to their ends, rounds of all of them together, so that their requests share batches.

    Raises:
        UserError: what a job or one of its requests is refused for.
    """
    results: dict[int, T] = {}
    waiting: dict[int, list[Request]] = {}

    def advance(number: int, found: list[GenerationResult] | None) -> None:
        try:
            waiting[number] = next(jobs[number]) if found is None else jobs[number].send(found)
        except StopIteration as done:
            results[number] = done.value

    for number in range(len(jobs)):
        advance(number, None)
    while waiting:
        asked, waiting = waiting, {}
        found = iter(answer([request for requests in asked.values() for request in requests]))
        for number, requests in asked.items():
            advance(number, [next(found) for _ in requests])
    return [results[number] for number in range(len(jobs))]
