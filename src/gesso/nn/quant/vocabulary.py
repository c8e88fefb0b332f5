"""Quantizes the tied table: rows are dequantized where they are asked for, and the table a chunk at a time.

A pass over the vocabulary dequantizes every chunk once for all its positions, and then computes what it would over the
table that the bits stand for. What is held beside the bits is one chunk.

    N positions   V vocabulary   D hidden
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gesso.kernels import SoftmaxPass
from gesso.nn.cross_entropy import rows_at_a_time
from gesso.nn.elementwise import softmax
from gesso.nn.host_experts import leading_rows, repeat_last
from gesso.nn.linear import linear
from gesso.nn.pass_threads import host_pass
from gesso.nn.quant.base import (
    CPU_TILE,
    Format,
    dequantize,
    matmul,
    multiply_on_host,
    on_host,
)
from gesso.nn.quant.few_rows import FEW_ROWS, softmax_pass_of_few
from gesso.nn.vocabulary import Mixture, TableSlice, Vocabulary, VocabularyPass, chunk_of

GPU_CHUNK = 1 << 14
"""Tokens that are read back at a time on an accelerator: 88 MiB of bfloat16 where D is 2,816. On a CPU chunks are as
large as those of a whole table."""

WIDE, WIDE_TILE = 1024, 744
"""Hidden states from this size on are mixed by so many rows at a time, and sums go on in place: a third faster. Smaller
ones have sums that do not depend on how many rows there are (see `row_alignment`). Bytes are mixed as they are where
there is a kernel (`_ByteMixture`), whatever the size."""


class QuantizedVocabulary(Vocabulary):
    """Implements a frozen `Vocabulary` whose table is packed by a format; gradients reach hidden states only."""

    def __init__(
        self, vocab_size: int, hidden_size: int, softcap: float, form: Format, dtype: torch.dtype = torch.float32
    ) -> None:
        """
        Args:
            dtype: of embeddings, and what rows are read back to.

        Raises:
            ValueError: the table's rows cannot be grouped.
        """
        with torch.device("meta"):
            super().__init__(vocab_size, hidden_size, softcap)
        del self.weight  # the parts stand for it
        self.form, self._dtype = form, dtype
        for name, part in zip(form.parts, form.empty(vocab_size, hidden_size), strict=True):
            self.register_buffer(name, part)

    @classmethod
    def like(cls, plain: Vocabulary, form: Format) -> "QuantizedVocabulary":
        """Makes an empty one of the shape and dtype of `plain`."""
        return cls(plain.size, plain.width, plain.softcap, form, plain.dtype)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "QuantizedVocabulary":
        # What casts the module casts what it reads back, too.
        self._dtype = fn(torch.empty(0, dtype=self._dtype)).dtype
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    @property
    def dtype(self) -> torch.dtype:
        return self._dtype

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """Returns the packed table."""
        return tuple(self.get_buffer(name) for name in self.form.parts)

    def rows(self, tokens: Tensor) -> Tensor:
        chosen = tuple(part.index_select(0, tokens.flatten()) for part in self.parts)
        return dequantize(chosen, self.form, self.dtype).view(*tokens.shape, self.width)

    def rows_between(self, begin: int, end: int) -> Tensor:
        return self._read_rows(begin, end, self.dtype)

    def _read_rows(self, begin: int, end: int, dtype: torch.dtype) -> Tensor:
        return dequantize(tuple(part[begin:end] for part in self.parts), self.form, dtype)

    def chunk(self, device: torch.device) -> int:
        return chunk_of(device) if device.type == "cpu" else GPU_CHUNK

    def tiles(self, device: torch.device, dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
        """Yields the first token of every chunk of the table, and its rows."""
        chunk = self.chunk(device)
        for begin in range(0, self.size, chunk):
            yield begin, self._read_rows(begin, begin + chunk, dtype)

    def slice(self, begin: int, end: int) -> TableSlice:
        return _PackedSlice(tuple(part[begin:end] for part in self.parts), self.form, self.dtype, self.width)

    def mixture(self, hidden_ND: Tensor) -> Mixture:
        if self.form.kernel == "int8" and on_host(hidden_ND, self.parts, self.form):
            from gesso.kernels.host.mix import mixes

            if mixes(self.parts[0]):
                return _ByteMixture(len(hidden_ND), self.width, hidden_ND.device)
        return super().mixture(hidden_ND)

    def scores(self, hidden: Tensor) -> Tensor:
        return matmul(hidden, self.parts, self.form)

    def mix(self, logits: Tensor) -> Tensor:
        probs = softmax(logits)
        mixed = torch.zeros(*logits.shape[:-1], self.width, dtype=torch.float32, device=logits.device)
        for begin, table in self.tiles(logits.device, self.dtype):
            mixed += linear(probs[..., begin : begin + len(table)].to(table.dtype), table.T)
        return (mixed * self.scale).to(self.dtype)

    def cross_entropy(self, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """Computes `Vocabulary.cross_entropy`. Every chunk is dequantized twice: for the normaliser, and, with it, for
        the gradient."""
        loss: Tensor = _CrossEntropy.apply(hidden_ND, targets_N, self)  # type: ignore[no-untyped-call]
        return loss

    def predict(
        self, hidden_ND: Tensor, temperature_N: Tensor, uniform_N: Tensor, *, mix: bool = True
    ) -> VocabularyPass:
        with host_pass(len(hidden_ND)) if not mix and on_host(hidden_ND, self.parts, self.form) else nullcontext():
            return super().predict(hidden_ND, temperature_N, uniform_N, mix=mix)

    def _softmax_pass(self, hidden_ND: Tensor, inverse_N1: Tensor, *, mix: bool) -> SoftmaxPass:
        if not mix and on_host(hidden_ND, self.parts, self.form):
            rows = max(leading_rows(hidden_ND), leading_rows(inverse_N1))
            if rows <= FEW_ROWS:
                found = softmax_pass_of_few(self, hidden_ND[:rows], inverse_N1[:rows])
                return SoftmaxPass(*(repeat_last(part, len(hidden_ND)) for part in found))
        return self._softmax_pass_chunked(hidden_ND, inverse_N1, mix=mix)


class _ByteMixture(Mixture):
    """Adds up rows of a table of bytes as they are."""

    def __init__(self, rows: int, width: int, device: torch.device) -> None:
        from gesso.kernels.host.mix import ByteMixture

        super().__init__(rows, 0, device)
        self._sums = ByteMixture(rows, width)

    def add(self, shrink_N1: Tensor, weights_Nn: Tensor, table: TableSlice) -> None:
        assert isinstance(table, _PackedSlice)
        codes_nD, scales = table.parts
        self._sums.shrink(shrink_N1)
        self._sums.add(weights_Nn, scales.flatten(), codes_nD)

    def take(self) -> Tensor:
        return self._sums.take()


class _PackedSlice(TableSlice):
    """Scores by a kernel that reads packed rows, where there is one, and dequantizes a tile at a time to mix.

    Elsewhere all rows are dequantized once, for both.
    """

    def __init__(self, parts: tuple[Tensor, ...], form: Format, dtype: torch.dtype, width: int) -> None:
        self.parts, self._form, self._dtype, self._width = parts, form, dtype, width

    @functools.cached_property
    def _rows_nD(self) -> Tensor:  # type: ignore[override]
        return dequantize(self.parts, self._form, self._dtype)

    def scores(self, hidden_ND: Tensor) -> Tensor:
        if on_host(hidden_ND, self.parts, self._form):
            return multiply_on_host(hidden_ND, None, self.parts, self._form)
        return super().scores(hidden_ND)

    def mix(self, weights_Nn: Tensor) -> Tensor:
        if not on_host(weights_Nn, self.parts, self._form):
            return super().mix(weights_Nn)
        mixed: Tensor | None = None
        begin, wide = 0, self._width >= WIDE
        rows = WIDE_TILE if wide else max(1, CPU_TILE // self._width)
        for tile in zip(*(part.split(rows) for part in self.parts), strict=True):
            table, factor = self._form.unpack(tile, self._dtype)
            share = weights_Nn[:, begin : begin + len(table)]
            begin += len(table)
            # Factors of rows are cheaper on the weights, which are narrower than the table.
            share = (share if factor is None else share * factor).to(table.dtype)
            if wide and mixed is not None:
                mixed.addmm_(share, table)
                continue
            more = linear(share, table.T)
            mixed = more if mixed is None else mixed.add_(more)
        assert mixed is not None
        return mixed


class _CrossEntropy(torch.autograd.Function):
    """Computes soft-capped linear scores and their cross-entropy, with the gradient of the hidden states."""

    @staticmethod
    def forward(ctx: Any, hidden_ND: Tensor, targets_N: Tensor, vocabulary: QuantizedVocabulary) -> Tensor:
        device, softcap = hidden_ND.device, vocabulary.softcap
        kind = device.type
        half = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden_ND.dtype
        rows = rows_at_a_time(kind, vocabulary.chunk(device))
        with torch.autocast(kind, enabled=False):
            share = 1 / max(1, len(hidden_ND))
            total = torch.zeros((), dtype=torch.float32, device=device)
            grad_hidden = torch.zeros_like(hidden_ND, dtype=torch.float32) if ctx.needs_input_grad[0] else None
            for begin in range(0, len(hidden_ND), rows):
                part = slice(begin, begin + rows)
                hidden, targets = hidden_ND[part].to(half), targets_N[part, None]
                score = torch.zeros(targets.shape, dtype=torch.float32, device=device)
                normaliser = torch.full(targets.shape, -torch.inf, dtype=torch.float32, device=device)
                for _, bent, place, inside in _scored(vocabulary, hidden, targets):
                    scores = bent * softcap
                    score += scores.gather(1, place) * inside
                    normaliser = torch.logaddexp(normaliser, scores.logsumexp(dim=-1, keepdim=True))
                total += (normaliser - score).sum()
                if grad_hidden is None:
                    continue
                for table, bent, place, inside in _scored(vocabulary, hidden, targets):
                    # d loss / d score is probability - target; the cap's slope is 1 - tanh^2.
                    grad = (bent * softcap).sub_(normaliser).exp_().scatter_add_(1, place, -inside.float())
                    grad = grad.mul_(bent.square_().neg_().add_(1.0)).mul_(share).to(half)
                    grad_hidden[part] += grad @ table
        ctx.save_for_backward(grad_hidden)
        return total * share

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None]:
        (hidden,) = ctx.saved_tensors
        return None if hidden is None else hidden * grads[0], None, None


def _scored(
    vocabulary: QuantizedVocabulary, hidden_ND: Tensor, targets_N1: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Yields for every chunk its rows, tanh of its scores, where in it each target stands, and whether it does."""
    for begin, table in vocabulary.tiles(hidden_ND.device, hidden_ND.dtype):
        scores = (hidden_ND @ table.T).float()
        bent = scores.mul_(2 / vocabulary.softcap).sigmoid_().mul_(2).sub_(1)  # see `cap_`
        place_N1 = targets_N1 - begin
        inside_N1 = (place_N1 >= 0) & (place_N1 < len(table))
        yield table, bent, place_N1.clamp(0, len(table) - 1), inside_N1
