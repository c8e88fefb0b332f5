"""Computes a mixture of experts with gradients in one step of autograd, on a CPU in fp32; under autocast its rows and
what stands between its products are bfloat16.

Every expert's products are written where they belong: rows, hidden states and gradients of all experts lie in one
tensor each, in tiles. So what stands between the products is one call of a kernel for all experts, and nothing is cut
up, put together or stacked. A token's rows are summed up, and their gradients brought back, without copies of them.

    N tokens   k experts of each   M rows of all tiles   D hidden   F intermediate   E experts
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch import Tensor

from gesso.nn.compiled_training import differentiate_plainly, narrows, serves, serves_narrow
from gesso.nn.norm import autocast_dtype

LayOut = tuple[Tensor, Tensor, list[int]]
"""The row of every (token, choice), [N * k]; the token of every row, [M]; the rows of every expert."""
Plain = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""The mixture by array operations, of what `mix_compiled` is given first."""


def mixes_in_training(x_ND: Tensor, weights_Nk: Tensor, gate_up_EFD: Tensor, down_EDF: Tensor) -> bool:
    """Says whether `mix_compiled` computes these."""
    return (
        gate_up_EFD.shape[1] % 32 == 0
        and (serves(x_ND, gate_up_EFD, down_EDF) or (narrows(x_ND) and serves_narrow(x_ND)))
        and gate_up_EFD.dtype == down_EDF.dtype == torch.float32
        and autocast_dtype("cpu") in (None, torch.bfloat16)
        and type(weights_Nk) is Tensor
        and weights_Nk.dtype == torch.float32
    )


def mix_compiled(
    x_ND: Tensor, weights_Nk: Tensor, gate_up_EFD: Tensor, down_EDF: Tensor, lay_out: LayOut, plain: Plain
) -> Tensor:
    """Sums weight times `down(gelu(gate(x)) * up(x))` over each token's experts, [N, D].

    Args:
        plain: computes the same by array operations, where gradients are differentiated once more.
    """
    inputs = (x_ND, weights_Nk.contiguous(), gate_up_EFD, down_EDF)
    out: Tensor = _Mix.apply(*inputs, *lay_out, plain)  # type: ignore[no-untyped-call]
    return out


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        from gesso.kernels.host import trained

        x_ND, weights_Nk, gate_up_EFD, down_EDF, slots, source, tiles, plain = inputs
        slots_Nk = slots.view(weights_Nk.shape)
        dtype = autocast_dtype("cpu") or x_ND.dtype
        rows_MD = x_ND.to(dtype).index_select(0, source)
        gate_up_MF = rows_MD.new_empty(len(rows_MD), gate_up_EFD.shape[1])
        out_MD = rows_MD.new_empty(rows_MD.shape)
        matrices = gate_up_EFD.to(dtype)
        for expert, tile in _tiles(tiles):
            _multiply(rows_MD[tile], matrices[expert].T, gate_up_MF[tile])
        inner_MF = trained.gated(*gate_up_MF.chunk(2, dim=-1))
        matrices = down_EDF.to(dtype)
        for expert, tile in _tiles(tiles):
            _multiply(inner_MF[tile], matrices[expert].T, out_MD[tile])
        ctx.tiles, ctx.plain = tiles, plain
        ctx.save_for_backward(x_ND, weights_Nk, gate_up_EFD, down_EDF, slots_Nk, rows_MD, gate_up_MF, inner_MF, out_MD)
        return trained.mix(out_MD, slots_Nk, weights_Nk)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, slots_Nk, rows_MD, gate_up_MF, inner_MF, out_MD = ctx.saved_tensors
        if torch.is_grad_enabled():
            plain = ctx.plain

            def widened(x_ND: Tensor, *others: Tensor) -> Tensor:  # autocast, which would narrow the matrices, is over
                return cast("Tensor", plain(x_ND.float(), *others))

            return *differentiate_plainly(widened, inputs, grads), None, None, None, None
        from gesso.kernels.host import trained

        _, weights_Nk, gate_up_EFD, down_EDF = inputs
        to_out_MD, to_weights_Nk = trained.mix_back(grads[0].contiguous(), out_MD, slots_Nk, weights_Nk)
        to_inner_MF, to_down_EDF = _back(inner_MF, to_out_MD, down_EDF, ctx.tiles, wanted=ctx.needs_input_grad[3])
        to_gate_up_MF = torch.empty_like(gate_up_MF)
        trained.gated_back(to_inner_MF, *gate_up_MF.chunk(2, dim=-1), *to_gate_up_MF.chunk(2, dim=-1))
        to_rows_MD, to_gate_up_EFD = _back(
            rows_MD, to_gate_up_MF, gate_up_EFD, ctx.tiles, wanted=ctx.needs_input_grad[2]
        )
        to_x_ND = trained.mix(to_rows_MD, slots_Nk, None)
        return to_x_ND, to_weights_Nk, to_gate_up_EFD, to_down_EDF, None, None, None, None


def _tiles(tiles: list[int]) -> Iterator[tuple[int, slice]]:
    """Yields the number and the rows of every expert that has any."""
    ends = list(itertools.accumulate(tiles, initial=0))
    for expert, (begin, end) in enumerate(itertools.pairwise(ends)):
        if begin < end:
            yield expert, slice(begin, end)


def _back(
    given: Tensor, grad: Tensor, matrices: Tensor, tiles: list[int], *, wanted: bool
) -> tuple[Tensor, Tensor | None]:
    """Returns the gradients of every expert's rows, in their dtype, in which products are, and, where they are wanted,
    of its matrix, in fp32."""
    of_rows = torch.empty_like(given)
    narrowed = matrices.to(given.dtype)
    of_matrices = torch.empty_like(matrices) if wanted else None
    if of_matrices is not None and 0 in tiles:
        of_matrices.zero_()
    for expert, tile in _tiles(tiles):
        _multiply(grad[tile], narrowed[expert], of_rows[tile])
        if of_matrices is not None:
            _multiply(grad[tile].T, given[tile], of_matrices[expert])
    return of_rows, of_matrices


def _multiply(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Writes a product of matrices where it belongs, which may be of a wider type."""
    if left.dtype == out.dtype:
        torch.mm(left, right, out=out)
    else:
        out.copy_(left @ right)
