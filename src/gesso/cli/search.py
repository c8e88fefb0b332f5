"""Defines the options by which `generate` and `eval` search among several answers, and runs such a search."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gesso.control.search_options import SearchOptions
from gesso.options import options_of

if TYPE_CHECKING:
    from gesso.engine.engine import Engine
    from gesso.engine.prompt import Prompt

_ROWS = options_of(SearchOptions)


def _option(name: str, *flags: str, metavar: str | None = "N", **given: Any) -> Any:
    """A command's option, with the help of the table unless another is given."""
    return typer.Option(
        *flags, metavar=metavar, rich_help_panel=_ROWS[name].group, **{"help": _ROWS[name].help, **given}
    )


BestOf = Annotated[int | None, _option("best_of")]
Check = Annotated[str | None, _option("check", metavar="NAME")]
EvaluationCheck = Annotated[
    str | None,
    _option(
        "check",
        "--check",
        metavar="NAME",
        help="Stop at an answer that this finds right: task (the task's own check, by the prompt alone), reference "
        "(its grader, which knows the right answer: what search could gain at most), or FILE.py:FUNCTION.",
    ),
]
Reference = Annotated[str | None, _option("reference", metavar="TEXT")]
Select = Annotated[str | None, _option("select", metavar="NAME")]
AtOnce = Annotated[int, _option("at_once")]
Particles = Annotated[int | None, _option("particles")]
ResampleEvery = Annotated[int | None, _option("resample_every")]
RewardScale = Annotated[float | None, _option("reward_scale", metavar="X")]
Augment = Annotated[bool | None, _option("augment", "--augment/--no-augment", metavar=None, show_default=False)]


def run_search(engine: "Engine", prompt: "Prompt", asked: SearchOptions, options: dict[str, Any], as_json: bool) -> int:
    """Runs a search and prints its best answer; returns 1 where there is a check and it finds none right."""
    from gesso.cli.output import print_json
    from gesso.cli.progress import run_shown, working
    from gesso.cli.render import printable
    from gesso.cli.session import note
    from gesso.control.search import search

    grader = asked.grader()
    if asked.particles is not None:
        with working(f"{asked.particles} particles"):
            found = asked.run_particles(engine, prompt, grader, options)
        best, report, passed = found.best, found.to_dict(), found.passed
        facts = [f"{len(found.results)} of {asked.particles} particles finished", f"{found.copies} copies"]
    else:
        assert asked.best_of is not None
        job = search(
            engine,
            prompt,
            best_of=asked.best_of,
            grader=grader,
            augment=asked.augmentation(),
            select=asked.select,
            at_once=asked.at_once,
            **options,
        )
        tried = run_shown(engine, job)
        best, report, passed = tried.best.result, tried.to_dict(), tried.passed
        facts = [f"{len(tried.candidates)} of {asked.best_of} candidates", f"{tried.scoring_passes} scoring passes"]
    if as_json:
        print_json({**best.to_dict(), "search": report})
    else:
        print((printable if sys.stdout.isatty() else str)(best.text), flush=True)
        said = "" if passed is None else "right, says the check" if passed else "none right, says the check"
        note("; ".join(fact for fact in (said, *facts, f"{report['denoising_passes']} denoising passes") if fact))
    return int(passed is False)
