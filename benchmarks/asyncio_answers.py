"""Answers to many prompts from one program: one by one, by tasks of asyncio, and as one batch.

    python benchmarks/asyncio_answers.py [--model mini] [-n 200] [--at-once 8] [--repeats 2]

Sums with seeds, so that the texts of all three ways must be equal. The batch has all prompts beforehand, which tasks
have not: it is the ceiling. The last line is one line of JSON.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Callable

import gesso

SEED = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini")
    parser.add_argument("-n", type=int, default=200, help="prompts")
    parser.add_argument("--at-once", type=int, default=8, help="requests that run at once, for tasks")
    parser.add_argument("--repeats", type=int, default=2)
    asked = parser.parse_args()
    engine = gesso.load(asked.model, "cpu")
    prompts = [f"What is {number} + 296?" for number in range(100, 100 + asked.n)]

    def one_by_one() -> list[str]:
        return [engine.generate(prompt, seed=SEED).text for prompt in prompts]

    async def all_tasks() -> list[str]:
        async with gesso.AsyncEngine(engine, gesso.Limits(max_num_seqs=asked.at_once)) as service:
            answers = await asyncio.gather(*(service.generate(prompt, seed=SEED) for prompt in prompts))
        return [answer.text for answer in answers]

    def one_batch() -> list[str]:
        return [answer.text for answer in engine.generate_batch([{"prompt": each, "seed": SEED} for each in prompts])]

    ways: dict[str, Callable[[], list[str]]] = {
        "one_by_one": one_by_one,
        "tasks": lambda: asyncio.run(all_tasks()),
        "batch": one_batch,
    }
    expected = one_by_one()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    equal = True
    for _ in range(asked.repeats):
        for name, way in ways.items():
            started = time.perf_counter()
            equal &= way() == expected
            seconds[name].append(time.perf_counter() - started)
    for name, times in seconds.items():
        print(f"{name:12} {statistics.median(times):6.2f} s ({min(times):.2f} to {max(times):.2f})")
    medians = {f"{name}_seconds": round(statistics.median(times), 3) for name, times in seconds.items()}
    print(
        json.dumps({"benchmark": "asyncio_answers", "model": asked.model, "prompts": asked.n, "equal": equal} | medians)
    )


if __name__ == "__main__":
    main()
