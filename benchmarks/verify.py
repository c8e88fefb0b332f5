"""Self-verification: answers right against forwards, off, with one and two rounds, exact, and token by token.

    python benchmarks/verify.py [-n 100] [--tasks json,code,...,sudoku] [--bounds 0.1,0.5,2] [--steps 48,8]
                                [--rounds 0,1,2,exact,ar] [--thresholds 3] [--threads 1] [--model FOLDER]

Held-out prompts of the bundled models' tasks, the same with the same seeds everywhere, in batches of 8. Forwards are
all passes of an answer behind its prompt, those of verification included, commits not. Right: Wilson's 95% interval.
Forwards: the bootstrap's. "Fixed" and "broken" are answers that are right and wrong with verification alone, and p is
McNemar's exact test of the two, two-sided, for each row by itself. `ar` is `mode: ar` with the likeliest token
each time, a forward for every token, which `exact` writes in fewer. The last line is one line of JSON.
"""

import argparse
import json
import sys
from itertools import product
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from gesso.api import load
from gesso.engine.engine import Engine
from gesso.lab.statistics import mcnemar
from gesso.tasks.registry import MINI_SKILLS
from gesso.train.evaluate import TaskScore, evaluate

SEED = 0
_COUNTS = frozenset("12345678")


def measure(engine: Engine, task: str, count: int, options: dict[str, Any]) -> tuple[TaskScore, set[str]]:
    """The score, and the prompts that were answered wrongly."""
    score = evaluate(engine, task, examples=count, seed=SEED, **options)
    return score, {prompt for prompt, _, _ in score.wrong}


def row(task: str, options: dict[str, Any], score: TaskScore, wrong: set[str], before: set[str]) -> dict[str, Any]:
    """One line of the table; `before` is what was wrong without verification."""
    fixed, broken = len(before - wrong), len(wrong - before)
    return {
        "task": task,
        **options,
        "examples": score.examples,
        "right": score.right,
        "interval": score.interval,
        "forwards": score.mean_passes,
        "forwards_interval": score.mean_passes_interval,
        "tokens_per_forward": score.tokens_per_forward,
        "fixed": fixed,
        "broken": broken,
        "p": mcnemar(fixed, broken),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--examples", type=int, default=100, help="of each task")
    parser.add_argument("--tasks", default=",".join((*MINI_SKILLS, "sudoku")))
    parser.add_argument("--bounds", default="0.1,0.5,2", help="entropy bounds, nats")
    parser.add_argument("--steps", default="48,8", help="most denoising steps of a canvas")
    parser.add_argument(
        "--rounds", default="0,1,2,exact,ar", help="of verification; the first is what the others are compared with"
    )
    parser.add_argument("--model", help="answers every task; without it sudoku its own, mini the others")
    parser.add_argument("--thresholds", default="3", help="nats; each for every number of rounds above 0")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    bounds, thresholds = ([float(part) for part in getattr(arguments, n).split(",")] for n in ("bounds", "thresholds"))
    steps = [int(part) for part in arguments.steps.split(",")]
    ways = [(way, at) for way in arguments.rounds.split(",") for at in (thresholds if way in _COUNTS else [None])]
    engines = {name: load(arguments.model or name, "cpu", "float32") for name in ("mini", "sudoku")}
    table = Table(
        "task", "bound", "steps", "verify", "right", "95% interval", "forwards", "95% interval", "fixed", "broken", "p"
    )
    rows: list[dict[str, Any]] = []
    for task, most, bound in product(arguments.tasks.split(","), steps, bounds):
        before: set[str] | None = None
        for way, threshold in ways:
            options: dict[str, Any] = {"mode": "ar", "top_k": 1}
            if way != "ar":
                options = {"entropy_bound": bound, "max_denoising_steps": most, "verify_threshold": threshold}
                options["verify"] = int(way) if way.isdigit() else way
            score, wrong = measure(engines["sudoku" if task == "sudoku" else "mini"], task, arguments.examples, options)
            before = wrong if before is None else before
            rows.append(found := row(task, options, score, wrong, before))
            print(json.dumps(found), file=sys.stderr, flush=True)
            (low, high), (least, greatest) = found["interval"], found["forwards_interval"]
            table.add_row(
                task,
                f"{bound:g}",
                str(most),
                way if threshold is None else f"{way} at {threshold:g}",
                f"{score.right}",
                f"{low:.0%} to {high:.0%}",
                f"{score.mean_passes:.1f}",
                f"{least:.1f} to {greatest:.1f}",
                *(
                    ("", "", "")
                    if wrong is before
                    else (str(found["fixed"]), str(found["broken"]), f"{found['p']:.3f}")
                ),
            )
    Console(width=120).print(table)
    print(json.dumps({"benchmark": "verify", "seed": SEED, "rows": rows}))


if __name__ == "__main__":
    main()
