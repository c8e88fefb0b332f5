"""Times the kernel of packed weights by the size of its programs, at the sizes of the published 26B shape.

    python benchmarks/gpu/tiles.py [--formats int4,fp8] [--rows 256] [--processes 8] [--json]

For both products of experts (top 8 of 128) and for a linear layer, in several formats: rows of a tile, bytes of a
weight's row that are loaded at a time, columns of a tile, warps and loads under way. The first of each is what
`gesso.kernels.packed` takes, and the others must compute the same. Compiling takes longer than timing, so several
processes do that first. The last line is one line of JSON; the exit code is 1 where a result differs, 2 where there is
no GPU.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from gesso.bench.machine import describe_machine
from gesso.nn.quant.base import Format
from gesso.nn.quant.fp8 import FP8
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.nf4 import NF4, levels_on
from gesso.nn.quant.nvfp4 import NVFP4
from gpu._measuring import distance, milliseconds

FORMS: dict[str, Format] = {form.kernel: form for form in (Int8(), FP8(), Int4(), NF4(), NVFP4())}
EXPERTS, TOP_K, WIDTH, INNER, COLUMNS = 128, 8, 2816, 704, 4096
NEAR = 0.01


class Program(NamedTuple):
    """Describes the size of a program; None is what the kernel takes by itself."""

    tile: int | None = None
    depth: int | None = None
    columns: int = 64
    warps: int = 4
    stages: int | None = None


_EXPERTS = (
    Program(),
    Program(16), Program(64), Program(32, 32), Program(32, 64), Program(16, 128),
    Program(32, 64, 128), Program(32, 64, 128, 8), Program(32, 128, 128), Program(32, 128, 128, 8),
    Program(32, 64, stages=2), Program(32, 64, stages=4), Program(32, 128, stages=2), Program(32, 128, stages=3),
    Program(32, 128, 128, stages=2), Program(16, 64, 128), Program(16, 128, 128, stages=2), Program(32, 64, 32),
    Program(32, 128, 32, stages=2),
)  # fmt: skip
PROGRAMS = {
    "gate_up": _EXPERTS,
    "down": _EXPERTS,
    "linear": (
        Program(),
        Program(32), Program(128), Program(128, 64, 64, 8), Program(256, 32, 64, 8), Program(64, 64),
        Program(64, 64, 128, 8), Program(128, 64, 128, 8), Program(64, 64, 64, 8), Program(32, 64, 64, 4, 4),
        Program(64, 64, stages=2), Program(64, 64, stages=4), Program(64, 128, stages=2), Program(128, 32, 128, 8),
        Program(64, 128, 128), Program(64, 128, 32, stages=2),
    ),
}  # fmt: skip


@contextmanager
def programs_of(size: Program) -> Iterator[None]:
    """Has the kernel started with programs of a size."""
    from gesso.kernels import packed  # Triton is not everywhere

    taken = packed.blocks

    def blocks(*arguments: int) -> tuple[int, int, int]:
        tile, depth, stages = taken(*arguments)
        return size.tile or tile, size.depth or depth, size.stages or stages

    changed: dict[str, Any] = {"COLUMN_TILE": size.columns, "WARPS": size.warps}
    with mock.patch.multiple(packed, blocks=blocks, **changed):
        yield


def product(name: str, form: Format, rows: int, device: torch.device) -> Callable[[], Tensor]:
    """Returns what multiplies once, rows that are laid out: one of the two matmuls of all experts, or one of a linear
    layer."""
    from gesso.kernels import packed

    def matmul(x: Tensor, parts: list[Tensor], ends: Tensor | None) -> Callable[[], Tensor]:
        placed = packed.by_place(x, form.kernel, parts)
        return lambda: packed.matmul_placed(placed, form.kernel, parts, ends, levels_on(device, x.dtype))

    generator = torch.Generator(device).manual_seed(0)

    def made(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device=device)

    if name == "linear":
        return matmul(made(rows, WIDTH).bfloat16(), list(form.quantize(0.02 * made(COLUMNS, WIDTH))), None)
    chosen = torch.rand(rows, EXPERTS, generator=generator, device=device).topk(TOP_K).indices
    ends = chosen.flatten().bincount(minlength=EXPERTS).cumsum(0).to(torch.int32)
    columns, width = (2 * INNER, WIDTH) if name == "gate_up" else (WIDTH, INNER)
    experts = [form.quantize(0.02 * made(columns, width)) for _ in range(EXPERTS)]
    packs = [torch.stack(parts) for parts in zip(*experts, strict=True)]
    return matmul(made(rows * TOP_K, width).bfloat16(), packs, ends)


def cases(formats: list[str]) -> list[tuple[str, str, Program]]:
    return [(form, name, size) for form in formats for name, sizes in PROGRAMS.items() for size in sizes]


def compile_all(formats: list[str], rows: int, processes: int) -> None:
    """Compiles every program once, in so many processes; what cannot be compiled fails again where it is timed."""
    own = [sys.executable, __file__, "--formats", ",".join(formats), "--rows", str(rows), "--compile"]
    running = [subprocess.Popen([*own, f"{part}/{processes}"]) for part in range(processes)]
    for process in running:
        process.wait()


@torch.inference_mode()
def compile_part(formats: list[str], rows: int, part: str, device: torch.device) -> None:
    first, step = map(int, part.split("/"))
    made: dict[tuple[str, str], Callable[[], Tensor]] = {}
    for form, name, size in cases(formats)[first::step]:
        if (form, name) not in made:
            made[form, name] = product(name, FORMS[form], rows, device)
        try:
            with programs_of(size):
                made[form, name]()
        except Exception as error:
            print(f"{form} {name} {size}: {type(error).__name__}", file=sys.stderr)


@torch.inference_mode()
def measure(formats: list[str], rows: int, device: torch.device, *, quiet: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    before, expected = ("", ""), torch.empty(0)
    for form, name, size in cases(formats):
        if before != (form, name):
            before, work = (form, name), product(name, FORMS[form], rows, device)
            expected = work()
        told: dict[str, Any] = {"format": form, "of": name, **size._asdict()}
        try:
            with programs_of(size):
                error = distance(work(), expected)
                told |= {"right": error <= NEAR, "ms": milliseconds(work, captured=True)}
        except Exception as error:  # too much shared memory, say
            told["error"] = f"{type(error).__name__}: {str(error)[:80]}"
        found.append(told)
        if not quiet:
            print(*(f"{key}={value}" for key, value in told.items()), sep="  ", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formats", default="int4,fp8")
    parser.add_argument("--rows", type=int, default=256, help="tokens of a pass")
    parser.add_argument("--processes", type=int, default=8, help="processes that compile")
    parser.add_argument("--compile", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="the JSON line alone")
    arguments = parser.parse_args()
    formats = [name for name in arguments.formats.split(",") if name]
    if unknown := [name for name in formats if name not in FORMS]:
        parser.error(f"--formats {unknown[0]!r} does not exist; known: {', '.join(FORMS)}")
    if min(arguments.rows, arguments.processes) < 1:
        parser.error("--rows and --processes must be at least 1")
    if not torch.cuda.is_available():
        print("no CUDA device here: nothing can be measured", file=sys.stderr)
        return 2
    device = torch.device("cuda")
    if arguments.compile:
        compile_part(formats, arguments.rows, arguments.compile, device)
        return 0
    compile_all(formats, arguments.rows, arguments.processes)
    found = measure(formats, arguments.rows, device, quiet=arguments.json)
    print(json.dumps({"benchmark": "gpu tiles", "machine": describe_machine(device), "programs": found}))
    return 0 if all(told.get("right", True) for told in found) else 1


if __name__ == "__main__":
    sys.exit(main())
