"""Runs work that takes several requests, the later ones made from the results of the earlier.

A job is a generator: it yields lists of requests, is sent their results in the same order, and returns what it was for.
So it knows nothing of how requests are run: `run_job` runs them on an engine, the server among everybody else's.
"""

from collections.abc import Generator
from typing import TypeVar

from gesso.engine.engine import Engine, Request
from gesso.engine.result import GenerationResult

T = TypeVar("T")

Job = Generator[list[Request], list[GenerationResult], T]

MOST_REQUESTS = 8
"""Candidates that a job tries in one round. A round may be longer: who runs it shares it out."""


def run_job(engine: Engine, job: Job[T]) -> T:
    """Runs a job to its end.

    Raises:
        UserError: what the job or one of its requests is refused for.
    """
    try:
        requests = next(job)
        while True:
            requests = job.send(engine.generate_batch(requests))
    except StopIteration as done:
        result: T = done.value
        return result
