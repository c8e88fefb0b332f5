"""What compiling real schemas costs: CPU seconds and bytes each, and whether what is generated under them is valid.

    python benchmarks/constrain_compile.py FOLDER [--vocab 131072] [--each 8] [--seed 0] [--family NAME]
        [--only-seconds] [--generate 200] [--max-new-tokens 512]

FOLDER is read as `constrain_schemas.py` reads it. Each schema is compiled as a request's is, for a vocabulary of random
pieces whose tree is there already: once for the processor time of the process, and once more, from the start, for the
most bytes that Python and NumPy hold at once (`tracemalloc`) and those of what is kept. A refused schema counts with
what it took to refuse it. What common parts leave behind for later schemas is kept, and the collector sweeps as often,
as in a server.

With `--generate`, so many of the schemas (all, if there are fewer) are given to the bundled model with random weights,
in four steps and canvases of 32: an answer must be valid, complete and within `--max-new-tokens`; a request that is
refused, since the schema or its shortest answer is too large, is counted as such. Goals: CPU in the median 0.03 s, of
99 in 100 at most 1 s, of all 3 s; 256 MiB each; all answers valid. The last line is one line of JSON.
"""

import argparse
import gc
import json
import statistics
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import torch
from rich.console import Console
from rich.table import Table

from constrain import make_tokenizer
from constrain_schemas import groups
from gesso.api import load
from gesso.constraints.budget import MAX_SECONDS, Budget
from gesso.constraints.compile import Language, submit
from gesso.constraints.held_bytes import held_bytes
from gesso.constraints.json_schema import schema_expression
from gesso.errors import OptionError
from gesso.server.run import SWEEPS
from gesso.text.tokenizer import Tokenizer

GOAL_SECONDS = {"median": 0.03, "p99": 1.0, "most": 3.0}
GOAL_BYTES = 256 * 2**20
TRACED_SECONDS = 4 * MAX_SECONDS
"""Of CPU while bytes are traced, which takes about so many times as long."""
SCALE = 0.3
"""Standard deviation of random weights."""


def compiled(schema: Any, tokenizer: Tokenizer, max_seconds: float = MAX_SECONDS) -> Any:
    """The automaton, compiled anew each time: no two keys are equal."""
    language = Language(object(), lambda: schema_expression(schema))
    return submit(language, tokenizer, (2,), limits=Budget(max_seconds=max_seconds)).result()


def measured(schema: Any, tokenizer: Tokenizer, only_seconds: bool) -> dict[str, Any]:
    """What one schema costs."""
    row: dict[str, Any] = {"refused": None}
    started = time.process_time()
    try:
        automaton = compiled(schema, tokenizer)
    except OptionError as error:
        row |= {"refused": str(error), "seconds": time.process_time() - started}
    else:
        row |= {"seconds": time.process_time() - started, "kept": held_bytes(automaton), "states": automaton.states}
        del automaton
    if only_seconds:
        return row
    tracemalloc.start()
    with suppress(OptionError):
        compiled(schema, tokenizer, TRACED_SECONDS)
    row["peak"] = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return row


def percentiles(numbers: list[Any]) -> dict[str, Any]:
    numbers = sorted(numbers)
    return {"median": statistics.median(numbers), "p99": numbers[int(0.99 * len(numbers))], "most": numbers[-1]}


def generated(schemas: dict[str, Any], max_new_tokens: int) -> dict[str, Any]:
    """How many answers of a model with random weights are valid and complete."""
    engine = load("mini", "cpu", "float32")
    generator = torch.Generator().manual_seed(0)
    assert isinstance(engine.model, torch.nn.Module)
    with torch.no_grad():
        for parameter in engine.model.parameters():
            parameter.copy_(SCALE * torch.randn(parameter.shape, generator=generator) + (parameter.dim() == 1))
    valid, wrong, refused = 0, [], {}
    for number, (name, schema) in enumerate(schemas.items()):
        try:
            made = engine.generate(
                "Go.",
                json_schema=schema,
                seed=number,
                max_new_tokens=max_new_tokens,
                canvas_length=32,
                max_denoising_steps=4,
            )
        except OptionError as error:
            refused[name] = str(error)
            continue
        if problem := fault(made, schema, max_new_tokens):
            wrong.append(f"{name}: {problem}")
        else:
            valid += 1
        print(f"{name}: {made.completion_tokens} tokens{f': {problem}' if problem else ''}", flush=True)
    return {"valid": valid, "wrong": wrong, "refused": refused}


def fault(made: Any, schema: Any, max_new_tokens: int) -> str:
    """What is wrong with an answer."""
    if made.finish_reason != "stop" or made.completion_tokens > max_new_tokens:
        return f"{made.finish_reason} after {made.completion_tokens} tokens"
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind(schema).validate(json.loads(made.text))
    except (ValueError, jsonschema.ValidationError) as error:
        return f"{str(error).splitlines()[0]:.200}"
    return ""


def show(rows: dict[str, dict[str, Any]], console: Console) -> None:
    table = Table("schema", "CPU", "peak", "kept", "states", "refused")
    for name, row in sorted(rows.items(), key=lambda item: item[1]["seconds"])[-25:]:
        sizes = [f"{row[key] / 2**20:.1f} MiB" if key in row else "" for key in ("peak", "kept")]
        seconds, states = f"{1e3 * row['seconds']:.0f} ms", f"{row.get('states', 0):,}"
        table.add_row(name[:60], seconds, *sizes, states, (row["refused"] or "")[:60])
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--vocab", type=int, default=131_072)
    parser.add_argument("--each", type=int, help="files of a family; all without it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--family", action="append", default=[])
    parser.add_argument("--only-seconds", action="store_true", help="leave the bytes out")
    parser.add_argument("--generate", type=int, default=0, help="answers of a model with random weights")
    parser.add_argument("--max-new-tokens", type=int, default=512)
    arguments = parser.parse_args()
    listed = groups(arguments.folder, arguments.each, arguments.seed, arguments.family)
    schemas = {f"{family} {label}": group["schema"] for family, label, group in listed}
    tokenizer = make_tokenizer(arguments.vocab)
    compiled(True, tokenizer)  # a vocabulary is read once
    gc.collect()
    gc.freeze()
    gc.set_threshold(*SWEEPS)
    rows = {name: measured(schema, tokenizer, arguments.only_seconds) for name, schema in schemas.items()}
    console = Console(width=150)
    show(rows, console)
    taken: Callable[[str], list[Any]] = lambda key: [row[key] for row in rows.values() if key in row]  # noqa: E731
    seconds = percentiles(taken("seconds"))
    summary: dict[str, Any] = {
        "benchmark": "constrain_compile",
        "vocab": arguments.vocab,
        "schemas": len(rows),
        "refused": sum(row["refused"] is not None for row in rows.values()),
        "seconds": seconds,
        "goal": {"seconds": GOAL_SECONDS, "bytes": GOAL_BYTES},
    }
    met = {f"{name} CPU": seconds[name] <= goal for name, goal in GOAL_SECONDS.items()}
    if not arguments.only_seconds:
        summary |= {"peak_bytes": percentiles(taken("peak")), "kept_bytes": percentiles(taken("kept"))}
        met["bytes"] = summary["peak_bytes"]["most"] <= GOAL_BYTES
    if arguments.generate:
        chosen = [name for name, row in rows.items() if row["refused"] is None][: arguments.generate]
        answers = generated({name: schemas[name] for name in chosen}, arguments.max_new_tokens)
        summary["generated"] = answers
        met["answers"] = not answers["wrong"]
    console.print("goals: " + ", ".join(f"{name} {'met' if held else 'missed'}" for name, held in met.items()))
    print(json.dumps({**summary, "met": all(met.values())}))


if __name__ == "__main__":
    main()
