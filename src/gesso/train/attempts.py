"""Answers the examples of an evaluation, each once or by a search."""

from collections.abc import Sequence
from dataclasses import dataclass

from gesso.control.grading import Grader
from gesso.control.job import run_jobs
from gesso.control.search import search
from gesso.control.search_options import SearchOptions
from gesso.engine.engine import Engine, Request
from gesso.engine.result import GenerationResult
from gesso.tasks.base import Example, Task


@dataclass(frozen=True, slots=True)
class Attempt:
    """Holds the answer to one example, and what it took to get it."""

    results: tuple[GenerationResult, ...]
    """All answers that were made: one, or a search's candidates."""
    best: GenerationResult
    """The one that is graded."""
    passes: int
    """All passes behind the prompts."""
    seconds: float
    """Wall clock of them all."""


def answer_examples(
    engine: Engine, task: Task, cases: Sequence[Example], requests: Sequence[Request], asked: SearchOptions
) -> list[Attempt]:
    """Answers examples of a task, each by the request that stands in its place: once, or by a search, of which every
    pass counts."""
    if not asked.wanted:
        return [Attempt((result,), result, result.passes, result.seconds) for result in engine.generate_batch(requests)]
    graders = [_grader_of(asked, task, case) for case in cases]
    pairs = list(zip(requests, graders, strict=True))
    if asked.particles is not None:
        runs = [asked.run_particles(engine, request.prompt, grader, dict(request.options)) for request, grader in pairs]
        return [Attempt(run.results, run.best, run.denoising_passes, _seconds(run.results)) for run in runs]
    assert asked.best_of is not None
    jobs = [
        search(
            engine,
            request.prompt,
            best_of=asked.best_of,
            grader=grader,
            augment=asked.augmentation(task if asked.check in ("task", "reference") else None),
            select=asked.select,
            at_once=asked.at_once,
            **request.options,
        )
        for request, grader in pairs
    ]
    round_size = asked.best_of if asked.check is None else asked.at_once
    attempts = []
    for found in run_jobs(engine.generate_batch, jobs):
        tried = [candidate.result for candidate in found.candidates]
        attempts.append(Attempt(tuple(tried), found.best.result, found.passes, _seconds(tried, round_size)))
    return attempts


def _seconds(results: Sequence[GenerationResult], round_size: int | None = None) -> float:
    """Wall clock of answers that were made in rounds, or all at once."""
    size = round_size or len(results)
    rounds = [results[start : start + size] for start in range(0, len(results), size)]
    return sum(max(result.seconds for result in made) for made in rounds)


def _grader_of(asked: SearchOptions, task: Task, case: Example) -> Grader | None:
    """The check of an evaluation: `task` and `reference` mean the task that the example is of."""
    if asked.check == "reference":
        return lambda _, text: task.grade(case, text)
    return task.score if asked.check == "task" else asked.grader()
