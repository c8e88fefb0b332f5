"""Times matmuls with packed weights on this CPU beside its other ways to do them, and beside the whole weights.

    python benchmarks/packed.py [--rows 1,4,16,64,256] [--size 2816] [--matrices 8] [--repeats 7] [--threads 1]

For int8, int4 (groups of 64 and 32), NF4, NVFP4 and FP8: gesso's kernels, those of processors that have less than this
one, and dequantizing a tile at a time before each matmul (what is done where there is no kernel). For int4 in groups of
64 also PyTorch's packed operator, with bfloat16 activations, and, where onnxruntime and onnx are installed, MatMulNBits
with 8-bit activations (`accuracy_level` 4). The ceiling is the same matmul with whole fp32 weights; a way is timed on
several matrices in turn, in rounds that go through all ways. The JSON line at the end has errors, too: of rounding
activations, and of the bits; and how fast weights are packed.
"""

import argparse
import importlib.util
import itertools
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from gesso.kernels.host import packed
from gesso.kernels.host.dots import Dot
from gesso.kernels.host.library import best_dot
from gesso.nn.linear import linear
from gesso.nn.quant.base import Format, dequantize, multiply_dequantized
from gesso.nn.quant.fp8 import FP8
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.nf4 import NF4
from gesso.nn.quant.nvfp4 import NVFP4
from gesso.nn.quant.packing import pack

FORMS: dict[str, Format] = {
    "int8": Int8(), "int4": Int4(), "int4-32": Int4(32), "nf4": NF4(), "nvfp4": NVFP4(), "fp8": FP8(),
}  # fmt: skip
GROUP = 64
DOTS: tuple[Dot, ...] = ("amx", "vnni512", "vnni256", "avx2", "plain")
Way = Callable[[Tensor], Tensor]


def ways(form: Format, weights: list[Tensor]) -> dict[str, list[Way]]:
    """The ways to multiply by each matrix, by name."""
    parts = [form.quantize(weight) for weight in weights]
    found: dict[str, list[Way]] = {
        "gesso": [partial(packed.matmul, name=form.kernel, parts=p) for p in parts],
        "dequantized": [partial(multiply_dequantized, parts=p, form=form) for p in parts],
    }
    for dot in DOTS[DOTS.index(best_dot()) + 1 :] if form != FORMS["fp8"] else ():  # what other processors do
        found[f"gesso by {dot}"] = [partial(packed.matmul, name=form.kernel, parts=p, dot=dot) for p in parts]
    if form == FORMS["int4"]:
        found["torch int4pack"] = [_int4pack(weight) for weight in weights]
        if all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime")):
            found["onnxruntime"] = [_onnxruntime(weight) for weight in weights]
    return found


def _int4pack(weight: Tensor) -> Way:
    rows, features = weight.shape
    codes = torch.randint(0, 16, (rows, features), dtype=torch.int32)
    held = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
    scales = torch.full((features // GROUP, rows, 2), 0.01, dtype=torch.bfloat16)
    return lambda x: torch.ops.aten._weight_int4pack_mm_for_cpu(x.bfloat16(), held, GROUP, scales)


def _onnxruntime(weight: Tensor) -> Way:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    rows, features = weight.shape
    codes = np.random.default_rng(0).integers(0, 256, (rows, features // GROUP, GROUP // 2), dtype=np.uint8)
    scales = np.full(rows * features // GROUP, 0.01, dtype=np.float32)
    node = helper.make_node(
        "MatMulNBits", ["x", "codes", "scales"], ["y"], domain="com.microsoft",
        K=features, N=rows, bits=4, block_size=GROUP, accuracy_level=4,
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "matmul",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["M", features])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["M", rows])],
        [numpy_helper.from_array(codes, "codes"), numpy_helper.from_array(scales, "scales")],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model: Any = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    assert onnx.__version__
    return lambda x: torch.from_numpy(session.run(None, {"x": x.numpy()})[0])


def best_ms(candidates: dict[str, list[Way]], x: Tensor, repeats: int) -> dict[str, float]:
    """The best milliseconds of a matmul; ways take turns."""
    best = dict.fromkeys(candidates, float("inf"))
    for matrices in candidates.values():
        matrices[0](x)  # compiles
    for _, (name, matrices) in itertools.product(range(repeats), candidates.items()):
        begin = time.perf_counter()
        for multiply in matrices:
            multiply(x)
        best[name] = min(best[name], (time.perf_counter() - begin) / len(matrices))
    return {name: 1e3 * seconds for name, seconds in best.items()}


def errors(form: Format, weight: Tensor, x: Tensor) -> dict[str, float]:
    """Relative errors of a product: of rounding activations in the kernel, and of the format's bits."""
    parts = form.quantize(weight)
    exact = x @ dequantize(parts, form, torch.float32).T
    pairs = {"activations": (packed.matmul(x, form.kernel, parts), exact), "bits": (exact, x @ weight.T)}
    return {name: round(float((found - true).norm() / true.norm()), 5) for name, (found, true) in pairs.items()}


def packing_rate(form: Format, weight: Tensor, repeats: int) -> dict[str, float]:
    """Million weights a second of processor time that are packed from bfloat16, by `pack` and by array operations."""
    narrow, found = weight.bfloat16(), {}
    works: dict[str, Callable[[], object]] = {
        "pack": partial(pack, narrow, form),
        "arrays": partial(form.quantize, narrow),
    }
    for name, work in works.items():
        times = []
        for _ in range(repeats):
            begin = time.process_time()
            work()
            times.append(time.process_time() - begin)
        found[name] = round(1e-6 * weight.numel() / min(times), 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1,4,16,64,256")
    parser.add_argument("--size", type=int, default=2816)
    parser.add_argument("--matrices", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    weights = [0.02 * torch.randn(options.size, options.size) for _ in range(options.matrices)]
    rows = [int(count) for count in options.rows.split(",")]
    whole: dict[str, list[Way]] = {"whole fp32": [partial(linear, weight=weight) for weight in weights]}
    found: dict[str, Any] = {"best_dot": best_dot(), "errors": {}, "packing": {}, "ms": {}}
    table = Table("format", "way", *(f"{count} rows" for count in rows))
    with torch.inference_mode():
        for label, form in FORMS.items():
            found["errors"][label] = errors(form, weights[0], torch.randn(64, options.size))
            found["packing"][label] = packing_rate(form, weights[0], options.repeats)
            candidates = ways(form, weights) | whole
            times = [best_ms(candidates, torch.randn(count, options.size), options.repeats) for count in rows]
            for name in candidates:
                found["ms"][f"{label} {name}"] = [round(time_[name], 3) for time_ in times]
                shown = (
                    f"{time_[name]:.2f} ms, {2e-6 * count * options.size**2 / time_[name]:.0f} GFLOP/s"
                    for count, time_ in zip(rows, times, strict=True)
                )
                table.add_row(label, name, *shown)
    Console(stderr=True, width=150).print(table)
    print(json.dumps({"benchmark": "packed", "rows": rows, "size": options.size, "threads": options.threads, **found}))


if __name__ == "__main__":
    main()
