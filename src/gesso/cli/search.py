"""Runs a search for the best of several answers, and prints it."""

import sys
from typing import TYPE_CHECKING, Any

from gesso.cli.output import note, print_json
from gesso.control.search_options import SearchOptions

if TYPE_CHECKING:
    from gesso.engine.engine import Engine
    from gesso.engine.prompt import Prompt


def run_search(engine: "Engine", prompt: "Prompt", asked: SearchOptions, options: dict[str, Any], as_json: bool) -> int:
    """Runs a search and prints its best answer; returns 1 where there is a check and it finds none right."""
    from gesso.cli.progress import run_shown, working
    from gesso.cli.render import printable
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
