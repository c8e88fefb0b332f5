"""Says what a model's prediction of a canvas becomes under a constraint: exactly, not by masking left to right.

A model says of each position how likely each token is, independently of the others. Among the canvases that an
automaton takes from a start state to one from which the text can still be finished, `posterior` finds the exact
probability of each token at each position (forward-backward, as in a hidden Markov model whose hidden states are the
automaton's) and the most probable canvas (Viterbi; compare arXiv 2505.23061).

Life cycle: a `Lattice` is made once per automaton. Each step, the prediction is summed up over classes of tokens, by
a `ClassPass` over its `token_classes` or by `emissions` from scores that are held; `posterior` runs over the states on
the host, in fp64, with plain products where they do not get too small, else in log space. Its factors turn the
prediction into log marginals, class by class.

    C positions   R rows, some of the positions   V vocabulary   K classes of tokens   S states
    P pairs of a state and one that follows it   L distinct sets of classes between such pairs   E class and set
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gesso.constraints.automaton import TokenAutomaton
from gesso.constraints.class_pass import TokenClasses
from gesso.constraints.emissions import Emissions
from gesso.constraints.scan import scan_kernels
from gesso.constraints.segments import Segments
from gesso.constraints.stays import FloatArray
from gesso.constraints.window import Window, Windows
from gesso.errors import NotANumberError, OptionError

_CELLS = 1 << 20
"""Weights of pairs, of several positions, that are held at a time in log space."""
_ALIKE = 8
"""Tokens that may have one text; what has more is a choice."""
OVERRUN = 1e-12
"""How likely a relaxed window may make what is not allowed: no marginal is farther from the exact one."""
_ATTEMPTS = 3
"""Attempts with a relaxed window, each of which takes a counter more into account."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """Holds a canvas under its constraint; tensors are on the prediction's device."""

    factor_CK: Tensor
    """What the constraint adds to the scores of a class to make them log marginals, fp64."""
    entropy_C: Tensor
    """Entropy of the marginals, nats, fp32."""
    log_total: float
    """Log of the summed weight of all valid canvases; minus the plain normalisers, of the chance of a valid one."""
    canvas_C: Tensor
    """The most probable valid canvas, int64. Of equal ones the lower states and tokens, from left to right."""
    _column_V: Tensor

    def apply(self, log_p_RV: Tensor, rows: slice = slice(None)) -> Tensor:
        """Returns log marginals [R, V], -inf for what is impossible; `log_p_RV` are the rows `rows` of the
        prediction."""
        factor_RK = self.factor_CK[rows].to(log_p_RV.dtype).to(log_p_RV.device)
        factor_RK = torch.nn.functional.pad(factor_RK, (0, 1), value=-math.inf)
        return factor_RK.index_select(1, self._column_V.to(log_p_RV.device)).add_(log_p_RV)


class Lattice:
    """Holds the tables for inference under one automaton, on one device."""

    def __init__(self, automaton: TokenAutomaton, device: torch.device | str = "cpu") -> None:
        self.automaton = automaton
        self.device = torch.device(device)
        self._windows = windows = Windows(automaton)
        classes, kind_E, set_E = automaton.next_SK.shape[1], windows.kind_E, windows.set_E

        member_LK = np.zeros((windows.sets, classes))
        member_LK[set_E, kind_E] = 1.0
        self._member_LK = torch.from_numpy(member_LK).to(self.device)
        self._member_of_set = member_LK > 0
        self._kind_of_E, self._begins_L = kind_E, np.unique(set_E, return_index=True)[1]

        self._classes = Segments(automaton.class_V, classes, self.device)
        self._sets = Segments(set_E, windows.sets, self.device)
        self._kinds = Segments(kind_E, classes, self.device)
        self._kind_E, self._set_E, self._column_V = (
            torch.from_numpy(places).to(self.device)
            for places in (kind_E, set_E, np.where(automaton.class_V < 0, classes, automaton.class_V))
        )

    @cached_property
    def token_classes(self) -> TokenClasses:
        """Returns the tokens in order of class, for a pass that does not hold its scores."""
        return TokenClasses(self.automaton.class_V, self.device)

    @cached_property
    def class_V(self) -> Tensor:
        """Returns the class of every token, -1 for one that may stand nowhere."""
        return torch.from_numpy(self.automaton.class_V).to(self.device, torch.int64)

    def one_text(self, kind: int, piece: Callable[[int], str]) -> bool:
        """Tells whether all tokens of a class have the same text. Vocabularies have several of one character: itself
        and its byte."""
        tokens = np.flatnonzero(self.automaton.class_V == kind)
        return len(tokens) <= _ALIKE and len({piece(token) for token in tokens.tolist()}) == 1

    def prepare(self) -> None:
        """Makes the tables that else are made when they are first asked for: its size is final then."""
        _ = self.token_classes, self.class_V
        scan_kernels()
        if self.automaton.families is None:
            self._windows.whole.prepare()

    def emissions(self, log_p_RV: Tensor) -> Emissions:
        """Sums a prediction up: log-probabilities or logits, -inf where a token must not stand."""
        return Emissions(*self._classes.summary(log_p_RV))

    def posterior(self, emissions: Emissions, start: int | Collection[int], budget: int | None) -> Posterior:
        """Returns exact marginals and the most probable canvas among all that can still become a valid text.

        Args:
            emissions: of all C positions.
            start: the state before the canvas, or several that it may be.
            budget: tokens that may follow this canvas, the end token included; with 0 the canvas itself has to end
                the text. None is no bound.

        Raises:
            OptionError: no canvas is valid: it is too short, or pins contradict the constraint.
            NotANumberError: the prediction is none.
        """
        starts = [start] if isinstance(start, int) else sorted(start)
        width = len(emissions.best)
        live: frozenset[int] = frozenset()
        for _ in range(_ATTEMPTS):
            if (relaxed := self._windows.relaxed(starts, width, live)) is None:
                break
            found = self._posterior_in(*relaxed, emissions, starts, budget)
            if isinstance(found, Posterior):
                return found
            live |= found
        exact = self._posterior_in(*self._windows.window(starts, width), emissions, starts, budget)
        assert isinstance(exact, Posterior)
        return exact

    def _posterior_in(
        self,
        window: Window,
        firsts: list[int],
        emissions: Emissions,
        starts: list[int],
        budget: int | None,
    ) -> Posterior | frozenset[int]:
        """The posterior by one window; where that is relaxed and might be wrong, the counters it must not leave out."""
        first_S, last_S = window.first(firsts), window.last(budget)
        best_CK, token_CK = emissions.best.double().cpu().numpy(), emissions.token.cpu().numpy()
        best_CL = np.maximum.reduceat(best_CK.take(self._kind_of_E, axis=1), self._begins_L, axis=1)
        member_LK = self._member_of_set
        if not window.whole:
            best_CL, member_LK = best_CL[:, window.set_L], member_LK[window.set_L]
        ahead_CS = window.scan.best(best_CL, last_S)
        if (first_S + ahead_CS[0]).max() == -math.inf:
            if emissions.best.isnan().any():
                raise NotANumberError
            raise OptionError(self._why_none(len(best_CL), starts, budget))
        best = _Best(best_CK, token_CK, best_CL, member_LK)
        likeliest = int(ahead_CS[0, firsts].argmax())
        canvas = best.tokens(window.scan.trace(best_CL, ahead_CS, firsts[likeliest], best.lowest))
        if window.stays is not None:
            end = self.automaton.advance(starts[likeliest], canvas.tolist())
            if end < 0 or (budget is not None and self.automaton.distance(end) > budget):
                # The best of what is relaxed is none of what is exact; else it is the best of both.
                return self._windows.last_counter(starts[likeliest], canvas.tolist())
        canvas_C = torch.from_numpy(canvas).to(self.device)
        plain = self._plain(window, emissions.total, first_S, last_S)
        if window.stays is not None:
            if plain is None:
                return frozenset(window.stays.group_G)
            _, _, overrun = plain
            if sum(overrun.values()) > OVERRUN:
                return frozenset(group for group, bound in overrun.items() if bound > OVERRUN / len(overrun))
        factor_CK, log_total = (
            self._in_log_space(window, emissions.total, first_S, last_S) if plain is None else plain[:2]
        )
        log_share_CK = factor_CK + emissions.total
        share_CK = log_share_CK.exp()
        inside = torch.where(share_CK > 0, emissions.entropy - log_share_CK, 0.0)
        entropy_C = (share_CK * inside).sum(dim=-1).clamp_(min=0.0).float()
        return Posterior(factor_CK, entropy_C, log_total, canvas_C, self._column_V)

    def _plain(
        self, window: Window, total_CK: Tensor, first_S: FloatArray, last_S: FloatArray
    ) -> tuple[Tensor, float, dict[int, float]] | None:
        """Log factors, log total and how likely what is left out is, by plain products, every position scaled; None
        where too much underflows."""
        top_C1 = total_CK.amax(dim=-1, keepdim=True)
        weight_CL = ((total_CK - top_C1).exp_() @ self._member_LK.T).cpu().numpy()
        if not window.whole:
            weight_CL = weight_CL[:, window.set_L]
        found = window.scan.shares(weight_CL, first_S, last_S, window.stays)
        if found is None:
            return None
        share_CL, log_total, overrun = found
        each_CL = np.divide(share_CL, weight_CL, out=np.zeros_like(share_CL), where=weight_CL > 0)
        factor_CK = torch.from_numpy(self._in_all_sets(window, each_CL, 0.0)).to(self.device) @ self._member_LK
        return factor_CK.log_().sub_(top_C1), log_total + float(top_C1.sum()), overrun

    def _in_log_space(
        self, window: Window, total_CK: Tensor, first_S: FloatArray, last_S: FloatArray
    ) -> tuple[Tensor, float]:
        total_CL = self._sets.logsumexp(total_CK.index_select(1, self._kind_E)).cpu().numpy()
        if not window.whole:
            total_CL = total_CL[:, window.set_L]
        before_CS, behind_CS = window.scan.sums(total_CL, first_S, last_S)
        log_total = float(np.logaddexp.reduce(first_S + behind_CS[0]))
        return self._factors(window, before_CS, behind_CS) - log_total, log_total

    def _factors(self, window: Window, before_CS: FloatArray, behind_CS: FloatArray) -> Tensor:
        """Log weight of everything around one class at one position, [C, K]."""
        around_CL = np.empty((len(before_CS) - 1, len(window.set_L)))
        # A part of the positions at a time: there may be a hundred thousand pairs.
        stride = max(1, _CELLS // len(window.source_P))
        for begin in range(0, len(around_CL), stride):
            part = slice(begin, begin + stride)
            around_CP = before_CS[:-1][part].take(window.source_P, axis=1)
            around_CP += behind_CS[1:][part].take(window.target_P, axis=1)
            around_CL[part] = window.pairs_of_set.logsumexp(torch.from_numpy(around_CP)).numpy()
        all_CL = torch.from_numpy(self._in_all_sets(window, around_CL, -math.inf)).to(self.device)
        return self._kinds.logsumexp(all_CL.index_select(1, self._set_E))

    def _in_all_sets(self, window: Window, value_CL: FloatArray, nothing: float) -> FloatArray:
        """Values of a window's sets as those of all sets."""
        if window.whole:
            return value_CL
        every_CL = np.full((len(value_CL), self._windows.sets), nothing)
        every_CL[:, window.set_L] = value_CL
        return every_CL

    def _why_none(self, width: int, starts: list[int], budget: int | None) -> str:
        needed = int(self.automaton.distances(np.array(starts)).min())
        if budget is not None and needed > width + budget:
            return f"nothing that short satisfies the constraint: it takes {needed} tokens, {width + budget} are left"
        return "no text satisfies the constraint together with the tokens that are given or excluded"


@dataclass(frozen=True, slots=True)
class _Best:
    """The best tokens of sets of classes."""

    score_CK: FloatArray
    token_CK: NDArray[np.int64]
    score_CL: FloatArray
    member_LK: NDArray[np.bool_]

    def tokens(self, sets: Sequence[int]) -> NDArray[np.int64]:
        """The best token of one set for every position, of equal ones the lowest."""
        return self._lowest(np.arange(len(sets)), np.array(sets))

    def lowest(self, place: int, sets: Sequence[int]) -> int:
        """Which of several sets has the lowest best token at a position."""
        return int(self._lowest(np.full(len(sets), place), np.array(sets)).argmin())

    def _lowest(self, place_N: NDArray[np.int64], set_N: NDArray[np.int64]) -> NDArray[np.int64]:
        is_best_NK = self.score_CK[place_N] == self.score_CL[place_N, set_N][:, None]
        is_best_NK &= self.member_LK[set_N]
        tokens: NDArray[np.int64] = np.where(is_best_NK, self.token_CK[place_N], np.iinfo(np.int64).max).min(axis=1)
        return tokens
