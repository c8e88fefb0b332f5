"""Edits of held-out functions: how many come out exactly as told, and in how many steps, by strength.

    python benchmarks/edit.py [--model mini] [-n 200] [--seed 0] [--json]

Each example is a small function with a change to make: a new name, another number, a condition to invert (the task
`revision`). An edit is exact when the whole text is the expected one, to the last character. At strength 1 the canvas
starts from noise: that is the rewrite which the steps of the others are compared with. Edit i has the seed
`seed + i` at every strength. Printed beside them: the steps that a canvas takes at least, because so many in a row must
agree where it starts from noise. The last line is one line of JSON.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from gesso.api import load
from gesso.control.edit import EditResult, edit
from gesso.control.job import Job
from gesso.engine.engine import Engine
from gesso.tasks.base import Example, evaluation_set
from gesso.tasks.revision import Revision
from gesso.train.intervals import wilson_interval

STRENGTHS = (0.3, 0.5, 0.7, 1.0)
KINDS = ("rename", "constant", "condition")
EXACT_GOAL = 0.9
STEPS_GOAL = 0.5
"""Share of a rewrite's steps that the least strength may take."""


def run_together(engine: Engine, jobs: Sequence[Job[EditResult]]) -> list[EditResult]:
    """The results of edits, of which each is one request, run as batches."""
    answers = engine.generate_batch([next(job)[0] for job in jobs])
    results: list[EditResult] = []
    for job, answer in zip(jobs, answers, strict=True):
        try:
            job.send([answer])
        except StopIteration as done:
            results.append(done.value)
    assert len(results) == len(jobs)
    return results


def measure(engine: Engine, cases: Sequence[Example], strength: float, seed: int) -> dict[str, Any]:
    """All examples at one strength."""
    task = Revision()
    jobs = []
    for number, case in enumerate(cases):
        instruction, source = case.prompt.split("\n\n", 1)
        jobs.append(edit(engine, source, instruction, strength=strength, seed=seed + number))
    results = run_together(engine, jobs)
    exact = [result.text == case.answer for case, result in zip(cases, results, strict=True)]
    by_kind = {
        kind: [right for case, right in zip(cases, exact, strict=True) if task.group(case) == kind] for kind in KINDS
    }
    return {
        "strength": strength,
        "exact": statistics.mean(exact),
        "exact_interval": wilson_interval(sum(exact), len(exact)),
        "exact_by_kind": {kind: statistics.mean(found) if found else None for kind, found in by_kind.items()},
        "examples_by_kind": {kind: len(found) for kind, found in by_kind.items()},
        "unchanged": statistics.mean(not result.changed for result in results),
        "left_out": statistics.mean(result.left_out is not None for result in results),
        "mean_steps": statistics.mean(result.denoising_steps for result in results),
        "mean_seconds": statistics.mean(result.seconds for result in results),
    }


def table(found: Sequence[dict[str, Any]], model: str, examples: int, floor: int) -> Table:
    rewrite = found[-1]["mean_steps"]
    out = Table(title=f"{examples} edits of held-out functions by {model}; exact means to the last character")
    for heading in ("strength", *KINDS, "all exact", "95%", "left as it was", "steps", "of a rewrite"):
        out.add_column(heading, justify="right")
    for row in found:
        low, high = row["exact_interval"]
        shares = [row["exact_by_kind"][kind] for kind in KINDS]
        out.add_row(
            f"{row['strength']}",
            *("" if share is None else f"{share:.1%}" for share in shares),
            f"{row['exact']:.1%}",
            f"{low:.0%} to {high:.0%}",
            f"{row['unchanged']:.1%}",
            f"{row['mean_steps']:.2f}",
            f"{row['mean_steps'] / rewrite:.0%}",
        )
    goals = f"goals: {EXACT_GOAL:.0%} exact; at {STRENGTHS[0]} at most {STEPS_GOAL:.0%} of a rewrite's steps"
    out.caption = f"{goals}; a canvas takes {floor} steps at least where it starts from noise, else 1"
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description="edits of held-out functions, by strength")
    parser.add_argument("--model", default="mini")
    parser.add_argument("-n", type=int, default=200, help="examples")
    parser.add_argument("--seed", type=int, default=0, help="of the examples, and of the first edit")
    parser.add_argument("--json", action="store_true", help="the JSON line alone")
    options = parser.parse_args()
    if options.n < 1 or options.seed < 0:
        parser.error("-n must be at least 1 and --seed at least 0")
    engine = load(options.model, "cpu")
    cases = evaluation_set(Revision(), options.n, options.seed)
    found = []
    with Console(stderr=True, quiet=options.json).status("") as status:
        for strength in STRENGTHS:
            status.update(f"{len(cases)} edits at strength {strength}")
            found.append(measure(engine, cases, strength, options.seed))
    floor = engine.defaults.stability_threshold + 1
    if not options.json:
        Console(width=None if Console().is_terminal else 130).print(table(found, options.model, len(cases), floor))
    goals = {
        "exact": max(row["exact"] for row in found) >= EXACT_GOAL,
        "steps": found[0]["mean_steps"] <= STEPS_GOAL * found[-1]["mean_steps"],
    }
    head = {"benchmark": "edit", "model": options.model, "n": len(cases), "least_steps": floor}
    print(json.dumps({**head, "results": found, "goals": goals}))


if __name__ == "__main__":
    main()
