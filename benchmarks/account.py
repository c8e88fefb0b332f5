"""The bytes that `gesso bench --device meta` counts, beside the resident size of a run on this CPU.

    python benchmarks/account.py [--quantize none|int8|int4|fp8] [--threads 1]

Random weights in bfloat16: hidden 768, 8 layers, 16 experts of 512, vocabulary 65,536; a prompt of 1,024 tokens and an
answer of 256 in canvases of 128. It is counted with the sizes of tiles and chunks that a CPU has, where `--device meta`
takes those of an accelerator. One format a process: what an earlier one held would count. The last line is JSON.
"""

import argparse
import json

import torch

from gesso.bench.account import account
from gesso.bench.cells import Cell, Settings
from gesso.bench.measure import Bench
from gesso.bench.random_weights import random_engine, read_formats
from gesso.config import LayerConfig, ModelConfig, RopeConfig
from gesso.nn import vocabulary
from gesso.nn.quant import base
from gesso.runner.memory import CPU_CHUNK

SLIDING = LayerConfig("sliding_attention", head_dim=128, num_key_value_heads=4)
FULL = LayerConfig("full_attention", head_dim=256, num_key_value_heads=2)
SHAPE = ModelConfig(
    vocab_size=65_536,
    hidden_size=768,
    intermediate_size=1536,
    num_attention_heads=8,
    layers=((SLIDING,) * 3 + (FULL,)) * 2,
    num_experts=16,
    top_k_experts=2,
    moe_intermediate_size=512,
    sliding_window=512,
    sliding_rope=RopeConfig("default", 10_000.0),
    full_rope=RopeConfig("proportional", 1_000_000.0, 0.25),
    canvas_length=128,
)
CELL = Cell(prompt=1024, output=256, batch=1, mode="canvas")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quantize", choices=("none", "int8", "int4", "fp8"), default="none")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    chosen = read_formats(None if options.quantize == "none" else options.quantize)
    vocabulary.GPU_CHUNK, base.GPU_TILE = vocabulary.CPU_CHUNK, base.CPU_TILE
    counted = account(SHAPE, torch.bfloat16, CELL, chosen, chunk=CPU_CHUNK).total
    engine = random_engine(SHAPE, "random", "cpu", "bfloat16", [CELL], chosen)
    weights = sum(tensor.nbytes for tensor in engine.model.state_dict().values())
    result = Bench(engine, Settings(steps=2, repeats=1, warmup=0)).measure(CELL)
    assert result is not None
    held = weights + result.peak_bytes
    print(f"{options.quantize}: counted {counted / 1e6:.0f} MB, held {held / 1e6:.0f} MB, {counted / held - 1:+.1%}")
    print(json.dumps({"quantize": options.quantize, "counted": counted, "held": held, "exact": result.peak_is_of_cell}))


if __name__ == "__main__":
    main()
