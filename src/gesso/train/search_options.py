"""Holds what a command line or a grid says of a search, and answers the examples of an evaluation by it."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from gesso.errors import OptionError

if TYPE_CHECKING:
    from gesso.control.grading import Augment, Grader
    from gesso.engine.engine import Engine, Request
    from gesso.engine.particles import ParticlesResult
    from gesso.engine.prompt import Prompt
    from gesso.tasks.base import Example, Task
    from gesso.train.evaluate import Attempt, Solver


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Holds what a command line says of a search."""

    best_of: int | None = None
    check: str | None = None
    reference: str | None = None
    select: str | None = None
    at_once: int = 1
    particles: int | None = None
    resample_every: int | None = None
    reward_scale: float | None = None
    augment: bool | None = None

    def __post_init__(self) -> None:
        """Refuses what goes with nothing.

        Raises:
            OptionError: an option whose other half is missing, or a contradiction.
        """
        if self.best_of is not None and self.particles is not None:
            raise OptionError("--best-of and --particles contradict each other", option="particles")
        if self.best_of is None:
            for name in ("select", "at_once"):
                if getattr(self, name) != SearchOptions.__dataclass_fields__[name].default:
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


def solver(asked: SearchOptions) -> "Solver":
    """Returns how an evaluation answers its examples: by this search, of which every pass counts."""

    def solve(engine: "Engine", cases: "Sequence[Example]", requests: "Sequence[Request]") -> "list[Attempt]":
        from gesso.control.job import run_jobs
        from gesso.control.search import search
        from gesso.train.evaluate import Attempt

        graders = [_grader_of(asked, case) for case in cases]
        pairs = list(zip(requests, graders, strict=True))
        if asked.particles is not None:
            runs = [
                asked.run_particles(engine, request.prompt, grader, dict(request.options)) for request, grader in pairs
            ]
            return [Attempt(run.best, passes=run.denoising_passes) for run in runs]
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
        return [
            Attempt(found.best.result, tuple(candidate.result for candidate in found.candidates), found.passes)
            for found in run_jobs(engine, jobs)
        ]

    return solve


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


SEARCH_OPTIONS = tuple(field.name for field in fields(SearchOptions))
