"""Defines the options by which `generate` and `eval` search among several answers, and runs such a search."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gesso.train.search_options import SearchOptions

if TYPE_CHECKING:
    from gesso.engine.engine import Engine
    from gesso.engine.prompt import Prompt

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


Augment = Annotated[
    bool | None,
    typer.Option(
        "--augment/--no-augment",
        help="Ask for every answer but the first in another form of the same problem, where the check knows such forms "
        "(sudoku: its symmetries). [default: where it does]",
        show_default=False,
        **_SEARCH,
    ),
]


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
        augment = asked.augmentation()
        job = search(engine, prompt, best_of=asked.best_of, grader=grader, augment=augment, **asked.choice(), **options)
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
