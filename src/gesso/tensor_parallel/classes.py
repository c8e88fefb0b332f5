"""Reads the vocabulary class by class in parts: a rank sums up, mixes and draws among the tokens whose rows it holds.

A gather gives every rank what the others found of their tokens of each class, and with the factors of a constraint a
sum gives the mixed embedding and the token drawn: two collectives, and what travels is classes times positions. A
sample is looked up in the order of one process (`stretches`): the stretch and the rank in it, the block, the token.

    G ranks   R positions   K classes   S stretches of neighbouring tokens of a class, s of which this rank has some of
    V vocabulary   v tokens of this rank   B blocks of a rank   D hidden
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gesso.constraints.class_pass import ClassPass, TokenClasses, stretches
from gesso.constraints.emissions import Emissions
from gesso.nn.vocabulary import Vocabulary, chunk_of, pick_block
from gesso.ranks.group import RankGroup


class ShardedClasses:
    """Holds which of a rank's tokens are of which class.

    Args:
        class_V: the class of every token of the whole vocabulary; -1 has none.
        tokens: this rank's.
        chunk: columns that one process scores at a time; None takes what suits the device.
    """

    def __init__(
        self, class_V: NDArray[np.integer], tokens: range, device: torch.device, chunk: int | None = None
    ) -> None:
        stretch_V, class_S = stretches(class_V, chunk or chunk_of(device))
        self.class_V, self.tokens, self.stretches = class_V, tokens, len(class_S)
        own_v = stretch_V[tokens.start : tokens.stop]
        here_s = np.unique(own_v[own_v >= 0])
        place_S = np.full(len(class_S) + 1, -1)
        place_S[here_s] = np.arange(len(here_s))
        self.own = TokenClasses(place_S[own_v], device, chunk) if len(here_s) else None
        """Its tokens by stretch, numbered from its first; None where it has none that may stand."""
        # A class has two stretches at most; one that has one is given an empty one behind the last.
        order = np.argsort(class_S, kind="stable")
        first_K, count_K = np.unique(class_S[order], return_index=True, return_counts=True)[1:]
        second_K = np.where(count_K > 1, order[np.minimum(first_K + 1, len(order) - 1)], len(class_S))
        self.class_S = torch.from_numpy(class_S).to(device)
        self.here_s = torch.from_numpy(here_s).to(device)
        self.parts_K2 = torch.from_numpy(np.stack([order[first_K], second_K], axis=1)).to(device)
        if self.own is not None:
            blocks = np.repeat([self.own.per_whole, 1], [len(self.own.whole), len(self.own.class_J)])
            blocks = blocks[: len(self.own.class_J)]
            class_B = self.own.class_J.repeat_interleave(torch.from_numpy(blocks).to(device))
            self.stretch_B = self.here_s[class_B]


class ShardedClassPass:
    """Holds a rank's part of one pass over R positions; every rank makes it and finishes it together with the others.
    `summary` is that of the whole vocabulary."""

    @torch.no_grad()
    def __init__(
        self, part: Vocabulary, classes: ShardedClasses, group: RankGroup, hidden_RD: Tensor, temperature_R: Tensor
    ) -> None:
        """
        Args:
            part: this rank's rows of the table.
            hidden_RD: normed hidden states.
            temperature_R: above zero, fp32.
        """
        self._part, self._classes, self._group, self._hidden_RD = part, classes, group, hidden_RD
        own_4RS = torch.zeros(4, len(hidden_RD), classes.stretches, dtype=torch.float64, device=hidden_RD.device)
        own_4RS[::2] = -torch.inf
        self._own = None
        if classes.own is not None:
            self._own = ClassPass(part, classes.own, hidden_RD, temperature_R)
            found = self._own.summary
            token_Rs = found.token + classes.tokens.start
            own_4RS[:, :, classes.here_s] = torch.stack(
                [x.double() for x in (found.total, found.entropy, found.best, token_Rs)]
            )
        all_G4RS = group.gather(own_4RS)
        self._total_GRS = all_G4RS[:, 0]
        self.summary = _combine(all_G4RS, classes.parts_K2)

    @torch.no_grad()
    def finish_together(self, factor_RK: Tensor, uniform_R: Tensor) -> tuple[Tensor, Tensor]:
        """Ends the pass where all ranks do; see `ClassPass.finish`."""
        classes, group = self._classes, self._group
        mass_GRS = (self._total_GRS + factor_RK.index_select(1, classes.class_S)).exp()
        place_R1, share_R1 = pick_block(mass_GRS.permute(1, 2, 0).flatten(1), uniform_R)
        mixed_RD = torch.zeros_like(self._hidden_RD, dtype=torch.float32)
        token_R = torch.zeros_like(place_R1[:, 0])
        if self._own is not None:
            factor_Rs = factor_RK.index_select(1, classes.class_S[classes.here_s])
            mass_RB, mixed_RD = self._own.weigh(factor_Rs)
            inside_RB = classes.stretch_B == place_R1 // group.size
            drawn_R = self._own.draw(mass_RB.masked_fill(~inside_RB, 0.0), share_R1[:, 0].float())
            drawn_here_R = place_R1[:, 0] % group.size == group.rank
            token_R = torch.where(drawn_here_R, drawn_R + classes.tokens.start, 0)
        summed = group.sum_(torch.cat((mixed_RD, token_R[:, None].float()), dim=1))
        sample_R = summed[:, -1].long()
        group.decide("the tokens drawn", sample_R)
        group.compare()
        scale_R = self._part.scale / mass_GRS.sum(dim=(0, 2))
        return sample_R, (summed[:, :-1] * scale_R[:, None].float()).to(self._part.dtype)


def _combine(all_G4RS: Tensor, parts_K2: Tensor) -> Emissions:
    """Sums up what the ranks found of each stretch, by class."""
    nothing = torch.tensor([-torch.inf, 0.0, -torch.inf, 0.0], dtype=all_G4RS.dtype, device=all_G4RS.device)
    padded = torch.cat((all_G4RS, nothing[:, None, None].expand(*all_G4RS.shape[:3], 1)), dim=-1)
    total, entropy, best, token = padded[..., parts_K2].permute(1, 2, 3, 0, 4).flatten(3).unbind(0)
    total_RK = total.logsumexp(dim=-1)
    ahead = (total_RK[..., None] - total).clamp(max=torch.finfo(torch.float64).max)
    entropy_RK = ((-ahead).exp() * (entropy + ahead)).sum(dim=-1)
    best_RK = best.amax(dim=-1)
    token_RK = torch.where(best == best_RK[..., None], token, torch.inf).amin(dim=-1)
    return Emissions(total_RK, entropy_RK, best_RK.float(), token_RK.long())


class LeadingClassPass(ShardedClassPass):
    """Makes the leader's part of a pass, and tells the others when to finish."""

    number: int
    """What the ranks call the pass."""

    def finish(self, factor_RK: Tensor, uniform_R: Tensor) -> tuple[Tensor, Tensor]:
        """Ends the pass; see `ClassPass.finish`."""
        self._group.announce("finish_classes", self.number, factor_RK, uniform_R)
        return self.finish_together(factor_RK, uniform_R)
