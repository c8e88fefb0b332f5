"""What a constraint costs: a denoising step with and without one, and compiling one.

    python benchmarks/constrain.py [--vocab 4096,262144] [--steps 5] [--repeats 3] [--cpu] [--wide]

Random weights of the shape `small` (see `_shapes.py`), canvas 256, batch 1, prompt 64; a vocabulary of random pieces
over every byte. The two kinds of step take turns. Compiling is timed for a vocabulary that is new, for a schema that is
new to a known vocabulary, and for one that was compiled before. `--cpu` takes processor time, of all threads, where
other work is on the machine; `--wide` takes a schema of 60 properties, any of which may be missing. Goal: a step at
most 1.25 times as long. The last line is one line of JSON.
"""

import argparse
import dataclasses
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers
import torch
from rich.console import Console
from rich.table import Table
from tokenizers import AddedToken, decoders, models

from _shapes import CANVAS, SHAPES, write_checkpoint
from gesso.constraints.compile import compile_constraint
from gesso.constraints.inference import Lattice
from gesso.constraints.json_schema import schema_expression
from gesso.diffusion.canvas_state import CanvasState
from gesso.diffusion.denoise import denoise_step
from gesso.diffusion.step import CanvasShape
from gesso.engine.canvases import denoising_rules
from gesso.engine.constraint import OutputConstraint
from gesso.generation import GenerationConfig
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import load_folder
from gesso.text.tokenizer import Tokenizer

GOAL = 1.25
PROMPT = 64
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "price": {"type": "number", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
        "kind": {"enum": ["fruit", "tool", "book"]},
    },
    "required": ["name", "price"],
}
WIDE: dict[str, Any] = {
    "type": "object",
    "properties": {f"property_{number}": {"type": "string"} for number in range(60)},
    "additionalProperties": False,
}
OTHER: dict[str, Any] = {"type": "array", "items": SCHEMA, "maxItems": 3}


def make_tokenizer(size: int) -> Tokenizer:
    """Every byte, and random pieces of letters, spaces and JSON's marks; id 2 ends."""
    generator = random.Random(0)
    pieces = dict.fromkeys(["<pad>", "<unk>", "<end>", *(f"<0x{byte:02X}>" for byte in range(256))])
    while len(pieces) < size:
        letters = generator.choices('abcdefghijklmnopqrstuvwxyz▁0123456789":,{}[]', k=generator.randint(1, 9))
        pieces["".join(letters)] = None
    ids = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = tokenizers.Tokenizer(models.BPE(ids, [], byte_fallback=True, unk_token="<unk>"))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in ("<pad>", "<unk>", "<end>")])
    return Tokenizer(tokenizer)


def timed(work: Any, clock: Callable[[], float] = time.perf_counter) -> tuple[Any, float]:
    started = clock()
    found = work()
    return found, clock() - started


def steps(
    model: DiffusionGemma, constraint: OutputConstraint | None, count: int, clock: Callable[[], float]
) -> list[float]:
    """Seconds of each step of one canvas, but the first."""
    rules = denoising_rules(GenerationConfig(confidence_threshold=0.0, max_denoising_steps=count + 1))
    on_canvas = None if constraint is None else constraint.on_canvas(2 * CANVAS, CANVAS, None)
    generator = torch.Generator().manual_seed(0)
    state = CanvasState(rules, CanvasShape(CANVAS, model.config.vocab_size), generator, constraint=on_canvas)
    cache = model.new_cache(1, PROMPT + CANVAS)
    with torch.inference_mode():
        model.encode(torch.arange(PROMPT)[None], cache)
        return [timed(lambda: denoise_step(model, [state], cache), clock)[1] for _ in range(count + 1)][1:]


def measure(schema: Any, size: int, count: int, repeats: int, clock: Callable[[], float]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(dataclasses.replace(SHAPES["small"], vocab=size), Path(folder))
        model = load_folder(Path(folder), "cpu", "float32")
        tokenizer = make_tokenizer(size)
        first, new_vocabulary = timed(lambda: compile_constraint(schema_expression(schema)[0], tokenizer, (2,)))
        _, new_schema = timed(lambda: compile_constraint(schema_expression(OTHER)[0], tokenizer, (2,)))
        _, known = timed(lambda: compile_constraint(schema_expression(schema)[0], tokenizer, (2,)))
        constraint = OutputConstraint(Lattice(first))
        plain: list[float] = []
        held: list[float] = []
        for _ in range(repeats):
            plain += steps(model, None, count, clock)
            held += steps(model, constraint, count, clock)
    return {
        "vocab": size,
        "states": len(first.next_SK),
        "classes": first.next_SK.shape[1],
        "step": statistics.median(plain),
        "constrained_step": statistics.median(held),
        "ratio": statistics.median(held) / statistics.median(plain),
        "compile_new_vocabulary": new_vocabulary,
        "compile_new_schema": new_schema,
        "compile_known": known,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", default="4096,262144")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cpu", action="store_true", help="processor time instead of wall clock")
    parser.add_argument("--wide", action="store_true", help="a schema of 60 properties")
    arguments = parser.parse_args()
    schema = WIDE if arguments.wide else SCHEMA
    clock = time.process_time if arguments.cpu else time.perf_counter
    sizes = map(int, arguments.vocab.split(","))
    rows = [measure(schema, size, arguments.steps, arguments.repeats, clock) for size in sizes]
    table = Table("vocabulary", "states", "classes", "step", "constrained", "ratio", "compile", "new schema", "known")
    for row in rows:
        milliseconds = [f"{1e3 * row[name]:.0f} ms" for name in ("step", "constrained_step")]
        compiling = [f"{1e3 * row[f'compile_{name}']:.1f} ms" for name in ("new_vocabulary", "new_schema", "known")]
        counts = [f"{row[name]:,}" for name in ("vocab", "states", "classes")]
        table.add_row(*counts, *milliseconds, f"{row['ratio']:.2f}x", *compiling)
    console = Console(width=120)
    console.print(table)
    met = all(row["ratio"] <= GOAL for row in rows)
    console.print(f"goal: at most {GOAL}x ({'met' if met else 'missed'})")
    print(json.dumps({"benchmark": "constrain", "wide": arguments.wide, "rows": rows, "goal": GOAL, "met": met}))


if __name__ == "__main__":
    main()
