"""Compiles modules of LLVM's intermediate representation for the processor at hand."""

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import llvmlite
import torch
from llvmlite import binding, ir

from gesso.kernels.host import object_cache

POINTER, WHOLE, FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
"""What kernels take: addresses, whole numbers of 64 bits, floats of 32."""
_KEPT: list[Any] = []
"""The owners of all code that was compiled. Who calls it holds an address and nothing else, so it is never given up,
also where two threads compile the same at once and only one of both is remembered."""


@functools.cache
def features() -> dict[str, bool]:
    """Returns what the processor's instruction set has, by LLVM's names.

    Where PyTorch was told to do without AVX-512 (`ATEN_CPU_CAPABILITY=avx2`), kernels do, too.
    """
    known = dict(binding.get_host_cpu_features())
    if torch.backends.cpu.get_cpu_capability() == "AVX512":
        return known
    return {name: has and not name.startswith("avx512") for name, has in known.items()}


def compile_arrays(module: ir.Module, arguments: dict[str, tuple[int, int, int]]) -> dict[str, Callable[..., None]]:
    """Compiles kernels that take so many arrays, then so many whole numbers, then so many floats."""
    return callables(compile_module(module), arguments)


def callables(
    address: Callable[[str], int], arguments: dict[str, tuple[int, int, int]]
) -> dict[str, Callable[..., None]]:
    """Makes functions of compiled kernels, as `compile_arrays` does."""
    return {
        name: ctypes.CFUNCTYPE(None, *[POINTER] * pointers, *[WHOLE] * wholes, *[FLOAT] * floats)(address(name))
        for name, (pointers, wholes, floats) in arguments.items()
    }


def compile_module(module: ir.Module) -> Callable[[str], int]:
    """Compiles a module, or reads what was compiled of it before (`object_cache`).

    Returns what tells the addresses of its functions, where they stay as long as the process.
    """
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module.triple = binding.get_default_triple()
    text, processor = str(module), binding.get_host_cpu_name()
    instructions = ",".join(f"{'+' if has else '-'}{name}" for name, has in features().items())
    target = binding.Target.from_default_triple().create_target_machine(
        cpu=processor, features=instructions, opt=3, jit=True
    )
    name = object_cache.name_of(text, processor, instructions, llvmlite.__version__, str(binding.llvm_version_info))
    compiled = object_cache.read(name)
    if compiled is None:
        engine = binding.create_mcjit_compiler(_optimised(text, target), target)
        engine.set_object_cache(lambda _, made: object_cache.keep(name, made))
    else:
        engine = binding.create_mcjit_compiler(binding.parse_assembly(""), target)
        engine.add_object_file(binding.ObjectFileRef.from_data(compiled))
    engine.finalize_object()
    _KEPT.append(engine)
    address: Callable[[str], int] = engine.get_function_address
    return address


def _optimised(text: str, target: Any) -> Any:
    code = binding.parse_assembly(text)
    code.verify()
    passes = binding.create_pass_builder(target, binding.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(code, passes)
    return code
