"""Checks a model on Apple's GPUs (MPS) against the CPU, in float32 and bfloat16, and times a step on both.

    python benchmarks/mps.py [--model mini] [--device mps] [--repeats 5] [--json]

For each dtype: hidden states of a prompt and of a denoising pass beside those of the CPU in float32 (errors relative to
their norm, at most 0.001 and 0.1; on a CPU mini is 0.064 off in bfloat16), tokens of a plain answer, a constrained one
and one of the sampler `leave_one_out` beside the CPU's for the same seed, and the best milliseconds of a denoising
pass; and whether this PyTorch has a grouped matmul for MPS, without which every layer asks the host how many tokens
each expert got. `--device cpu` runs anywhere, to see that it works.
The last line is JSON; the exit code is 1 where an error is too large, 2 where there is no MPS.
"""

import argparse
import json
import sys
import time
from typing import Any

import torch
from torch import Tensor

import gesso
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.nn.grouped_products import has_grouped_kernel

ERRORS = {"float32": 1e-3, "bfloat16": 0.1}
"""The largest relative error of hidden states."""
SEED, PROMPT, TEXT = 0, 48, "Sort: pear, fig, apple, kiwi."
OPTIONS: tuple[dict[str, Any], ...] = ({}, {"regex": "[a-z]+(, [a-z]+){3}"}, {"sampler": "leave_one_out"})
"""Of answers: plain, constrained, and by the sampler that computes in fp64, which these GPUs have not."""


@torch.inference_mode()
def passes(model: DiffusionGemma, repeats: int) -> tuple[list[Tensor], float]:
    """Hidden states of a prompt and of a denoising pass, and the best milliseconds of such a pass."""
    generator = torch.Generator().manual_seed(SEED)
    width = model.config.canvas_length
    prompt, canvas = (torch.randint(model.config.vocab_size, (1, n), generator=generator) for n in (PROMPT, width))
    cache = model.new_cache(1, PROMPT + width, width)
    found, best = [model.encode(prompt, cache), model.denoise_hidden(canvas, cache)], float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        model.denoise_hidden(canvas, cache).cpu()  # which waits
        best = min(best, time.perf_counter() - begin)
    return [part.float().cpu() for part in found], 1e3 * best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--device", default="mps")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="the JSON line alone")
    arguments = parser.parse_args()
    if arguments.repeats < 1:
        parser.error("--repeats must be at least 1")
    if arguments.device == "mps" and not torch.backends.mps.is_available():
        print("no MPS device here: nothing can be checked (mps.py --device cpu)", file=sys.stderr)
        return 2

    def load(device: str, dtype: str) -> tuple[list[Tensor], float, tuple[tuple[int, ...], ...]]:
        engine = gesso.load(arguments.model, device=device, dtype=dtype)
        model = engine.model
        if not isinstance(model, DiffusionGemma):
            parser.error(f"{arguments.model} is of another family: the passes compared here are DiffusionGemma's")
        hidden, step_ms = passes(model, arguments.repeats)
        answers = [engine.generate(TEXT, seed=SEED, **options).token_ids for options in OPTIONS]
        return hidden, step_ms, tuple(answers)

    expected, cpu_ms, answer = load("cpu", "float32")
    found: dict[str, Any] = {"cpu float32": {"step_ms": cpu_ms}}
    for dtype, bound in ERRORS.items():
        hidden, step_ms, tokens = load(arguments.device, dtype)
        pairs = zip(hidden, expected, strict=True)
        errors = [float((mine - theirs).norm() / theirs.norm()) for mine, theirs in pairs]
        found[f"{arguments.device} {dtype}"] = {
            "step_ms": step_ms,
            "errors": errors,
            "met": max(errors) <= bound,
            "same_tokens": [mine == theirs for mine, theirs in zip(tokens, answer, strict=True)],
        }
    if not arguments.json:
        for name, told in found.items():
            print(name, *(f"{key}={value}" for key, value in told.items()), sep="  ")
    grouped = has_grouped_kernel("MPS")
    if not arguments.json:
        print(f"PyTorch {torch.__version__} has {'a' if grouped else 'no'} grouped matmul for MPS")
    versions = {"torch": torch.__version__, "grouped_matmul": grouped}
    print(json.dumps({"benchmark": "mps", "model": arguments.model, **versions, "runs": found}))
    return 0 if all(told.get("met", True) for told in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
