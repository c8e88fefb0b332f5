"""Runs the layers for a single token as one list of compiled steps: on a CPU, over weights that kernels read.

Between the products of a token stand some twenty small operations a layer, each of which takes longer to be called from
Python than to compute. Here all of them write to memory of their own, and their addresses are listed once; from token
to token nothing changes but where keys and values go and the angles of the position. It is to a CPU what a CUDA graph
is to a GPU. Steps are the kernels that the layers' `forward` calls, in its order, and give its bits.

    D hidden   H query heads   G key heads   K head size   F expert width   E experts, of which k are chosen
"""

import struct
import sys
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from gesso.config import AttentionKind
from gesso.kernels.host.threads import product_threads
from gesso.models.block import Block
from gesso.models.cache import SequenceCache
from gesso.nn.attention import Attention
from gesso.nn.experts import Experts, Router
from gesso.nn.fused_norms import agree
from gesso.nn.linear import Linear
from gesso.nn.mlp import MLP
from gesso.nn.norm import RMSNorm
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear

PLAIN = (Block, Attention, MLP, Router, RMSNorm, Linear, Experts, QuantizedLinear, QuantizedExperts)
"""What a layer may be made of; another kind of module, an adapter's say, computes something else."""
WHOLE = 16
"""Features that kernels take at a time."""
_BYTES = 4


class _Place(NamedTuple):
    """Holds the words of a layer that change from token to token."""

    scalar: Tensor
    keep: "array[int]"
    attend: "array[int]"
    step: int
    """The number of the step that attends."""
    add: "array[int]"
    groups: int
    width: int


class TokenSteps:
    """Lists the steps of a stack of layers, whose weights stay where they are as long as `serves` says so."""

    def __init__(self, blocks: Iterable[tuple[AttentionKind, Block]]) -> None:
        layers = list(blocks)
        self._seen = _Seen([block for _, block in layers])
        self._threads = product_threads()
        self._lock = threading.Lock()
        self._steps, self._held, self._places = array("q"), list[object](), list[_Place]()
        self.listed: bool = all(_is_plain(block) for _, block in layers) and agree()
        if not self.listed:
            return
        self._angles: dict[AttentionKind, tuple[Tensor, Tensor]] = {}
        with torch.inference_mode(False):  # tensors that passes in any mode may write to
            self._x = out = self._room(*cast("Tensor", layers[0][1].input_norm.weight).shape)
            for kind, block in layers:
                width = block.attention.head_dim
                angles = self._angles.setdefault(kind, (self._room(width), self._room(width)))
                out = self._list_block(block, out, angles)
        self._out = out

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Copies as None: a copy of a model lists its own."""
        return type(None), ()

    def serves(self) -> bool:
        """Says whether layers and threads are those that the steps were listed for."""
        return self._threads == product_threads() and self._seen.is_same()

    def run(self, x_1D: Tensor, rope: dict[AttentionKind, tuple[Tensor, Tensor]], row: SequenceCache) -> Tensor | None:
        """Runs all layers, [1, D], and writes the token's keys and values behind the row's end.

        Returns None, and does nothing, where steps are not all there is, or another thread is at it.
        """
        from gesso.kernels.host.normed import ATTENDED_ALONE
        from gesso.kernels.host.threads import run_steps

        if not self.listed or self._seen.is_observed() or not self._lock.acquire(blocking=False):
            return None
        try:
            self._x.copy_(x_1D[0])
            for kind, own in self._angles.items():
                for angle, given in zip(own, rope[kind], strict=True):
                    angle.copy_(given.view(-1))
            for place, cache in zip(self._places, row.layers, strict=True):
                cache.make_room(1, row.max_seq_len, row.max_write_len)
                apart = cache.kv.shape[2] * place.width
                keys = cache.kv.data_ptr()
                values, count = keys + _BYTES * place.groups * apart, cache.end + 1 - cache.start
                first, last = (_BYTES * place.width * at for at in (cache.start, cache.end))
                place.keep[3:5] = array("q", (keys + last, values + last))
                place.keep[-1] = apart
                place.attend[1:3] = array("q", (keys + first, values + first))
                place.attend[4:6] = array("q", (count, apart))
                self._steps[4 * place.step + 3] = count * place.groups * place.width > ATTENDED_ALONE
                place.add[-1] = _bits(float(place.scalar))
            run_steps(self._steps.buffer_info()[0], len(self._steps) // 4, self._threads)
            return self._out.clone()[None]
        finally:
            self._lock.release()

    def _list_block(self, block: Block, x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        """Lists the steps of a layer; returns where its output is, [D]."""
        from gesso.kernels.host.library import norms

        kernels, eps, router = norms(), block.input_norm.eps, block.router
        before, after, to_mlp, to_experts, of_mlp, of_experts, last = (
            cast("Tensor", norm.weight) for norm in block.norms()
        )
        size = len(x)
        normed = self._room(size)
        self._call(kernels.norm, (x, before, normed, 0, 1, size), eps)
        attended, keep, attend, step = self._list_attention(block.attention, normed, angles)
        total, for_mlp, for_experts, for_router = (self._room(size) for _ in range(4))
        tensors = (x, attended, after, total, to_mlp, to_experts, router.scale, for_mlp, for_experts, for_router)
        self._call(kernels.add_norm, (*tensors, 0, 1, size), eps, router.root)
        gate, up = self._multiply(for_mlp, (block.mlp.gate_proj, block.mlp.up_proj))
        gated = self._room(len(gate))
        self._call(kernels.gated, (gate, up, gated, 0, 1, len(gate), len(gate)))
        (dense,) = self._multiply(gated, (block.mlp.down_proj,))
        routed = self._list_experts(block, for_router, for_experts)
        out = self._room(size)
        branches = (total, dense, of_mlp, routed, of_experts, last, out)
        add = self._call(kernels.add_branches, (*branches, 0, 1, size), eps, 1.0)
        groups, width = keep[5], block.attention.head_dim
        self._places.append(_Place(block.encoder_scalar, keep, attend, step, add, groups, width))
        return out

    def _list_attention(
        self, attention: Attention, x: Tensor, angles: tuple[Tensor, Tensor]
    ) -> "tuple[Tensor, array[int], array[int], int]":
        from gesso.kernels.host.library import norms
        from gesso.kernels.host.step_kernels import step_kernels

        kernels, width, eps = norms(), attention.head_dim, attention.eps
        own = (attention.q_proj, attention.k_proj, *(() if attention.v_proj is None else (attention.v_proj,)))
        q, k, *rest = self._multiply(x, own)
        v = rest[0] if rest else k
        heads, groups = len(q) // width, len(k) // width
        turned_q, turned_k, normed_v = (torch.empty_like(each) for each in (q, k, v))
        self._held += turned_q, turned_k, normed_v
        for source, norm, target in ((q, attention.q_norm, turned_q), (k, attention.k_norm, turned_k)):
            weight, rows = cast("Tensor", norm.weight), len(source) // width
            self._call(kernels.turn_heads, (source, weight, *angles, target, 0, rows, width, rows), eps)
        self._call(kernels.norm_heads, (v, 0, 0, 0, normed_v, 0, groups, width, groups), eps)
        keep = self._call(step_kernels().keep, (turned_k, normed_v, 0, 0, groups, width, 0))
        out = self._room(len(q))
        attend = array("q", (turned_q.data_ptr(), 0, 0, out.data_ptr(), 0, 0, width, heads // groups))
        step = len(self._steps) // 4
        self._step(kernels.attend.address, attend, groups, shared=False)
        (attended,) = self._multiply(out, (attention.o_proj,))
        return attended, keep, attend, step

    def _list_experts(self, block: Block, for_router: Tensor, x: Tensor) -> Tensor:
        from gesso.kernels.host.library import norms
        from gesso.kernels.host.step_kernels import step_kernels

        kernels, router, experts = norms(), block.router, block.experts
        count, (width, _) = router.top_k, experts.shapes[0]
        (scores,), weights = self._multiply(for_router, (router.proj,)), self._room(count)
        chosen = torch.empty(count, dtype=torch.int64, device="cpu")
        self._held.append(chosen)
        self._call(kernels.choose, (scores, router.per_expert_scale, weights, chosen, 0, 1, experts.num_experts, count))
        first, second = (array("q", [0, 1, 0, 0] * count) for _ in range(2))
        lists = (chosen, first.buffer_info()[0], second.buffer_info()[0], count)
        self._call(step_kernels().list_pieces, lists)
        (both,) = self._product(x[None], [experts.parts("gate_up")], experts.kernel, first, count)
        gated = self._room(count, width // 2)
        up = both.data_ptr() + _BYTES * (width // 2)
        self._call(kernels.gated, (both, up, gated, 0, count, width // 2, width))
        (out,) = self._product(gated, [experts.parts("down")], experts.kernel, second, count)
        mixed = self._room(out.shape[1])
        self._call(kernels.mix_rows, (out, weights, mixed, 0, 1, out.shape[1], count))
        return mixed

    def _multiply(self, x_D: Tensor, layers: Sequence[nn.Module]) -> list[Tensor]:
        """Lists the product of a row by layers of one format; returns what comes out, a row each."""
        from gesso.kernels.host.library import best_dot
        from gesso.kernels.host.packed import pieces_of

        alike = cast("Sequence[Linear | QuantizedLinear]", layers)
        matrices, name = [layer.packed for layer in alike], alike[0].kernel
        return [out[0] for out in self._product(x_D[None], matrices, name, pieces_of((1,), best_dot()), 1)]

    def _product(
        self, x_MD: Tensor, matrices: Sequence[Sequence[Tensor]], name: str, pieces: "array[int]", rows: int
    ) -> list[Tensor]:
        """Lists that rows are rounded and multiplied as `packed.multiply` does it; returns what comes out, [rows, N]
        each."""
        from gesso.kernels.host.activations import BLOCK
        from gesso.kernels.host.library import kernels, team
        from gesso.kernels.host.packed import job_of, layout, room_of, room_to_round, shares

        found = layout(name, matrices[0])
        assert found is not None
        rounded = room_to_round(x_MD, found)
        if rounded.held is not x_MD:
            count, blocks = x_MD.shape[0], x_MD.shape[1] // BLOCK
            self._call(kernels(found, rounded.dot).round_rows, (x_MD, blocks, 0, count, *rounded.places))
        made = [self._room(rows, parts[0].shape[-2]) for parts in matrices]
        scratch = self._room(self._threads * room_of(rounded))
        words, units = job_of(rounded, matrices, made, pieces, scratch.data_ptr())
        self._held += rounded.held, pieces
        self._step(team().multiply_all.address, words, units, shared=shares(rounded, made))
        return made

    def _room(self, *shape: int) -> Tensor:
        """Makes memory that steps write to, of fp32."""
        made = torch.zeros(shape, dtype=torch.float32, device="cpu")
        self._held.append(made)
        return made

    def _call(self, function: Callable[..., None], wholes: Sequence[Tensor | int], *floats: float) -> "array[int]":
        """Lists that a compiled function is called; returns its words: its address, then what it is given."""
        from gesso.kernels.host.step_kernels import step_kernels
        from gesso.kernels.host.threads import address_of

        given = [each.data_ptr() if isinstance(each, Tensor) else each for each in wholes]
        words = array("q", (address_of(function), *given, *map(_bits, floats)))
        self._step(step_kernels().calls[len(given), len(floats)], words, 1, shared=False)
        return words

    def _step(self, work: int, words: "array[int]", units: int, *, shared: bool) -> None:
        self._held.append(words)
        self._steps.extend((work, words.buffer_info()[0], units, shared))


def _bits(number: float) -> int:
    """Returns the bits of a number in fp32."""
    return int.from_bytes(struct.pack("=f", number), sys.byteorder)


def _is_plain(block: Block) -> bool:
    """Says whether kernels compute all of a layer, on the CPU and in fp32, as its own `forward` would."""
    if block.mix is not None or any(type(module) not in PLAIN for module in block.modules()):
        return False
    attention, mlp, router, experts = block.attention, block.mlp, block.router, block.experts
    own = [attention.q_proj, attention.k_proj, *(() if attention.v_proj is None else (attention.v_proj,))]
    together = [own, [attention.o_proj], [mlp.gate_proj, mlp.up_proj], [mlp.down_proj], [router.proj]]
    if not experts.read_by_kernels() or not all(map(_are_alike, together)):
        return False
    if any(parameter.dtype != torch.float32 or not parameter.is_cpu for parameter in block.parameters()):
        return False
    (gate_up, size), (_, width) = experts.shapes
    widths = size, gate_up // 2, width, mlp.down_proj.in_features, attention.head_dim
    from gesso.kernels.host.one_query import MOST_SHARED

    shared = attention.q_proj.out_features <= MOST_SHARED * attention.k_proj.out_features
    return shared and all(each % WHOLE == 0 for each in widths)


def _are_alike(layers: Sequence[nn.Module]) -> bool:
    """Says whether kernels multiply by all of these at once."""
    alike = cast("Sequence[Linear | QuantizedLinear]", layers)
    first = alike[0]
    same = all(type(layer) is type(first) and layer.bias is None and layer.read_by_kernels() for layer in alike)
    return same and (type(first) is Linear or all(layer.form == first.form for layer in alike))


class _Seen:
    """Remembers what modules are made of, so that others or other weights in their place are noticed."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        modules = [module for block in blocks for module in block.modules()]
        tables = [
            cast("dict[str, object]", table)
            for module in modules
            for table in (module._modules, module._buffers, module._parameters)
        ]
        self._entries = [(table, name, held) for table in tables for name, held in table.items()]
        self._places = [(held, held.data_ptr()) for _, _, held in self._entries if isinstance(held, Tensor)]
        self._hooks = [hooks for module in modules for hooks in (module._forward_hooks, module._forward_pre_hooks)]
        self._mixes = [(block, block.mix) for block in blocks]

    def is_observed(self) -> bool:
        """Says whether somebody observes a module."""
        return any(self._hooks)

    def is_same(self) -> bool:
        """Says whether all is as it was."""
        return (
            all(table.get(name) is held for table, name, held in self._entries)
            and all(tensor.data_ptr() == place for tensor, place in self._places)
            and all(block.mix is mix for block, mix in self._mixes)
        )
