"""Lays out the rows of an encoder batch: flat for everything but attention, padded in groups of like length for that.

Where rows lie over several processes, each lays out its own tokens, and finds the keys that they see among those that
all have gathered.

    B rows   T padded length of a group   M tokens of this process   R processes   G key heads   K head dim
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gesso.runner.prompt_input import EmbeddingSpan
from gesso.train.context_parallel import ContextGroup

SHORTEST = 32
"""Rows are padded to the next power of two, from this on, and attended group by group of equal padding."""


class EncoderRows(Protocol):
    """Describes rows of tokens for the encoder, in order of length."""

    @property
    def tokens_N(self) -> Tensor:
        """Returns the tokens of all rows, laid flat."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """Returns the number of tokens of each row."""

    @property
    def images(self) -> tuple[tuple[EmbeddingSpan, ...], ...]:
        """Returns the images of each row; empty where no row has any."""


@dataclass(frozen=True, slots=True)
class TokenRows:
    """Holds rows of tokens that are no whole batch: prompts, or a part of one's examples."""

    tokens_N: Tensor
    lengths: tuple[int, ...]
    images: tuple[tuple[EmbeddingSpan, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Bounds neighbouring rows of a batch that are padded to the same length `longest`."""

    rows: slice
    tokens: slice
    """Tokens of the flat encoder batch."""
    longest: int

    def pad(self, x: Tensor, slots: Tensor) -> Tensor:
        """Scatters tokens [n, ...] to their slots in [rows, longest, ...]."""
        count = self.rows.stop - self.rows.start
        padded = x.new_zeros(count * self.longest, *x.shape[1:]).index_copy(0, slots, x)
        return padded.view(count, self.longest, *x.shape[1:])


def group_rows(lengths: Sequence[int]) -> list[Group]:
    """Groups rows that are in order of length by their padded length."""
    groups: list[Group] = []
    row = token = 0
    for longest, members in itertools.groupby(lengths, lambda n: max(SHORTEST, 1 << (n - 1).bit_length())):
        sizes = list(members)
        groups.append(Group(slice(row, row + len(sizes)), slice(token, token + sum(sizes)), longest))
        row, token = row + len(sizes), token + sum(sizes)
    return groups


class WholeRows:
    """Lays out rows of which this process has every token."""

    def __init__(self, lengths: Sequence[int], groups: list[Group], device: torch.device) -> None:
        """
        Args:
            groups: of the rows, as `group_rows` makes them.
        """
        self.groups = groups
        self.queries: list[Tensor | None] = [None] * len(groups)
        """Positions of each group's queries, [B, T], or [1, T] where those of all rows are the same; None where these
        are all positions."""
        _, self.columns_M = _rows_and_columns(lengths, device)
        self.slots = self._slots(lengths, device)
        """Where each token of a group is among its padded rows."""

    def _slots(self, lengths: Sequence[int], device: torch.device) -> list[Tensor]:
        rows_M, nth_M = _rows_and_columns(lengths, device)
        return [(rows_M[g.tokens] - g.rows.start) * g.longest + nth_M[g.tokens] for g in self.groups]

    def own(self, x_N: Tensor) -> Tensor:
        """Picks this process's tokens of a flat batch."""
        return x_N

    def own_images(self, places_n: Tensor, embeddings_nD: Tensor) -> tuple[Tensor, Tensor]:
        """Picks the embeddings of images that this process has, and where they are among its tokens."""
        return places_n, embeddings_nD

    def seen(self, k_MGK: Tensor, v_MGK: Tensor) -> list[tuple[Tensor, Tensor]] | None:
        """Returns the padded keys and values [B, T, G, K] that each group's queries see; None where these are the
        group's own."""
        del k_MGK, v_MGK
        return None


class RowParts(WholeRows):
    """Lays out rows that lie over the processes of `context`."""

    def __init__(
        self, lengths: Sequence[int], groups: list[Group], context: ContextGroup, device: torch.device
    ) -> None:
        self._context, self._tokens = context, context.own_tokens(lengths, device)
        own = self._tokens.lengths
        begins = list(itertools.accumulate(own, initial=0))
        self.groups = [
            Group(g.rows, slice(begins[g.rows.start], begins[g.rows.stop]), max(own[g.rows])) for g in groups
        ]
        self.columns_M = self._tokens.columns_M
        self.slots = self._slots(own, device)
        self.queries = []
        self._keys: list[Tensor] = []
        for group, mine, slots in zip(groups, self.groups, self.slots, strict=True):
            queries_BT = mine.pad(self.columns_M[mine.tokens], slots)
            self.queries.append(queries_BT[:1] if len(set(lengths[group.rows])) == 1 else queries_BT)
            owner_BT, nth_BT = context.locate(torch.tensor(lengths[group.rows], device=device), group.longest)
            first_B1 = torch.tensor(begins[group.rows], device=device)[:, None]
            self._keys.append(owner_BT * (2 * begins[-1]) + first_B1 + nth_BT)

    def own(self, x_N: Tensor) -> Tensor:
        return x_N[self._tokens.places_M]

    def own_images(self, places_n: Tensor, embeddings_nD: Tensor) -> tuple[Tensor, Tensor]:
        # A token that fills up a row is one of the row, once more: it has the embedding, too.
        wanted_M, order = self._tokens.places_M, places_n.argsort()
        nth_M = torch.searchsorted(places_n[order], wanted_M).clamp(max=len(places_n) - 1)
        found_m = (places_n[order][nth_M] == wanted_M).nonzero().flatten()
        return found_m, embeddings_nD[order[nth_M[found_m]]]

    def seen(self, k_MGK: Tensor, v_MGK: Tensor) -> list[tuple[Tensor, Tensor]] | None:
        whole = self._context.gather(torch.cat((k_MGK, v_MGK)))
        return [(pick_rows(whole, keys_BT), pick_rows(whole, keys_BT + len(k_MGK))) for keys_BT in self._keys]


def lay_out_rows(
    lengths: Sequence[int], groups: list[Group], context: ContextGroup | None, device: torch.device
) -> WholeRows:
    """Lays out rows as this process has them."""
    if context is None:
        return WholeRows(lengths, groups, device)
    return RowParts(lengths, groups, context, device)


def soft_places(batch: EncoderRows) -> Tensor:
    """Returns where the soft tokens of all images are in the flat encoder batch."""
    begins = itertools.accumulate(batch.lengths, initial=0)
    places = [
        torch.arange(begin + image.start, begin + image.end)
        for begin, row in zip(begins, batch.images, strict=False)
        for image in row
    ]
    return torch.cat(places)


def flat_ends(lengths: Sequence[int], device: torch.device) -> Tensor:
    """Returns where the rows of a flat batch begin and end, int32 [B + 1]."""
    ends = itertools.accumulate(lengths, initial=0)
    return torch.tensor(list(ends), dtype=torch.int32, device=device)


def pick_rows(x_MGK: Tensor, places_BT: Tensor) -> Tensor:
    """Picks keys or values by place, [B, T, G, K]."""
    return x_MGK.index_select(0, places_BT.flatten()).view(*places_BT.shape, *x_MGK.shape[1:])


def _rows_and_columns(lengths: Sequence[int], device: torch.device) -> tuple[Tensor, Tensor]:
    """The row of each token of a flat batch, and the number that it has there."""
    lengths_B = torch.tensor(lengths, device=device)
    rows_M = torch.arange(len(lengths), device=device).repeat_interleave(lengths_B, output_size=sum(lengths))
    return rows_M, torch.arange(sum(lengths), device=device) - (lengths_B.cumsum(0) - lengths_B)[rows_M]
