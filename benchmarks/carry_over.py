"""Whether a fine-tune on a few words carries over to words that neither it nor the model's training has seen.

    python benchmarks/carry_over.py --model FOLDER               400 pairs of a new format, 300 steps, both formats
    python benchmarks/carry_over.py --model mini --format labels --steps 150

An adapter is trained as `docs/finetuning.md` tells, on pairs in the words of the tasks' pools; then it answers 100
prompts in those words and 100 in held-out ones. The goal is 80% of the latter. The model's own answers before stand
beside it. The ceiling is the share in words that were trained on. The last line is JSON.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import gesso
from gesso.config import LoraConfig
from gesso.engine.engine import Engine, Request
from gesso.models.hub import resolve
from gesso.tasks.skills.slots import Slots
from gesso.tasks.words import CITIES, POOL
from gesso.train.config import TrainConfig
from gesso.train.data_config import FileDataConfig
from gesso.train.finetune import finetune_recipe
from gesso.train.plan import Plan
from gesso.train.trainer import train

GOAL = 0.80
ANSWERED = 100
Draw = Callable[[random.Random, bool], tuple[str, str]]


def labels(rng: random.Random, unseen: bool) -> tuple[str, str]:
    """A label from an item, a city and a count."""
    slots = Slots(rng, unseen=unseen)
    item = slots.word() if unseen else rng.choice(POOL)
    city = slots.city() if unseen else rng.choice(CITIES)
    count = slots.number(3)
    return f"Label: {item}, {city}, {count}", f"<{city}> {count} x {item}"


def arrows(rng: random.Random, unseen: bool) -> tuple[str, str]:
    """Words in a chain."""
    slots = Slots(rng, unseen=unseen)
    words = slots.words(rng.randint(2, 5)) if unseen else rng.sample(POOL, rng.randint(2, 5))
    return f"Chain: {' '.join(words)}", " -> ".join(words)


FORMATS: dict[str, Draw] = {"labels": labels, "arrows": arrows}


def right(engine: Engine, draw: Draw, *, unseen: bool) -> float:
    """Share of answers that are exact."""
    rng = random.Random(f"{draw.__name__}/{unseen}")
    pairs = [draw(rng, unseen) for _ in range(ANSWERED)]
    requests = [Request(prompt, {"seed": i, "max_new_tokens": 64}) for i, (prompt, _) in enumerate(pairs)]
    results = engine.generate_batch(requests)
    return sum(r.text.strip() == answer for r, (_, answer) in zip(results, pairs, strict=True)) / ANSWERED


def measure(
    model: str, name: str, pairs: int, steps: int, learning_rate: float, vary_copies: float
) -> dict[str, float | str]:
    """Train an adapter on one format and answer with it."""
    draw, rng = FORMATS[name], random.Random(name)
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder, "pairs.jsonl"), Path(folder, "run")
        lines = (dict(zip(("prompt", "completion"), draw(rng, False), strict=True)) for _ in range(pairs))
        data.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        recipe = finetune_recipe(
            [data],
            resolve(model),
            base=model,
            plan=Plan(steps=steps, learning_rate=learning_rate),
            train=TrainConfig(steps=steps, batch_size=16, checkpoint_every=steps),
            data=FileDataConfig(max_length=96, vary_copies=vary_copies),
            adapter=LoraConfig(),
        )
        before = gesso.load(model, "cpu")
        row: dict[str, float | str] = {"format": name, "before": right(before, draw, unseen=True)}
        started = time.perf_counter()
        outcome = train(recipe, out, device="cpu")
        row["minutes"] = (time.perf_counter() - started) / 60
        after = gesso.load(model, "cpu", adapter=str(outcome.last))
        row |= {"seen": right(after, draw, unseen=False), "unseen": right(after, draw, unseen=True)}
    return row


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--format", action="append", choices=FORMATS)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--vary-copies", type=float, default=0.9)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    rows = [
        measure(given.model, name, given.pairs, given.steps, given.learning_rate, given.vary_copies)
        for name in given.format or FORMATS
    ]
    for row in rows:
        print(
            f"{row['format']}: {row['unseen']:.0%} in unseen words ({row['before']:.0%} before), {row['seen']:.0%} in"
            f" seen ones, {row['minutes']:.1f} minutes of training; the goal is {GOAL:.0%}"
        )
    print(json.dumps({"model": given.model, "pairs": given.pairs, "steps": given.steps, "rows": rows}))


if __name__ == "__main__":
    main()
