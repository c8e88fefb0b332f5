"""Times the mixture of a packed table's rows, what a step of a canvas gives to the next one, on this CPU.

    python benchmarks/mixture.py [--positions 256] [--rows 16384] [--size 2816] [--repeats 5] [--threads 1]

A table of bytes with a factor for each row is mixed by the probabilities of so many positions: by gesso's kernels,
those of processors that have less than this one, and by dequantizing a tile at a time before a matmul (what is done
where there is no kernel). The ceiling is the matmul with the whole table in fp32. Ways take turns. Errors, relative,
are of probabilities of normal scores, and of scores five times as far apart. The last line is JSON.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from gesso.kernels.host.dots import Dot
from gesso.kernels.host.library import best_dot
from gesso.kernels.host.mix import ByteMixture
from gesso.nn.quant.base import dequantize
from gesso.nn.quant.integer import Int8
from gesso.nn.quant.vocabulary import QuantizedVocabulary

DOTS: tuple[Dot, ...] = ("amx", "vnni512", "vnni256", "avx2")
CHUNK = 2048
"""Rows that a pass over the vocabulary gives at a time."""
SPREADS = (1.0, 5.0)
Way = Callable[[Tensor], Tensor]


def by_kernel(weights: Tensor, parts: tuple[Tensor, Tensor], dot: Dot) -> Tensor:
    """Mixes by gesso's kernels."""
    codes, factors = parts
    mixture = ByteMixture(len(weights), codes.shape[1], dot)
    for begin in range(0, len(codes), CHUNK):
        part = slice(begin, begin + CHUNK)
        mixture.add(weights[:, part], factors[part], codes[part])
    return mixture.take()


def by_tiles(weights: Tensor, vocabulary: QuantizedVocabulary) -> Tensor:
    """Mixes by dequantizing tiles."""
    mixed = torch.zeros(len(weights), vocabulary.width)
    for begin in range(0, vocabulary.size, CHUNK):
        mixed += vocabulary.slice(begin, begin + CHUNK).mix(weights[:, begin : begin + CHUNK])
    return mixed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positions", type=int, default=256)
    parser.add_argument("--rows", type=int, default=16_384)
    parser.add_argument("--size", type=int, default=2816)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    form = Int8()
    codes, factors = form.quantize(torch.randn(options.rows, options.size))
    vocabulary = QuantizedVocabulary(options.rows, options.size, 30.0, form)
    vocabulary.load_state_dict(dict(zip(form.parts, (codes, factors), strict=True)))
    whole = dequantize((codes, factors), form, torch.float32)
    scores = torch.randn(options.positions, options.rows)
    ways: dict[str, Way] = {
        f"gesso by {dot}": partial(by_kernel, parts=(codes, factors), dot=dot)
        for dot in DOTS[DOTS.index(best_dot()) :]  # what other processors do, too
    }
    ways |= {"dequantized": partial(by_tiles, vocabulary=vocabulary), "whole fp32": lambda weights: weights @ whole}
    best, errors = dict.fromkeys(ways, float("inf")), dict[str, list[float]]()
    with torch.inference_mode():
        for name, mix in ways.items():
            errors[name] = []
            for spread in SPREADS:
                weights = (spread * scores).softmax(dim=-1)
                exact = weights.double() @ whole.double()
                errors[name].append(float((mix(weights).double() - exact).norm() / exact.norm()))
        for _ in range(options.repeats):
            for name, mix in ways.items():
                begin = time.perf_counter()
                mix(weights)
                best[name] = min(best[name], time.perf_counter() - begin)
    table = Table("way", "ms", "GFLOP/s", *(f"error, scores {spread:g} apart" for spread in SPREADS))
    work = 2e-9 * options.positions * options.rows * options.size
    for name, seconds in best.items():
        shown = (f"{error:.1e}" for error in errors[name])
        table.add_row(name, f"{1e3 * seconds:.1f}", f"{work / seconds:.0f}", *shown)
    Console(stderr=True, width=120).print(table)
    milliseconds = {name: round(1e3 * seconds, 2) for name, seconds in best.items()}
    print(json.dumps({"benchmark": "mixture", **vars(options), "ms": milliseconds, "errors": errors}))


if __name__ == "__main__":
    main()
