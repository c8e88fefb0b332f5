"""Whether the engine answers on a GPU as on a CPU: bundled models, same seeds, everything a request may ask for.

    python benchmarks/gpu/engine.py [--device cuda] [--only NAME,...] [--keep FILE] [--json]

In float32, where answers should be the same tokens: a step may round to the other of two likelihoods that are as good
as equal, so an answer that differs is told and no failure; one in ten may. What fails is an error, or a promise broken
(a pin moved, invalid JSON). Then all of it once more with CUDA graphs, whose attention adds up in another order, and
three answers in bfloat16 with and without them. `--keep` keeps the CPU's answers in a file, and reads them where it is
there. The last line is one line of JSON; the exit code is 1 where something failed, 2 where there is no GPU.
"""

import argparse
import json
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import gesso
from gesso.bench.machine import describe_machine
from gesso.diffusion.samplers import SAMPLERS
from gesso.engine.engine import Engine

SEED = 5
SUM, SORT = "What is 481 + 296?", "Sort: pear, fig, apple, kiwi."
LONG = "Sort these words: " + ", ".join(f"word{n}" for n in range(60))
SCHEMA = {
    "type": "object",
    "properties": {"item": {"type": "string", "maxLength": 8}, "price": {"type": "integer"}},
    "required": ["item", "price"],
}
Ask = Callable[[Engine], object]
"""Asks an engine; what it returns is compared."""


def said(prompt: str, **options: Any) -> Ask:
    def ask(engine: Engine) -> object:
        result = engine.generate(prompt, seed=SEED, **options)
        if "json_schema" in options:
            json.loads(result.text)
        broken = [
            "regex" in options and not re.fullmatch(options["regex"], result.text),
            "choices" in options and result.text not in options["choices"],
            any(
                pin not in (None, token)
                for pin, token in zip(options.get("canvas", ()), result.token_ids, strict=False)
            ),
        ]
        if any(broken):
            raise AssertionError(f"a promise is broken: {result.text!r}")
        return list(result.token_ids)

    return ask


def batch(engine: Engine) -> object:
    prompts = [SUM, SORT, LONG, "Count from 3 to 11."]
    requests = [{"prompt": prompt, "seed": SEED + i} for i, prompt in enumerate(prompts)]
    return [list(result.token_ids) for result in engine.generate_batch(requests)]


def streamed(engine: Engine) -> object:
    return [type(event).__name__ for event in engine.stream(SUM, seed=SEED)]


def filled(engine: Engine) -> object:
    result = gesso.fill(engine, "def double(x):\n    return {{ }}\n", seed=SEED)
    return result.text


def edited(engine: Engine) -> object:
    return gesso.edit(engine, "total = a + b", "rename a to width", seed=SEED).text


def scenarios() -> dict[str, tuple[str, Ask]]:
    """Returns by name which model is asked, and what."""
    pins: list[int | None] = [None] * 8
    pins[2] = 40
    found: dict[str, tuple[str, Ask]] = {
        "canvas": ("mini", said(SUM)),
        "one by one": ("mini", said(SUM, mode="ar")),
        "one by one, drawn": ("mini", said(SORT, mode="ar", temperature=0.9, top_p=0.9, top_k=20)),
        "long": ("mini", said(LONG, max_new_tokens=200)),
        "verified": ("mini", said(SORT, verify="exact")),
        "log-probabilities": ("mini", said(SUM, logprobs=3)),
        "top-p": ("mini", said(SORT, top_p=0.9, top_k=5)),
        "guided": ("mini", said(SUM, guidance_scale=1.5)),
        "pinned": ("mini", said(SUM, canvas=pins, canvas_length=16)),
        "schema": ("mini", said("As JSON: the mug costs 12 euros.", json_schema=SCHEMA, max_new_tokens=48)),
        "schema, one by one": (
            "mini",
            said("As JSON: the mug costs 12 euros.", json_schema=SCHEMA, max_new_tokens=48, mode="ar"),
        ),
        "pattern": ("mini", said(SUM, regex="[0-9]{3,4}")),
        "choices": ("mini", said(SUM, choices=["777", "778", "no"])),
        "batch": ("mini", batch),
        "stream": ("mini", streamed),
        "fill": ("mini", filled),
        "edit": ("mini", edited),
        "sudoku": ("sudoku", said("1 . . 4 . . 2 . . 3 . . . 1 . .", max_new_tokens=96)),
        "skills": ("skills", said("Sort these words: pear, fig, apple")),
    }
    for name in SAMPLERS.names:
        found[f"sampler {name}"] = ("mini", said(SUM, sampler=name))
    return found


def answers(
    device: str, asked: dict[str, tuple[str, Ask]], *, cuda_graphs: bool = False
) -> Iterator[tuple[str, object, str, float]]:
    """Yields what each scenario returns there, as JSON has it, or the error in one line, and its seconds."""
    engines: dict[str, Engine] = {}
    for name, (model, ask) in asked.items():
        begin, said, wrong = time.perf_counter(), None, ""
        try:
            if model not in engines:
                engines[model] = gesso.load(
                    model, device=device, dtype="float32", cuda_graphs=cuda_graphs, offline=True
                )
            said = json.loads(json.dumps(ask(engines[model])))
        except Exception as error:  # the others are worth knowing
            at = traceback.extract_tb(error.__traceback__)[-1]
            wrong = f"{type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})"
        yield name, said, wrong, time.perf_counter() - begin


def kept_answers(asked: dict[str, tuple[str, Ask]], keep: Path | None) -> dict[str, tuple[object, str]]:
    """Returns what a CPU answers, from `keep` where it has all of them, else asked and kept there."""
    if keep is not None and keep.exists():
        kept = json.loads(keep.read_text(encoding="utf-8"))
        if asked.keys() <= kept.keys():
            return {name: tuple(kept[name]) for name in asked}
    found: dict[str, tuple[object, str]] = {name: (said, wrong) for name, said, wrong, _ in answers("cpu", asked)}
    if keep is not None:
        keep.write_text(json.dumps(found), encoding="utf-8")
    return found


def graphs(device: str) -> dict[str, Any]:
    """An answer in bfloat16 with replayed passes and without."""
    texts = []
    for captured in (False, True):
        engine = gesso.load("mini", device=device, dtype="bfloat16", cuda_graphs=captured, offline=True)
        texts.append([engine.generate(prompt, seed=SEED).token_ids for prompt in (SUM, SORT, LONG)])
    return {"same": texts[0] == texts[1]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", default="", help="scenarios by name; all without it")
    parser.add_argument("--keep", type=Path, help="a file of the CPU's answers")
    parser.add_argument("--json", action="store_true", help="the JSON line alone")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device here: nothing can be compared (engine.py --device cpu)", file=sys.stderr)
        return 2
    asked = scenarios()
    if arguments.only:
        names = arguments.only.split(",")
        if unknown := [name for name in names if name not in asked]:
            parser.error(f"--only {unknown[0]!r} does not exist; known: {', '.join(asked)}")
        asked = {name: asked[name] for name in names}
    expected = kept_answers(asked, arguments.keep)
    begin = time.perf_counter()
    told: dict[str, Any] = {}
    for captured in (False, True) if arguments.device == "cuda" else (False,):
        for name, mine, error, seconds in answers(arguments.device, asked, cuda_graphs=captured):
            theirs, wrong = expected[name]
            full = f"{name}, captured" if captured else name
            told[full] = {"error": error or wrong} if error or wrong else {"same": mine == theirs}
            told[full]["seconds"] = round(seconds, 2)
            if not arguments.json:
                one = told[full]
                said = one.get("error") or ("same" if one["same"] else "differs")
                print(f"{full:36}{seconds:7.2f} s  {said}", flush=True)
    if arguments.device == "cuda" and not arguments.only:
        try:
            told["CUDA graphs in bfloat16"] = graphs(arguments.device)
        except Exception as error:
            told["CUDA graphs in bfloat16"] = {"error": f"{type(error).__name__}: {error}"}
    differ = [name for name, one in told.items() if not one.get("same", True)]
    failed = [name for name, one in told.items() if "error" in one]
    summary = {"seconds": time.perf_counter() - begin, "scenarios": told, "differ": differ, "failed": failed}
    print(
        json.dumps({"benchmark": "gpu engine", "machine": describe_machine(torch.device(arguments.device)), **summary})
    )
    right = not failed and 10 * len(differ) <= len(told)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
