"""Defines the options by which `generate` and `eval` search among several answers, and runs such a search."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gesso.errors import OptionError

if TYPE_CHECKING:
    from gesso.control.grading import Grader
    from gesso.engine.engine import Engine, Request
    from gesso.engine.particles import ParticlesResult
    from gesso.engine.prompt import Prompt
    from gesso.tasks.base import Example
    from gesso.train.evaluate import Attempt, Solver

_SEARCH = {"rich_help_panel": "Search"}
BestOf = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Make up to so many answers, from seeds one after the other, and choose.", **_SEARCH
    ),
]
Check = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Stop at an answer that this finds right: a task, such as sudoku, or FILE.py:FUNCTION, which takes prompt "
        "and answer and returns 1 (or true) where it is right, less where it is not.",
        **_SEARCH,
    ),
]
EvaluationCheck = Annotated[
    str | None,
    typer.Option(
        "--check",
        metavar="NAME",
        help="Stop at an answer that this finds right: task (the task's own check, by the prompt alone), reference "
        "(its grader, which knows the right answer: what search could gain at most), or FILE.py:FUNCTION.",
        **_SEARCH,
    ),
]
Reference = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="The right answer, for tasks that cannot tell one by the prompt.", **_SEARCH),
]
Select = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="How to choose where no check decides: likelihood (of a token, by the causal pass) or consistency (what "
        "most answers say; the default beside a check).",
        **_SEARCH,
    ),
]
AtOnce = Annotated[
    int, typer.Option(metavar="N", help="Answers that are made at once before they are checked.", **_SEARCH)
]
Particles = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Denoise so many canvases at once, and copy promising ones over others: those that the check scores "
        "higher, or without one those that are surer.",
        **_SEARCH,
    ),
]
ResampleEvery = Annotated[
    int | None, typer.Option(metavar="N", help="Steps between two such copyings. [default: 4]", **_SEARCH)
]
RewardScale = Annotated[
    float | None,
    typer.Option(metavar="X", help="How much more a better score weighs in them. [default: 10]", **_SEARCH),
]


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

    def grader(self) -> "Grader | None":
        """Returns the grader that `check` names."""
        from gesso.control.grading import find_grader

        return None if self.check is None else find_grader(self.check, self.reference)


def run_search(engine: "Engine", prompt: "Prompt", asked: SearchOptions, options: dict[str, Any], as_json: bool) -> int:
    """Runs a search and prints its best answer; returns 1 where there is a check and it finds none right."""
    from gesso.cli.output import print_json
    from gesso.cli.progress import run_shown, working
    from gesso.cli.render import printable
    from gesso.cli.session import note, result_to_dict
    from gesso.control.search import search

    grader = asked.grader()
    if asked.particles is not None:
        with working(f"{asked.particles} particles"):
            found = asked.run_particles(engine, prompt, grader, options)
        best, report, passed = found.best, found.to_dict(), found.passed
        facts = [f"{len(found.results)} of {asked.particles} particles finished", f"{found.copies} copies"]
    else:
        assert asked.best_of is not None
        job = search(engine, prompt, best_of=asked.best_of, grader=grader, **asked.choice(), **options)
        tried = run_shown(engine, job)
        best, report, passed = tried.best.result, tried.to_dict(), tried.passed
        facts = [f"{len(tried.candidates)} of {asked.best_of} candidates", f"{tried.scoring_passes} scoring passes"]
    if as_json:
        print_json({**result_to_dict(best), "search": report})
    else:
        print((printable if sys.stdout.isatty() else str)(best.text), flush=True)
        said = "" if passed is None else "right, says the check" if passed else "none right, says the check"
        note("; ".join(fact for fact in (said, *facts, f"{report['denoising_passes']} denoising passes") if fact))
    return int(passed is False)


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
            search(engine, request.prompt, best_of=asked.best_of, grader=grader, **asked.choice(), **request.options)
            for request, grader in pairs
        ]
        return [
            Attempt(found.best.result, tuple(candidate.result for candidate in found.candidates), found.passes)
            for found in run_jobs(engine, jobs)
        ]

    return solve


def _grader_of(asked: SearchOptions, case: "Example") -> "Grader | None":
    """The check of an evaluation: `task` and `reference` mean the example's own task."""
    from gesso.tasks.registry import TASKS

    if asked.check == "reference":
        return lambda _, text: TASKS[case.task].grade(case, text)
    return TASKS[case.task].score if asked.check == "task" else asked.grader()
