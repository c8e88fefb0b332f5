"""Compiles the kernels for the processor at hand, once in a process: a quarter of a second for each format."""

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import binding, ir

from gesso.kernels.host.activations import write_round_rows
from gesso.kernels.host.dots import Dot
from gesso.kernels.host.layouts import LAYOUTS
from gesso.kernels.host.products import write_multiply

_POINTER, _WHOLE = ctypes.c_void_p, ctypes.c_int64


@dataclass(frozen=True, slots=True)
class Kernels:
    """Holds one format's compiled kernels, which let other threads run while they do."""

    round_rows: Callable[..., None]
    multiply: Callable[..., None]
    engine: Any
    """Owns the code."""


@functools.cache
def features() -> dict[str, bool]:
    """Returns what the processor's instruction set has, by LLVM's names."""
    return dict(binding.get_host_cpu_features())


def best_dot() -> Dot:
    """Returns the best way that the processor has to multiply bytes."""
    known = features()
    if known.get("avx512vnni") and known.get("avx512bw") and known.get("avx512vl"):
        return "vnni512"
    if known.get("avxvnni"):
        return "vnni256"
    return "avx2" if known.get("avx2") and known.get("fma") else "plain"


@functools.cache
def kernels(name: str, kind: Dot) -> Kernels:
    """Compiles the kernels of a format of `LAYOUTS`."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    layout = LAYOUTS[name]
    module = ir.Module(f"gesso_{name}_{kind}")
    module.triple = binding.get_default_triple()
    write_round_rows(module, "round_rows", shifted=layout.signed)
    write_multiply(module, "multiply", layout, kind)
    code = binding.parse_assembly(str(module))
    code.verify()
    target = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten(), opt=3, jit=True
    )
    passes = binding.create_pass_builder(target, binding.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(code, passes)
    engine = binding.create_mcjit_compiler(code, target)
    engine.finalize_object()
    prototypes = {
        "round_rows": ctypes.CFUNCTYPE(None, _POINTER, *[_WHOLE] * 3, *[_POINTER] * 3),
        "multiply": ctypes.CFUNCTYPE(None, *[_POINTER] * 9, *[_WHOLE] * 5),
    }
    round_rows, multiply = (prototype(engine.get_function_address(name)) for name, prototype in prototypes.items())
    return Kernels(round_rows, multiply, engine)
