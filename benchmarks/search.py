"""What search behind a check gains on Sudoku: puzzles solved and passes spent, one setting after the other.

    python benchmarks/search.py [-n 100] [--clues 26-44] [--settings "best_of=1;best_of=16 augment=false"]
                                [--particles "number=8 max_denoising_steps=9"] [--threads 1] [--model sudoku]
                                [--symmetric]

Puzzles are dug from grids of their own, each straight to its number of clues, and with `--symmetric` in pairs of cells
that lie opposite each other, as newspapers like them. Held-out puzzles, and all that the bundled model was trained on
before `sudoku-6`, come from puzzles of 24 clues that some were given back to; `sudoku-6` saw puzzles dug straight, too,
and symmetric ones are nobody's. They are the same with the same seeds for every setting; the check knows the rules
alone. Right: Wilson's 95% interval; passes: all of all candidates, with the bootstrap's interval of their mean. The
last line is one line of JSON.
"""

import argparse
import json
import random
import time
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from gesso.api import load
from gesso.control.job import run_jobs
from gesso.control.search import search
from gesso.engine.engine import Engine
from gesso.engine.particles import particles
from gesso.tasks.sudoku import Sudoku
from gesso.tasks.sudoku_solver import Grid, count_solutions, dig, draw_solution
from gesso.train.intervals import ratio_interval, wilson_interval

_SETTINGS = (
    "best_of=1 every_step=false;best_of=1;best_of=3;best_of=3 augment=false;"
    "best_of=16 max_denoising_steps=9;best_of=16 max_denoising_steps=9 augment=false"
)
AT_ONCE = 16
"""Searches that run together."""


def puzzles(count: int, clues: range, seed: int, symmetric: bool = False) -> list[str]:
    """Puzzles of one solution, their numbers of clues uniform over `clues`, or one more where that leaves a pair."""
    rng = random.Random(f"search {seed}")
    found: list[str] = []
    while len(found) < count:
        solution, wanted = draw_solution(rng), rng.choice(clues)
        puzzle = dig_pairs(solution, wanted, rng) if symmetric else dig(solution, wanted, rng)
        if puzzle is not None:
            cells = "".join(map(str, puzzle))
            found.append("\n".join(cells[start : start + 9] for start in range(0, 81, 9)))
    return found


def dig_pairs(solution: Grid, clues: int, rng: random.Random) -> Grid | None:
    """Blanks cells with those opposite them, in random order, wherever the puzzle keeps one solution; None where that
    does not come down to `clues`, or one more."""
    cells, left = list(solution), 81
    for cell in rng.sample(range(41), 41):
        if left - 2 < clues:
            break
        pair = {cell, 80 - cell}
        without = [0 if place in pair else digit for place, digit in enumerate(cells)]
        if count_solutions(without) == 1:
            cells, left = without, left - len(pair)
    return tuple(cells) if left - clues in (0, 1) else None


def options_of(text: str) -> dict[str, Any]:
    """Reads `name=value name=value`; values are JSON, or words."""
    options: dict[str, Any] = {}
    for part in text.split():
        name, _, value = part.partition("=")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def measure(engine: Engine, prompts: list[str], kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """One row: whether each puzzle was solved, and what it took. `augment` (on) asks candidates after the first about
    other forms of the puzzle."""
    task, solved, spent = Sudoku(), list[bool](), list[int]()
    asked = {name: value for name, value in options.items() if name != "augment"}
    augment = task.augment if options.get("augment", True) else None
    began = time.monotonic()
    if kind == "particles":
        for seed, prompt in enumerate(prompts):
            run = particles(
                engine,
                prompt,
                seed=1000 * seed,
                enough=1.0,
                score=partial(task.score, prompt),
                **asked,
            )
            solved.append(bool(run.passed))
            spent.append(run.denoising_passes)
    else:
        for start in range(0, len(prompts), AT_ONCE):
            part = list(enumerate(prompts))[start : start + AT_ONCE]
            jobs = [
                search(engine, prompt, seed=1000 * seed, grader=task.score, augment=augment, **asked)
                for seed, prompt in part
            ]
            for found in run_jobs(engine.generate_batch, jobs):
                solved.append(bool(found.passed))
                spent.append(found.passes)
    each = [1.0] * len(spent)
    return {
        "kind": kind,
        "options": options,
        "puzzles": len(prompts),
        "solved": sum(solved),
        "interval": wilson_interval(sum(solved), len(solved)),
        "passes": sum(spent) / len(spent),
        "passes_interval": ratio_interval(spent, each),
        "most_passes": max(spent),
        "seconds": time.monotonic() - began,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=100)
    parser.add_argument("--clues", default="26-44")
    parser.add_argument("--settings", default=_SETTINGS)
    parser.add_argument("--particles", default="number=8 resample_every=2 max_denoising_steps=9")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", default="sudoku", help="a name or a folder")
    parser.add_argument("--symmetric", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    low, high = (int(end) for end in arguments.clues.split("-"))
    engine = load(arguments.model, "cpu", "float32")
    prompts = puzzles(arguments.n, range(low, high + 1), arguments.seed, arguments.symmetric)
    wanted = [("search", text) for text in arguments.settings.split(";") if text]
    wanted += [("particles", text) for text in arguments.particles.split(";") if text]
    table = Table("kind", "options", "solved", "95% interval", "passes", "95% interval", "most")
    rows = []
    for kind, text in wanted:
        row = measure(engine, prompts, kind, options_of(text))
        rows.append(row)
        (a, b), (c, d) = row["interval"], row["passes_interval"]
        table.add_row(
            kind, text, str(row["solved"]), f"{a:.0%} to {b:.0%}", f"{row['passes']:.1f}", f"{c:.1f} to {d:.1f}",
            str(row["most_passes"]),
        )  # fmt: skip
        print(json.dumps(row), flush=True)
    Console(width=120).print(table)
    print(
        json.dumps(
            {
                "benchmark": "search",
                "seed": arguments.seed,
                "clues": arguments.clues,
                "symmetric": arguments.symmetric,
                "rows": rows,
            }
        )
    )


if __name__ == "__main__":
    main()
