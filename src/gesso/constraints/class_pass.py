"""Reads the vocabulary in one pass, class by class, for what has to know of whole canvases before it can mix and draw.

A constraint tells tokens apart by class only: those of one class do the same to it. So its exact marginals are the
prediction times a factor for each position and class, and the factors are known only when all positions have been
scored. `ClassPass` scores every allowed token once, keeps of each class what the constraint needs (sum, entropy, best
token) and its mixed embedding, and ends, given the factors, in sample and embedding, without the logits.

Tokens stand sorted by class. What fills whole chunks is mixed at once; the rest of every class stands in tiles of
`TILE`, whose probabilities are held, relative to the best of each tile. Tokens of tiny classes, which would hardly
fill a block, stand by themselves. Tokens of no class are never scored.

    R positions   V vocabulary   K classes   T columns   D hidden
    J pieces: whole chunks, then blocks of the rest, then tokens by themselves
"""

from typing import Literal, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gesso.constraints.emissions import Emissions
from gesso.kernels import BLOCK
from gesso.nn.elementwise import drop_faint_
from gesso.nn.linear import linear
from gesso.nn.vocabulary import Vocabulary, chunk_of, pick_block, pick_token

TILE = 16
"""Tokens of a block of the rest; the last one of a class is filled up."""


TINY = 3
"""Most tokens of a class that stand by themselves."""
_FAR = 1e30
"""Turns the least difference of two scores into more than there are tokens."""


class TokenClasses:
    """Holds where the tokens stand when they are sorted by class.

    Args:
        class_V: the class of every token, from 0 on; -1 has none. No class is empty.
        device: where the scores are made.
        chunk: columns scored at a time, a multiple of `BLOCK`; None takes what suits the device.
    """

    def __init__(self, class_V: NDArray[np.integer], device: torch.device, chunk: int | None = None) -> None:
        chunk = chunk or chunk_of(device)
        self.class_V = class_V
        members = np.split(np.argsort(class_V, kind="stable"), np.bincount(class_V + 1, minlength=1).cumsum()[:-1])[1:]
        self.classes = len(members)
        whole = [
            (k, ids[i : i + chunk]) for k, ids in enumerate(members) for i in range(0, len(ids) - chunk + 1, chunk)
        ]
        rests = [ids[len(ids) // chunk * chunk :] if len(ids) > TINY else ids[:0] for ids in members]
        tiny = [k for k, ids in enumerate(members) if len(ids) <= TINY]
        class_of_alone = np.repeat(np.array(tiny, dtype=np.int64), [len(members[k]) for k in tiny])
        ids_alone = np.concatenate([*(members[k] for k in tiny), np.empty(0, dtype=np.int64)])
        filled = [np.pad(ids, (0, -len(ids) % TILE), constant_values=-1) for ids in rests]
        rest = np.concatenate([*filled, np.empty(0, dtype=np.int64)]).astype(np.int64)

        def on_device(numbers: NDArray[np.integer]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(numbers, dtype=np.int64)).to(device)

        self.whole = [(k, on_device(ids)) for k, ids in whole]
        # The members of a block stand apart, those of neighbouring blocks side by side: so they are reduced fastest.
        laid = [rest[i : i + chunk].reshape(-1, TILE).T.flatten() for i in range(0, len(rest), chunk)]
        self.rest = [on_device(ids.clip(min=0)) for ids in laid]
        """Chunks of blocks, [TILE * blocks]; filling is token 0."""
        self.filling = [(on_device(ids) < 0) * (torch.finfo(torch.float32).min / 2) for ids in laid]
        """Added to their scores."""
        self.rank = [(len(class_V) - ids).float().view(TILE, -1) for ids in self.rest]
        """Higher for lower tokens, exact: a vocabulary is far below 2^24."""
        self.alone = on_device(np.pad(ids_alone, (0, -len(ids_alone) % TILE)))
        """Filled up with token 0, so that scores do not depend on how many rows there are."""
        self.alones = len(ids_alone)
        class_J = np.repeat(np.arange(self.classes), [len(ids) // TILE for ids in filled])
        class_J = np.concatenate([[k for k, _ in whole], class_J, class_of_alone]).astype(np.int64)
        self.class_J = on_device(class_J)
        self.order_J = on_device(np.argsort(class_J, kind="stable"))
        """Order of the pieces by their class."""
        self._pieces_K = on_device(np.bincount(class_J, minlength=self.classes))
        blocks = len(whole) * chunk // BLOCK
        self.per_whole = chunk // BLOCK
        self.columns_T = on_device(np.concatenate([*(ids for _, ids in whole), rest, ids_alone, np.full(BLOCK, -1)]))
        """The token of every column, -1 where there is none."""
        begins = np.arange(0, len(rest), TILE), len(rest) + np.arange(self.alones)
        self.begins = on_device(
            np.concatenate([np.arange(blocks) * BLOCK, *(len(whole) * chunk + begin for begin in begins)])
        )
        """First column of every block that a sample is looked up in."""
        sizes = ((BLOCK, blocks), (TILE, len(rest) // TILE), (1, self.alones))
        self.sizes = on_device(np.repeat(*np.array(sizes).T))

    def over_pieces(self, x_JR: Tensor, reduction: Literal["sum", "max"]) -> Tensor:
        """Returns [K, R] from pieces in `order_J`."""
        out: Tensor = torch.segment_reduce(x_JR, reduction, lengths=self._pieces_K, axis=0, unsafe=True)
        return out


def stretches(class_V: NDArray[np.integer], chunk: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the stretch of every token, -1 where it has none, and the class of every stretch.

    A sample is looked up stretch by stretch, and in each from the lowest token on: first what fills whole chunks, class
    by class, then the rest of every class, then the tiny classes. So who holds some of the tokens draws as who holds
    all of them does.
    """
    count_K = np.bincount(class_V + 1, minlength=1)[1:]
    class_V = class_V.astype(np.int64)
    order_V = np.argsort(class_V, kind="stable")
    place_V = np.empty_like(class_V)
    place_V[order_V] = (
        np.arange(len(class_V)) - np.concatenate([[0], np.bincount(class_V + 1).cumsum()])[class_V[order_V] + 1]
    )
    part_V = np.where(count_K[class_V] <= TINY, 2, (place_V >= count_K[class_V] // chunk * chunk).astype(np.int64))
    key_V = np.where(class_V < 0, -1, part_V * len(count_K) + class_V)
    keys, stretch_V = np.unique(key_V[key_V >= 0], return_inverse=True)
    found_V = np.full(len(class_V), -1)
    found_V[key_V >= 0] = stretch_V
    return found_V, keys % len(count_K)


class ClassReading(Protocol):
    """Is a pass over the classes of the tokens, whoever makes it."""

    summary: Emissions

    def finish(self, factor_RK: Tensor, uniform_R: Tensor) -> tuple[Tensor, Tensor]:
        """Ends the pass; see `ClassPass.finish`."""


@runtime_checkable
class ReadsClasses(Protocol):
    """Is a vocabulary that is not whole in this process and makes the pass in parts."""

    def read_classes(self, classes: TokenClasses, hidden_RD: Tensor, temperature_R: Tensor) -> ClassReading:
        """Begins the pass; see `ClassPass`."""


def read_classes(
    vocabulary: Vocabulary, classes: TokenClasses, hidden_RD: Tensor, temperature_R: Tensor
) -> ClassReading:
    """Begins a pass over the classes, in the vocabulary's own way where it has one; see `ClassPass`."""
    if isinstance(vocabulary, ReadsClasses):
        return vocabulary.read_classes(classes, hidden_RD, temperature_R)
    return ClassPass(vocabulary, classes, hidden_RD, temperature_R)


class ClassPass:
    """Holds one pass over R positions. Life cycle: made, `summary` is read, `finish` is called once with the
    factors; who makes the pass in parts calls `weigh` and `draw` instead."""

    @torch.no_grad()
    def __init__(self, vocabulary: Vocabulary, classes: TokenClasses, hidden_RD: Tensor, temperature_R: Tensor) -> None:
        """
        Args:
            hidden_RD: normed hidden states.
            temperature_R: above zero, fp32.
        """
        self._vocabulary, self._classes, self._hidden_RD = vocabulary, classes, hidden_RD
        self._inverse_R1 = (1.0 / temperature_R.float())[:, None]
        self._mixed: dict[int, tuple[Tensor, Tensor]] = {}
        """What fills whole chunks of a class, by class: the reference [R, 1] and p @ table relative to it, fp32."""
        self._held: list[Tensor] = []
        tops, sums, weighted, tokens, self._sums = [], [], [], [], []
        for k, ids in classes.whole:
            table, z = self._scores(ids)
            top_R1, index_R1 = z.max(dim=-1, keepdim=True)
            p = drop_faint_(z.sub_(top_R1)).exp()
            block_sums = p.unflatten(1, (-1, BLOCK)).sum(dim=-1)
            self._sums.append(block_sums)
            tops.append(top_R1)
            sums.append(block_sums.sum(dim=-1, keepdim=True))
            weighted.append(z.mul_(p).sum(dim=-1, keepdim=True))
            tokens.append(ids[index_R1])
            self._mix(k, top_R1, linear(p.to(table.dtype), table.T).float())
        for ids, filling, rank in zip(classes.rest, classes.filling, classes.rank, strict=True):
            _, z = self._scores(ids)
            z = z.add_(filling).unflatten(1, (TILE, -1))
            top = z.amax(dim=1)
            z.sub_(top[:, None])
            # What is not the best, z < 0, falls below every rank.
            tokens.append(vocabulary.size - torch.add(rank, z, alpha=_FAR).amax(dim=1).long())
            p = drop_faint_(z).exp()
            tops.append(top)
            sums.append(p.sum(dim=1))
            self._sums.append(sums[-1])
            weighted.append(z.mul_(p).sum(dim=1))
            self._held.append(p)
        if classes.alones:
            _, z = self._scores(classes.alone)
            z = z[:, : classes.alones]
            tops.append(z)
            self._sums.append(torch.ones_like(z))
            sums.append(self._sums[-1])
            weighted.append(torch.zeros_like(z))
            tokens.append(classes.alone[: classes.alones].expand_as(z))
        self._top_RJ = torch.cat(tops, dim=1)
        self.summary = self._summarise(torch.cat(sums, dim=1), torch.cat(weighted, dim=1), torch.cat(tokens, dim=1))

    def _scores(self, ids_T: Tensor) -> tuple[Tensor, Tensor]:
        """Their part of the table, and tempered logits [R, T]."""
        table = self._vocabulary.rows(ids_T)
        return table, self._vocabulary.cap_(linear(self._hidden_RD, table).float()).mul_(self._inverse_R1)

    def _mix(self, k: int, top_R1: Tensor, mixed_RD: Tensor) -> None:
        if k in self._mixed:
            old_R1, before_RD = self._mixed[k]
            new_R1 = torch.maximum(old_R1, top_R1)
            mixed_RD = before_RD.mul_((old_R1 - new_R1).exp()).add_(mixed_RD.mul_((top_R1 - new_R1).exp_()))
            top_R1 = new_R1
        self._mixed[k] = (top_R1, mixed_RD)

    def _summarise(self, sum_RJ: Tensor, weighted_RJ: Tensor, token_RJ: Tensor) -> Emissions:
        """From pieces to classes."""
        classes = self._classes
        pieces = (x_RJ.T.index_select(0, classes.order_J) for x_RJ in (self._top_RJ, sum_RJ, weighted_RJ, token_RJ))
        top_JR, sum_JR, weighted_JR, token_JR = pieces
        best_KR = classes.over_pieces(top_JR, "max")
        shift_JR = (top_JR - best_KR.index_select(0, classes.class_J[classes.order_J])).double()
        scale_JR = shift_JR.exp()
        mass_KR = classes.over_pieces(sum_JR * scale_JR, "sum")
        log_mass_KR = mass_KR.log()
        weighted_KR = classes.over_pieces((weighted_JR + sum_JR * shift_JR) * scale_JR, "sum")
        # The lowest of the tokens that are best, as the highest of their negatives: exact in fp64.
        token_KR = classes.over_pieces(torch.where(shift_JR == 0, -token_JR.double(), -torch.inf), "max").neg().long()
        found = (log_mass_KR + best_KR, log_mass_KR - weighted_KR / mass_KR, best_KR, token_KR)
        return Emissions(*(x_KR.T.contiguous() for x_KR in found))

    @torch.no_grad()
    def finish(self, factor_RK: Tensor, uniform_R: Tensor) -> tuple[Tensor, Tensor]:
        """Returns a sample of every position, int64 [R], and its mixed embedding [R, D], in the vocabulary's dtype.

        Args:
            factor_RK: log of what the scores of a class are multiplied by to be probabilities; -inf is impossible.
            uniform_R: numbers in [0, 1) that decide the samples by inverse distribution function.
        """
        mass_RB, mixed_RD = self.weigh(factor_RK)
        mixed_RD *= self._vocabulary.scale / mass_RB.sum(dim=-1, keepdim=True)
        return self.draw(mass_RB, uniform_R), mixed_RD.to(self._vocabulary.dtype)

    @torch.no_grad()
    def weigh(self, factor_RK: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the mass of every block that a sample is looked up in [R, B] and the sum of mass times row of the
        table [R, D], both fp32; once, as what was held is used up."""
        classes, vocabulary = self._classes, self._vocabulary
        weight_RJ = (factor_RK.index_select(1, classes.class_J) + self._top_RJ).exp_().float()
        wholes = len(classes.whole)
        weight_RB = torch.cat(
            [weight_RJ[:, :wholes].repeat_interleave(classes.per_whole, dim=1), weight_RJ[:, wholes:]], dim=1
        )
        mass_RB = torch.cat(self._sums, dim=1) * weight_RB
        embedding_RD = torch.zeros_like(self._hidden_RD, dtype=torch.float32)
        for k, (top_R1, mixed_RD) in self._mixed.items():
            embedding_RD += mixed_RD * (factor_RK[:, k, None] + top_R1).exp().float()
        begin = wholes
        for ids, p in zip(classes.rest, self._held, strict=True):
            shares = p.mul_(weight_RJ[:, None, begin : begin + p.shape[2]]).flatten(1)
            table = vocabulary.rows(ids)
            embedding_RD += linear(shares.to(table.dtype), table.T).float()
            begin += p.shape[2]
        if classes.alones:
            table = vocabulary.rows(classes.alone[: classes.alones])
            embedding_RD += linear(weight_RJ[:, begin:].to(table.dtype), table.T).float()
        return mass_RB, embedding_RD

    @torch.no_grad()
    def draw(self, mass_RB: Tensor, uniform_R: Tensor) -> Tensor:
        """Returns a sample of every position, int64 [R]; blocks without mass are left out."""
        classes, wholes = self._classes, len(self._classes.whole)
        block_R1, share_R1 = pick_block(mass_RB, uniform_R)
        inside_W = torch.arange(BLOCK if wholes else TILE, device=mass_RB.device)
        tokens_RW = classes.columns_T[classes.begins[block_R1] + inside_W]
        inside_RW = (tokens_RW >= 0) & (inside_W < classes.sizes[block_R1])
        return pick_token(self._vocabulary, tokens_RW, inside_RW, self._hidden_RD, self._inverse_R1, share_R1)
