"""Measures what the published size keeps resident with a long context: int4, the table in int8, on this CPU.

    python benchmarks/resident.py [--layers 6,12] [--context 8192] [--folder DIR] [--dtype auto] [--goal 17]

For each number of layers a checkpoint with random weights (`_fullsize.py`) is written, or taken from
`DIR/LAYERS`. A process of its own loads it, reads every weight once, so that what is mapped is resident, fills the keys
and values of all but the last 512 tokens of the context with random numbers, encodes those 512 (a chunk of a prompt, as
long as any), denoises a canvas of 256 behind them, conditioned and with the whole pass over the vocabulary, and makes a
token. Told are the peak of its resident memory (VmHWM), and what is resident at the end.

Layers come in periods of six, five sliding and a full one, as the thirty of the published model do. So two numbers of
layers give what a period takes, and what stands beside them; thirty are put together from these. `--layers 30` measures
them at once, where memory and disk allow. The vision tower is not read: no image comes. The last line is JSON.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from _fullsize import write
from gesso.models.cache import KVCache
from gesso.models.diffusion_gemma import PREFILL_CHUNK, DiffusionGemma
from gesso.models.loading import load_folder

CANVAS, PERIOD, LAYERS = 256, 6, 30


def held() -> dict[str, float]:
    """Resident memory of this process in GB: the most so far, all that is now, and the part mapped from files."""
    status = Path("/proc/self/status").read_text("utf-8")
    kinds = {"peak_gb": "VmHWM", "now_gb": "VmRSS", "mapped_gb": "RssFile"}
    found = {name: re.search(rf"{kind}:\s+(\d+) kB", status) for name, kind in kinds.items()}
    return {name: round(int(match[1]) * 1024 / 1e9, 3) for name, match in found.items() if match}


def filled(model: DiffusionGemma, tokens: int, longest: int) -> KVCache:
    """A cache of so many tokens, of random keys and values."""
    cache = model.new_cache(1, longest, PREFILL_CHUNK)
    (row,) = cache.rows
    generator = torch.Generator().manual_seed(0)
    for begin in range(0, tokens, PREFILL_CHUNK):
        count = min(PREFILL_CHUNK, tokens - begin)
        for layer, own in zip(model.config.layers, row.layers, strict=True):
            shape = (2, count, layer.num_key_value_heads, layer.head_dim)
            keys, values = torch.randn(shape, generator=generator).to(model.dtype)
            own.write(keys, values, longest, PREFILL_CHUNK)
        row.commit(count)
    return cache


@torch.inference_mode()
def measure(folder: Path, dtype: str, context: int) -> dict[str, float | str]:
    """What a process holds that does all of it."""
    model = load_folder(folder, "cpu", dtype)
    for tensor in model.state_dict().values():
        for piece in tensor.flatten().split(1 << 22):
            piece.sum()
    loaded = held()["now_gb"]
    longest = context + CANVAS + 1
    cache = filled(model, context - PREFILL_CHUNK, longest)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(model.config.vocab_size, (PREFILL_CHUNK + CANVAS,), generator=generator)
    model.encode_flat(tokens[:PREFILL_CHUNK], [PREFILL_CHUNK], cache)
    prefilled = held()["peak_gb"]
    conditioning = torch.randn(CANVAS, model.config.hidden_size, generator=generator).to(model.dtype)
    ones = torch.ones(CANVAS)
    hidden = model.denoise_flat(tokens[PREFILL_CHUNK:], [CANVAS], cache, conditioning)
    model.vocabulary.predict(hidden, ones, ones / 2)
    stepped = held()["peak_gb"]
    hidden = model.encode_flat(tokens[-1:], [1], cache)
    model.vocabulary.predict(hidden, ones[:1], ones[:1] / 2, mix=False)
    parts = {"loaded_gb": loaded, "peak_prompt_gb": prefilled, "peak_step_gb": stepped}
    return {"dtype": str(model.dtype), "cache_gb": round(cache.bytes / 1e9, 3), **parts, **held()}


def child(folder: Path, dtype: str, context: int) -> dict[str, float | str]:
    """`measure` in a process of its own."""
    command = [sys.executable, __file__, "--measure", str(folder), "--dtype", dtype, "--context", str(context)]
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float | str] = json.loads(made.stdout.splitlines()[-1])
    return found


def of_thirty(found: dict[int, dict[str, float | str]]) -> dict[str, float]:
    """Puts thirty layers together from the fewest and the most that were measured."""
    few, many = min(found), max(found)
    put = {}
    for name, least in found[few].items():
        most = found[many][name]
        if isinstance(least, float) and isinstance(most, float):
            layer = 0.0 if few == many else (most - least) / (many - few)
            put[name] = round(least + (LAYERS - few) * layer, 2)
    return put


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="6,12", help="two numbers, multiples of six, or 30 alone")
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--folder", type=Path, help="keep the checkpoints here, or use those that are")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--goal", type=float, default=17.0, help="GB")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measure(options.measure, options.dtype, options.context)))
        return
    layers = sorted({int(count) for count in options.layers.split(",")})
    if any(count % PERIOD for count in layers) or (len(layers) == 1 and layers != [LAYERS]) or len(layers) > 2:
        parser.error("--layers takes two multiples of six, or 30 alone")
    if options.context < 2 * PREFILL_CHUNK:
        parser.error(f"--context must be at least {2 * PREFILL_CHUNK}")
    found: dict[int, dict[str, float | str]] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as work:
        for count in layers:
            folder = (options.folder or Path(work)) / str(count)
            if not (folder / "config.json").exists():
                write(folder, count, "int4")
            found[count] = child(folder, options.dtype, options.context)
    whole = of_thirty(found)
    table = Table("layers", *whole)
    for count in layers:
        table.add_row(str(count), *(str(found[count][name]) for name in whole))
    table.add_row("30, put together" if layers != [LAYERS] else "30", *map(str, whole.values()))
    Console(stderr=True, width=150).print(table)
    dtype = next(iter(found.values()))["dtype"]
    told = {"context": options.context, "dtype": dtype, "measured": found, "of_30": whole, "goal_gb": options.goal}
    print(json.dumps({"benchmark": "resident", **told, "met": whole["peak_gb"] <= options.goal}))


if __name__ == "__main__":
    main()
