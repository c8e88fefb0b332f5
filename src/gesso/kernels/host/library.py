"""Compiles the kernels for the processor at hand, once in a process: in one to three seconds for each format."""

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import binding, ir

from gesso.kernels.host import amx
from gesso.kernels.host.activations import write_turn_rows
from gesso.kernels.host.bfloat16_products import write_products, write_turned_products
from gesso.kernels.host.bfloat16_slabs import NARROW_TILES, WIDE_TILES
from gesso.kernels.host.calls import write_call_rows, write_multiply_all, write_take_units
from gesso.kernels.host.choices import write_choose
from gesso.kernels.host.compilation import POINTER, WHOLE, compile_arrays, compile_module, features
from gesso.kernels.host.compositions import (
    write_ask,
    write_compose,
    write_descend,
    write_gather,
    write_keep,
    write_land,
    write_spell,
)
from gesso.kernels.host.dots import Dot
from gesso.kernels.host.float_products import write_multiply_floats
from gesso.kernels.host.gated import write_gated_forward
from gesso.kernels.host.layouts import LAYOUTS
from gesso.kernels.host.norms import (
    write_add_branches,
    write_add_norm,
    write_mix_rows,
    write_norm,
    write_norm_heads,
)
from gesso.kernels.host.one_query import write_attend
from gesso.kernels.host.online_softmax import write_online_softmax
from gesso.kernels.host.packing import write_pack_int4, write_pack_int8
from gesso.kernels.host.pair_lists import write_count, write_distinct, write_fill, write_reach, write_sort, write_sums
from gesso.kernels.host.pairings import write_pair
from gesso.kernels.host.pieces import float_tiles, is_tiled
from gesso.kernels.host.refinements import write_alike, write_heights, write_mix, write_refine, write_relabel
from gesso.kernels.host.scans import write_behind, write_best, write_shares
from gesso.kernels.host.sha256 import write_sha256
from gesso.kernels.host.subsets import write_settle, write_subsets
from gesso.kernels.host.team import write_team
from gesso.kernels.host.threads import Work, work_of
from gesso.kernels.host.tile_products import write_multiply_tiles
from gesso.kernels.host.tile_rows import FEW


@dataclass(frozen=True, slots=True)
class Kernels:
    """Holds one format's compiled kernels, which let other threads run while they do."""

    multiply: int
    """The address of `tile_products.write_multiply_tiles`'s kernel, which `calls` calls."""
    round_rows: Callable[..., None] | None = None
    """None where activations are not rounded."""
    round_pieces: Callable[..., None] | None = None
    """Gives each piece a group of its own, of rows that are told where they differ from those that come out."""


@functools.cache
def best_dot() -> Dot:
    """Returns the best way that the processor has to multiply bytes."""
    known = features()
    if amx.available():
        return "amx"
    if known.get("avx512vnni") and known.get("avx512bw") and known.get("avx512vl"):
        return "vnni512"
    if known.get("avxvnni"):
        return "vnni256"
    return "avx2" if known.get("avx2") and known.get("fma") else "plain"


@functools.cache
def kernels(name: str, kind: Dot) -> Kernels:
    """Compiles the kernels that multiply by a format of `LAYOUTS`."""
    layout = LAYOUTS[name]
    module = ir.Module(f"gesso_{name}_{kind}")
    if not is_tiled(name):
        write_multiply_floats(module, "multiply", layout, float_tiles(name, kind))
        return Kernels(compile_module(module)("multiply"))
    if kind == "amx":
        amx.available()  # asks the system for its registers
    write_turn_rows(module, "round_rows", layout.parts, layout.halves, FEW[0])
    write_multiply_tiles(module, "multiply", layout, kind)
    address = compile_module(module)
    return Kernels(
        address("multiply"),
        ctypes.CFUNCTYPE(None, POINTER, *[WHOLE] * 3, *[POINTER] * 3)(address("round_rows")),
        ctypes.CFUNCTYPE(None, POINTER, *[WHOLE] * 3, *[POINTER] * 5)(address("round_rows_pieces")),
    )


@dataclass(frozen=True, slots=True)
class Team:
    """Holds the compiled kernels by which threads share a job (see `team`), and the job that is done so."""

    share: Callable[..., int]
    finish: Callable[..., int]
    wait: Callable[..., int]
    serve: Callable[..., None]
    take_units: int
    """The address of `calls.write_take_units`'s kernel."""
    multiply_all: Work


@functools.cache
def team() -> Team:
    """Compiles the kernels of `team` and `calls`."""
    module = ir.Module("gesso_team")
    module.triple = binding.get_default_triple()
    write_team(module)
    write_multiply_all(module, "multiply_all")
    write_take_units(module, "take_units")
    address = compile_module(module)
    kinds = {
        "share": ctypes.CFUNCTYPE(WHOLE, POINTER, *[WHOLE] * 6),
        "finish": ctypes.CFUNCTYPE(WHOLE, POINTER),
        "wait": ctypes.CFUNCTYPE(WHOLE, POINTER),
        "serve": ctypes.CFUNCTYPE(None, POINTER, WHOLE, WHOLE, ctypes.c_int32, WHOLE),
        "multiply_all": ctypes.CFUNCTYPE(None, POINTER, *[WHOLE] * 3),
    }
    made = {name: kind(address(name)) for name, kind in kinds.items()}
    multiply_all = work_of(made.pop("multiply_all"))
    return Team(**made, take_units=address("take_units"), multiply_all=multiply_all)


@functools.cache
def row_caller(pointers: int, wholes: int, floats: int) -> Work:
    """Compiles the kernel by which threads share the rows of one that takes so many arguments."""
    module = ir.Module(f"gesso_rows_{pointers}_{wholes}_{floats}")
    write_call_rows(module, "call", pointers, wholes, floats)
    return work_of(ctypes.CFUNCTYPE(None, POINTER, *[WHOLE] * 3)(compile_module(module)("call")))


@dataclass(frozen=True, slots=True)
class Norms:
    """Holds the compiled kernels of what stands between a layer's products: `norms`, `choices`, `one_query`, and the
    forward one of `gated`."""

    norm: Callable[..., None]
    add_norm: Callable[..., None]
    add_branches: Callable[..., None]
    turn_heads: Callable[..., None]
    norm_heads: Callable[..., None]
    mix_rows: Callable[..., None]
    mix_placed: Callable[..., None]
    choose: Callable[..., None]
    gated: Callable[..., None]
    attend: Work


@functools.cache
def norms() -> Norms:
    """Compiles the kernels of what stands between a layer's products."""
    module = ir.Module("gesso_norms")
    write_norm(module, "norm")
    write_add_norm(module, "add_norm")
    write_add_branches(module, "add_branches")
    write_norm_heads(module, "turn_heads", turned=True)
    write_norm_heads(module, "norm_heads", turned=False)
    write_mix_rows(module, "mix_rows", placed=False)
    write_mix_rows(module, "mix_placed", placed=True)
    write_choose(module, "choose")
    write_gated_forward(module, "gated")
    write_attend(module, "attend")
    sizes = {
        "attend": (1, 3, 0),
        "choose": (4, 4, 0),
        "gated": (3, 4, 0),
        "mix_rows": (3, 4, 0),
        "mix_placed": (4, 4, 0),
        "norm": (3, 3, 1),
        "add_norm": (10, 3, 2),
        "add_branches": (7, 3, 2),
    }
    sizes |= {"turn_heads": (5, 4, 1), "norm_heads": (5, 4, 1)}
    made = compile_arrays(module, sizes)
    attend = work_of(made.pop("attend"))
    return Norms(**made, attend=attend)


@functools.cache
def online_softmax_kernel(*, capped: bool) -> Work:
    """Compiles the kernel of the vocabulary's softmax."""
    module = ir.Module(f"gesso_online_softmax_{capped}")
    write_online_softmax(module, "add", capped=capped)
    return work_of(ctypes.CFUNCTYPE(None, POINTER, *[WHOLE] * 3)(compile_module(module)("add")))


@functools.cache
def packer(bits: int, group_size: int, half: bool) -> Callable[..., None]:
    """Compiles the kernel that packs weights, from bfloat16 or float32."""
    module = ir.Module(f"gesso_pack_{bits}_{group_size}_{half}")
    if bits == 4:
        write_pack_int4(module, "pack", group_size, half=half)
    else:
        write_pack_int8(module, "pack", half=half)
    prototype = ctypes.CFUNCTYPE(None, POINTER, *[WHOLE] * 3, *[POINTER] * 4)
    return prototype(compile_module(module)("pack"))


@functools.cache
def sha256_kernel() -> Callable[..., None]:
    """Compiles the kernel that sums up blocks of bytes."""
    module = ir.Module("gesso_sha256")
    write_sha256(module, "take")
    return ctypes.CFUNCTYPE(None, POINTER, POINTER, WHOLE)(compile_module(module)("take"))


@functools.cache
def bfloat16_kernel(turned: bool) -> int:
    """Compiles a kernel of `bfloat16_products`, in 0.4 s; returns its address."""
    module = ir.Module(f"gesso_bfloat16_{turned:d}")
    tiles = WIDE_TILES if features().get("avx512f") else NARROW_TILES
    (write_turned_products if turned else write_products)(module, "multiply", tiles)
    return compile_module(module)("multiply")


@dataclass(frozen=True, slots=True)
class Scans:
    """Holds the compiled kernels that run over the positions of a canvas (see `scans`)."""

    best: Callable[..., None]
    behind: Callable[..., None]
    shares: Callable[..., None]


@functools.cache
def scans() -> Scans:
    """Compiles the kernels of `scans`."""
    module = ir.Module("gesso_scans")
    writers = {"best": (write_best, 5, 3), "behind": (write_behind, 6, 4), "shares": (write_shares, 9, 4)}
    for name, (write, _, _) in writers.items():
        write(module, name)
    return Scans(
        **compile_arrays(module, {name: (pointers, sizes, 0) for name, (_, pointers, sizes) in writers.items()})
    )


@dataclass(frozen=True, slots=True)
class Compositions:
    """Holds the compiled kernels that make automata (see `compositions`, `pair_lists`, `pairings`, `refinements`
    and `subsets`)."""

    descend: Callable[..., None]
    land: Callable[..., None]
    compose: Callable[..., None]
    ask: Callable[..., None]
    gather: Callable[..., None]
    spell: Callable[..., None]
    keep: Callable[..., None]
    count: Callable[..., None]
    sort: Callable[..., None]
    distinct: Callable[..., None]
    reach: Callable[..., None]
    heights: Callable[..., None]
    mix: Callable[..., None]
    relabel: Callable[..., None]
    refine: Callable[..., None]
    pair: Callable[..., None]
    subsets: Callable[..., None]
    alike: Callable[..., None]
    sums: Callable[..., None]
    fill: Callable[..., None]


@functools.cache
def compositions() -> Compositions:
    """Compiles the kernels of `compositions`, `pair_lists`, `pairings`, `refinements` and `subsets`."""
    module = ir.Module("gesso_compositions")
    writers = {
        "descend": (write_descend, 8, 2), "land": (write_land, 3, 1), "compose": (write_compose, 12, 3),
        "ask": (write_ask, 7, 2), "gather": (write_gather, 9, 2), "spell": (write_spell, 7, 1),
        "keep": (write_keep, 9, 1), "count": (write_count, 4, 1), "sort": (write_sort, 6, 1),
        "distinct": (write_distinct, 4, 1), "reach": (write_reach, 5, 2), "sums": (write_sums, 10, 1),
        "fill": (write_fill, 10, 2), "heights": (write_heights, 5, 1), "mix": (write_mix, 6, 2),
        "relabel": (write_relabel, 5, 2), "refine": (write_refine, 11, 5),
        "pair": (write_pair, 5, 3), "subsets": (write_subsets, 19, 7),
        "alike": (write_alike, 5, 3),
    }  # fmt: skip
    write_settle(module, "settle")
    for name, (write, _, _) in writers.items():
        write(module, name)
    return Compositions(
        **compile_arrays(module, {name: (pointers, sizes, 0) for name, (_, pointers, sizes) in writers.items()})
    )
