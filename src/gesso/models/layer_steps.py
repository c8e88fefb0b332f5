"""Lists what a layer computes as compiled steps: on a CPU, over weights that kernels read.

Between the products of a layer stand some twenty small operations, each of which takes longer to be called from Python
than to compute. Here all of them write to memory of their own, and their addresses are listed once. It is to a CPU what
a CUDA graph is to a GPU. Steps are the kernels that the layers' `forward` calls, in its order, and give its bits.

    M rows   D hidden   H query heads   G key heads   K head size   F expert width   E experts, of which k are chosen
"""

from array import array
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from gesso.kernels.host.row_jobs import float_bits
from gesso.kernels.host.threads import product_threads
from gesso.models.block import Block
from gesso.nn.attention import Attention
from gesso.nn.experts import Experts, Router
from gesso.nn.linear import Linear
from gesso.nn.mlp import MLP
from gesso.nn.norm import RMSNorm
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear

PLAIN = (Block, Attention, MLP, Router, RMSNorm, Linear, Experts, QuantizedLinear, QuantizedExperts)
"""What a layer may be made of; another kind of module, an adapter's say, computes something else."""
WHOLE = 16
"""Features that kernels take at a time."""


class LayerSteps:
    """Holds a list of steps over M rows, and the memory that they write to, which layers share."""

    def __init__(self, rows: int) -> None:
        self.rows, self.threads = rows, product_threads()
        self.steps = array("q")
        self._held = list[object]()
        self._rooms = dict[tuple[torch.dtype, tuple[int, ...]], list[Tensor]]()
        self._taken = dict[tuple[torch.dtype, tuple[int, ...]], int]()

    def __len__(self) -> int:
        return len(self.steps) // 4

    def run(self, begin: int, end: int) -> None:
        """Does steps `begin` to before `end`."""
        from gesso.kernels.host.threads import run_steps

        run_steps(self.steps.buffer_info()[0] + 32 * begin, end - begin, self.threads)

    def begin_layer(self) -> None:
        """Has what is listed from here on overwrite what the layers before wrote."""
        self._taken.clear()

    def room(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Returns memory that steps write to, of zeros at first, and that no step of this layer has."""
        made = self._rooms.setdefault((dtype, shape), [])
        number = self._taken[dtype, shape] = self._taken.get((dtype, shape), 0) + 1
        if number > len(made):
            made.append(torch.zeros(shape, dtype=dtype, device="cpu"))
        return made[number - 1]

    def list_before_attention(
        self, block: Block, x_MD: Tensor, angles: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Lists a layer up to its attention; returns where q [M, H, K], k and v [M, G, K] are.

        Args:
            angles: cos and sin, [M, K] each.
        """
        from gesso.kernels.host.library import norms

        kernels, (rows, size), attention = norms(), x_MD.shape, block.attention
        normed, before = self.room(rows, size), cast("Tensor", block.input_norm.weight)
        self.call(kernels.norm, (x_MD, before, normed, 0, rows, size), block.input_norm.eps)
        own = (attention.q_proj, attention.k_proj, *(() if attention.v_proj is None else (attention.v_proj,)))
        width, eps = attention.head_dim, attention.eps
        q, k, *rest = (made.view(rows, -1, width) for made in self._multiply(normed, own))
        v = rest[0] if rest else k
        turned_q, turned_k, normed_v = (self.room(*each.shape) for each in (q, k, v))
        for source, norm, target in ((q, attention.q_norm, turned_q), (k, attention.k_norm, turned_k)):
            weight, heads = cast("Tensor", norm.weight), source.shape[1]
            self.call(kernels.turn_heads, (source, weight, *angles, target, 0, rows * heads, width, heads), eps)
        heads = v.shape[1]
        self.call(kernels.norm_heads, (v, 0, 0, 0, normed_v, 0, rows * heads, width, heads), eps)
        return turned_q, turned_k, normed_v

    def list_behind_attention(self, block: Block, x_MD: Tensor, attended_MN: Tensor) -> "array[int]":
        """Lists a layer from its attention on, whose output comes in the place of `x_MD`; returns the words whose last
        is the layer's factor."""
        from gesso.kernels.host.library import norms

        kernels, eps, router = norms(), block.input_norm.eps, block.router
        rows, size = x_MD.shape
        _, after, to_mlp, to_experts, of_mlp, of_experts, last = (cast("Tensor", n.weight) for n in block.norms())
        (attended,) = self._multiply(attended_MN, (block.attention.o_proj,))
        total, for_mlp, for_experts, for_router = (self.room(rows, size) for _ in range(4))
        tensors = (x_MD, attended, after, total, to_mlp, to_experts, router.scale, for_mlp, for_experts, for_router)
        self.call(kernels.add_norm, (*tensors, 0, rows, size), eps, router.root)
        gate, up = self._multiply(for_mlp, (block.mlp.gate_proj, block.mlp.up_proj))
        width = gate.shape[1]
        gated = self.room(rows, width)
        self.call(kernels.gated, (gate, up, gated, 0, rows, width, width))
        (dense,) = self._multiply(gated, (block.mlp.down_proj,))
        routed = (self._list_few_experts if rows == 1 else self._list_experts)(block, for_router, for_experts)
        branches = (total, dense, of_mlp, routed, of_experts, last, x_MD)
        return self.call(kernels.add_branches, (*branches, 0, rows, size), eps, 1.0)

    def _choose(self, router: Router, for_router: Tensor) -> tuple[Tensor, Tensor]:
        """Lists the choice of experts; returns where weights and numbers are, [M, k] each."""
        from gesso.kernels.host.library import norms

        (scores,) = self._multiply(for_router, (router.proj,))
        rows, count = self.rows, router.top_k
        weights, chosen = self.room(rows, count), self.room(rows, count, dtype=torch.int64)
        places: tuple[Tensor, ...] = (scores, router.per_expert_scale, weights, chosen)
        self.call(norms().choose, (*places, 0, rows, scores.shape[1], count))
        return weights, chosen

    def _list_few_experts(self, block: Block, for_router: Tensor, x_1D: Tensor) -> Tensor:
        """Lists the experts of a single row, each of which multiplies it by itself."""
        from gesso.kernels.host.library import norms
        from gesso.kernels.host.step_kernels import step_kernels

        kernels, experts, count = norms(), block.experts, block.router.top_k
        weights, chosen = self._choose(block.router, for_router)
        first, second = (array("q", [0, 1, 0, 0] * count) for _ in range(2))
        self.call(step_kernels().list_pieces, (chosen, first.buffer_info()[0], second.buffer_info()[0], count))
        (both,), _ = self._product(x_1D, [experts.parts("gate_up")], experts.kernel, first, count)
        gated = self._gate(both)
        (out,), _ = self._product(gated, [experts.parts("down")], experts.kernel, second, count)
        mixed = self.room(1, out.shape[1])
        self.call(kernels.mix_rows, (out, weights, mixed, 0, 1, out.shape[1], count))
        return mixed

    def _list_experts(self, block: Block, for_router: Tensor, x_MD: Tensor) -> Tensor:
        """Lists the experts of many rows, which are laid side by side by expert."""
        from gesso.kernels.host.activations import GROUP
        from gesso.kernels.host.expert_groups import COUNTED, LARGEST
        from gesso.kernels.host.library import best_dot, norms
        from gesso.kernels.host.packed import layout, way_to_multiply
        from gesso.kernels.host.pieces import is_tiled, sizes_of
        from gesso.kernels.host.step_kernels import step_kernels

        experts, (rows, size) = block.experts, x_MD.shape
        weights, chosen = self._choose(block.router, for_router)
        choices, each = chosen.numel(), chosen.shape[1]
        found = layout(experts.kernel, experts.parts("gate_up"))
        assert found is not None
        dot = way_to_multiply(found, best_dot())
        taken = sizes_of(found, dot)
        sizes = array("q", [0, *(max(s for s in taken if s <= left) for left in range(1, LARGEST + 1))])
        # Each expert has fewer than four pieces that are not the largest.
        pieces = array("q", bytes(32 * min(choices, choices // taken[0] + 3 * experts.num_experts)))
        counted, nowhere = array("q", bytes(8 * COUNTED)), array("q", [0])
        laid, slots = self.room(choices, size), self.room(choices, dtype=torch.int64)
        begins = self.room(experts.num_experts + 1, dtype=torch.int64)
        self._held += sizes, counted, nowhere
        lists = pieces.buffer_info()[0], sizes.buffer_info()[0], begins, counted.buffer_info()[0]
        numbers = (choices, each, experts.num_experts, 4 * size, GROUP if is_tiled(found) else 0)
        self.call(step_kernels().group_rows, (chosen, x_MD, laid, slots, *lists, *numbers))
        (both,), first = self._product(laid, [experts.parts("gate_up")], experts.kernel, pieces, choices)
        gated = self._gate(both)
        (out,), second = self._product(gated, [experts.parts("down")], experts.kernel, pieces, choices)
        told = [*first, *second]
        counted[:] = array("q", told + [nowhere.buffer_info()[0]] * (COUNTED - len(told)))
        mixed = self.room(rows, size)
        self.call(norms().mix_placed, (out, weights, slots, mixed, 0, rows, size, each))
        return mixed

    def _gate(self, both: Tensor) -> Tensor:
        """Lists the gated units of experts' rows, [n, 2F] -> [n, F]."""
        from gesso.kernels.host.library import norms

        rows, width = both.shape[0], both.shape[1] // 2
        gated = self.room(rows, width)
        self.call(norms().gated, (both, both[:, width:], gated, 0, rows, width, 2 * width))
        return gated

    def _multiply(self, x_MD: Tensor, layers: Sequence[nn.Module]) -> list[Tensor]:
        """Lists the product of rows by layers of one format; returns what comes out, [M, N] each."""
        from gesso.kernels.host.library import best_dot
        from gesso.kernels.host.packed import layout, pieces_of, way_to_multiply

        alike = cast("Sequence[Linear | QuantizedLinear]", layers)
        matrices, name = [layer.packed for layer in alike], alike[0].kernel
        found = layout(name, matrices[0])
        assert found is not None
        pieces = pieces_of((self.rows,), found, way_to_multiply(found, best_dot()))
        return self._product(x_MD, matrices, name, pieces, self.rows)[0]

    def _product(
        self, x_MD: Tensor, matrices: Sequence[Sequence[Tensor]], name: str, pieces: "array[int]", rows: int
    ) -> tuple[list[Tensor], list[int]]:
        """Lists that rows are rounded and multiplied as `packed.multiply` does it; returns what comes out, [rows, N]
        each, and the addresses where the number of pieces stands."""
        from gesso.kernels.host.activations import BLOCK
        from gesso.kernels.host.calls import SHARED
        from gesso.kernels.host.library import kernels, team
        from gesso.kernels.host.packed import job_of, layout, room_of, room_to_round, shares

        found, counted = layout(name, matrices[0]), list[int]()
        assert found is not None
        by_pieces = self.rows > 1  # pieces of a single row do not have rows of their own
        rounded = room_to_round(x_MD, found, None, pieces if by_pieces else None)
        if rounded.held is not x_MD:
            count, blocks = x_MD.shape[0], x_MD.shape[1] // BLOCK
            compiled = kernels(found, rounded.dot)
            kernel = compiled.round_pieces if by_pieces else compiled.round_rows
            assert kernel is not None
            if by_pieces:
                number = len(pieces) // 4
                listed = self.call(kernel, (x_MD, blocks, 0, number, *rounded.places, pieces.buffer_info()[0], 0))
                counted.append(listed.buffer_info()[0] + 8 * 4)
            else:
                self.call(kernel, (x_MD, blocks, 0, count, *rounded.places))
        made = [self.room(rows, parts[0].shape[-2]) for parts in matrices]
        scratch = self.room(self.threads * room_of(rounded))
        words, units = job_of(rounded, matrices, made, pieces, scratch.data_ptr())
        counted.append(words.buffer_info()[0] + 8 * SHARED.index("count"))
        self._held += rounded.held, pieces
        self.step(team().multiply_all.address, words, units, shared=shares(rounded, made))
        return made, counted

    def call(self, function: Callable[..., None], wholes: Sequence[Tensor | int], *floats: float) -> "array[int]":
        """Lists that a compiled function is called; returns its words: its address, then what it is given."""
        from gesso.kernels.host.step_kernels import step_kernels
        from gesso.kernels.host.threads import address_of

        given = [each.data_ptr() if isinstance(each, Tensor) else each for each in wholes]
        words = array("q", (address_of(function), *given, *map(float_bits, floats)))
        self.step(step_kernels().calls[len(given), len(floats)], words, 1, shared=False)
        return words

    def step(self, work: int, words: "array[int]", units: int, *, shared: bool) -> None:
        """Lists a step (see `kernels.host.steps`)."""
        self._held.append(words)
        self.steps.extend((work, words.buffer_info()[0], units, shared))


def can_list(block: Block) -> bool:
    """Says whether kernels compute all of a layer but its attention, on the CPU and in fp32, as its own `forward`
    would."""
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
    return all(each % WHOLE == 0 for each in (size, gate_up // 2, width, mlp.down_proj.in_features, attention.head_dim))


def _are_alike(layers: Sequence[nn.Module]) -> bool:
    """Says whether kernels multiply by all of these at once."""
    alike = cast("Sequence[Linear | QuantizedLinear]", layers)
    first = alike[0]
    same = all(type(layer) is type(first) and layer.bias is None and layer.read_by_kernels() for layer in alike)
    return same and all(not isinstance(layer, QuantizedLinear) or layer.form == first.form for layer in alike)
