"""Holds what a command line or a grid says of a search, and answers the examples of an evaluation by it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from gesso.errors import OptionError
from gesso.options import checked, option, options_of

if TYPE_CHECKING:
    from gesso.control.grading import Augment, Grader
    from gesso.engine.engine import Engine, Request
    from gesso.engine.particles import ParticlesResult
    from gesso.engine.prompt import Prompt
    from gesso.engine.result import GenerationResult
    from gesso.tasks.base import Example, Task
    from gesso.train.evaluate import Attempt

_option = partial(option, field=None, group="Search")


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Holds what a command line says of a search."""

    best_of: int | None = _option(None, "Make up to so many answers, from seeds one after the other, and choose.")
    check: str | None = _option(
        None,
        "Stop at an answer that this finds right: a task, such as sudoku, or FILE.py:FUNCTION, which takes prompt and "
        "answer and returns 1 (or true) where it is right, less where it is not.",
    )
    reference: str | None = _option(None, "The right answer, for tasks that cannot tell one by the prompt.")
    select: str | None = _option(
        None,
        "How to choose where no check decides: likelihood (of a token, by the causal pass) or consistency (what most "
        "answers say; the default beside a check).",
    )
    at_once: int = _option(1, "Answers that are made at once before they are checked.")
    particles: int | None = _option(
        None,
        "Denoise so many canvases at once, and copy promising ones over others: those that the check scores higher, or "
        "without one those that are surer.",
        minimum=2,
        maximum=256,
    )
    resample_every: int | None = _option(None, "Steps between two such copyings. [default: 4]")
    reward_scale: float | None = _option(None, "How much more a better score weighs in them. [default: 10]")
    augment: bool | None = _option(
        None,
        "Ask for every answer but the first in another form of the same problem, where the check knows such forms "
        "(sudoku: its symmetries). [default: where it does]",
    )

    def __post_init__(self) -> None:
        """Refuses what goes with nothing.

        Raises:
            OptionError: a value of the wrong type, an option whose other half is missing, or a contradiction.
        """
        checked(self)
        if self.best_of is not None and self.particles is not None:
            raise OptionError("--best-of and --particles contradict each other", option="particles")
        if self.best_of is None:
            for name in ("select", "at_once"):
                if getattr(self, name) != options_of(SearchOptions)[name].default:
                    raise OptionError(f"--{name.replace('_', '-')} needs --best-of", option=name)
            if self.augment is not None:
                raise OptionError("--augment needs --best-of", option="augment")
        if self.augment and self.check is None:
            raise OptionError("--augment needs --check, whose task knows other forms of a prompt", option="augment")
        if self.particles is None:
            for name in ("resample_every", "reward_scale"):
                if getattr(self, name) is not None:
                    raise OptionError(f"--{name.replace('_', '-')} needs --particles", option=name)
        if self.check is not None and not self.wanted:
            raise OptionError("--check needs --best-of or --particles", option="check")
        if self.at_once != 1 and self.check is None:
            raise OptionError("--at-once needs --check: without one all answers are made at once", option="at_once")
        if self.reference is not None and self.check is None:
            raise OptionError("--reference needs --check", option="reference")

    @property
    def wanted(self) -> bool:
        """Says whether there is anything to search by."""
        return self.best_of is not None or self.particles is not None

    @property
    def request_defaults(self) -> dict[str, Any]:
        """Returns options of an evaluation's requests, where nobody gives them: particles have one canvas, which they
        know themselves."""
        return {} if self.particles is not None else {"max_new_tokens": 512}

    def choice(self) -> dict[str, Any]:
        """Returns how candidates are chosen, as keywords of a search."""
        return {"select": self.select, "at_once": self.at_once}

    def run_particles(
        self, engine: "Engine", prompt: "Prompt", grader: "Grader | None", options: dict[str, Any]
    ) -> "ParticlesResult":
        """Runs particles whose score is the grader's."""
        from gesso.control.grading import grade, prompt_text
        from gesso.engine.particles import particles

        text = prompt_text(engine, prompt)
        return particles(
            engine,
            prompt,
            number=self.particles or 0,
            resample_every=4 if self.resample_every is None else self.resample_every,
            reward_scale=10.0 if self.reward_scale is None else self.reward_scale,
            score=None if grader is None else lambda answer: grade(grader, text, answer),
            enough=None if grader is None else 1.0,
            **options,
        )

    def augmentation(self, own: "Task | None" = None) -> "Augment | None":
        """Returns how the check makes other forms of a prompt; None where it cannot, or they are not wanted.

        Args:
            own: the task that the checks `task` and `reference` mean.

        Raises:
            OptionError: they are asked for, and the check has none.
        """
        from gesso.control.grading import augmentation, find_augmentation

        if self.check is None or self.augment is False:
            return None
        found = find_augmentation(self.check) if own is None else augmentation(own)
        if found is None and self.augment:
            raise OptionError(f"--augment: the check {self.check} has no other forms of a prompt", option="augment")
        return found

    def grader(self) -> "Grader | None":
        """Returns the grader that `check` names."""
        from gesso.control.grading import find_grader

        return None if self.check is None else find_grader(self.check, self.reference)


def answer_examples(
    engine: "Engine", cases: "Sequence[Example]", requests: "Sequence[Request]", asked: SearchOptions
) -> "list[Attempt]":
    """Answers examples, each by the request that stands in its place: once, or by a search, of which every pass
    counts."""
    from gesso.control.job import run_jobs
    from gesso.control.search import search
    from gesso.train.evaluate import Attempt

    if not asked.wanted:
        return [Attempt((result,), result, result.passes, result.seconds) for result in engine.generate_batch(requests)]
    graders = [_grader_of(asked, case) for case in cases]
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
            augment=asked.augmentation(_own_task(asked, case)),
            **asked.choice(),
            **request.options,
        )
        for (request, grader), case in zip(pairs, cases, strict=True)
    ]
    round_size = asked.best_of if asked.check is None else asked.at_once
    attempts = []
    for found in run_jobs(engine.generate_batch, jobs):
        tried = [candidate.result for candidate in found.candidates]
        attempts.append(Attempt(tuple(tried), found.best.result, found.passes, _seconds(tried, round_size)))
    return attempts


def _seconds(results: "Sequence[GenerationResult]", round_size: int | None = None) -> float:
    """Wall clock of answers that were made in rounds, or all at once."""
    size = round_size or len(results)
    rounds = [results[start : start + size] for start in range(0, len(results), size)]
    return sum(max(result.seconds for result in made) for made in rounds)


def _own_task(asked: SearchOptions, case: "Example") -> "Task | None":
    """The example's own task, where the check is it."""
    from gesso.tasks.registry import TASKS

    return TASKS[case.task] if asked.check in ("task", "reference") else None


def _grader_of(asked: SearchOptions, case: "Example") -> "Grader | None":
    """The check of an evaluation: `task` and `reference` mean the example's own task."""
    from gesso.tasks.registry import TASKS

    if asked.check == "reference":
        return lambda _, text: TASKS[case.task].grade(case, text)
    return TASKS[case.task].score if asked.check == "task" else asked.grader()


SEARCH_OPTIONS = tuple(options_of(SearchOptions))
