"""What a model's prediction of a canvas becomes under a constraint: exactly, not by masking left to right.

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
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gesso.constraints.automaton import REFUSED, TokenAutomaton
from gesso.constraints.class_pass import TokenClasses
from gesso.constraints.emissions import Emissions
from gesso.constraints.scan import FloatArray, Scan
from gesso.constraints.segments import Segments
from gesso.errors import OptionError


@dataclass(frozen=True, slots=True)
class Posterior:
    """A canvas under its constraint; tensors are on the prediction's device."""

    factor_CK: Tensor
    """What the constraint adds to the scores of a class to make them log marginals, fp64."""
    entropy_C: Tensor
    """Of the marginals, nats, fp32."""
    log_total: float
    """Log of the summed weight of all valid canvases; minus the plain normalisers, of the chance of a valid one."""
    canvas_C: Tensor
    """The most probable valid canvas, int64. Of equal ones the lower states and tokens, from left to right."""
    end_state: int
    """Where that canvas leaves the automaton."""
    _column_V: Tensor

    def apply(self, log_p_RV: Tensor, rows: slice = slice(None)) -> Tensor:
        """Log marginals [R, V], -inf for what is impossible; `log_p_RV` are the rows `rows` of the prediction."""
        factor_RK = torch.nn.functional.pad(self.factor_CK[rows].to(log_p_RV.dtype), (0, 1), value=-math.inf)
        return factor_RK.index_select(1, self._column_V).add_(log_p_RV)


class Lattice:
    """The tables for inference under one automaton, on one device."""

    def __init__(self, automaton: TokenAutomaton, device: torch.device | str = "cpu") -> None:
        self.automaton = automaton
        self.device = torch.device(device)
        states, classes = automaton.next_SK.shape
        source, kind = np.nonzero(automaton.next_SK != REFUSED)
        target = automaton.next_SK[source, kind].astype(np.int64)
        pairs, pair = np.unique(source * states + target, return_inverse=True)
        self._source, self._target = np.divmod(pairs, states)
        sets = np.split(kind[np.argsort(pair, kind="stable")], np.bincount(pair).cumsum()[:-1])
        number: dict[bytes, int] = {}
        self._set = np.array([number.setdefault(kinds.tobytes(), len(number)) for kinds in sets])
        kind_E = np.concatenate([np.frombuffer(kinds, dtype=kind.dtype) for kinds in number])
        set_E = np.repeat(np.arange(len(number)), [len(kinds) // kind.itemsize for kinds in number])

        member_LK = np.zeros((len(number), classes))
        member_LK[set_E, kind_E] = 1.0
        self._member_LK = torch.from_numpy(member_LK).to(self.device)
        self._member_of_set = member_LK > 0
        self._kind_of_E, self._begins_L = kind_E, np.unique(set_E, return_index=True)[1]

        self._classes = Segments(automaton.class_V, classes, self.device)
        self._sets = Segments(set_E, len(number), self.device)
        self._kinds = Segments(kind_E, classes, self.device)
        self._pairs_of_set = Segments(self._set, len(number), self.device)
        self._kind_E, self._set_E, self._source_P, self._target_P, self._column_V = (
            torch.from_numpy(places).to(self.device)
            for places in (
                kind_E, set_E, self._source, self._target, np.where(automaton.class_V < 0, classes, automaton.class_V)
            )
        )  # fmt: skip
        self._scan = Scan(self._source, self._target, self._set, states)

    @cached_property
    def token_classes(self) -> TokenClasses:
        """The tokens in order of class, for a pass that does not hold its scores."""
        return TokenClasses(self.automaton.class_V, self.device)

    @cached_property
    def class_V(self) -> Tensor:
        """The class of every token, -1 for one that may stand nowhere."""
        return torch.from_numpy(self.automaton.class_V).to(self.device, torch.int64)

    def prepare(self) -> None:
        """Make the tables that else are made when they are first asked for: its size is final then."""
        _ = self.token_classes, self.class_V

    def emissions(self, log_p_RV: Tensor) -> Emissions:
        """Sum a prediction up: log-probabilities or logits, -inf where a token must not stand."""
        return Emissions(*self._classes.summary(log_p_RV))

    def posterior(
        self, emissions: Emissions, start: int | Collection[int], budget: int | None, canvas_only: bool = False
    ) -> Posterior:
        """Exact marginals and the most probable canvas among all that can still become a valid text.

        Args:
            emissions: of all C positions.
            start: the state before the canvas, or several that it may be.
            budget: tokens that may follow this canvas, the end token included; with 0 the canvas itself has to end
                the text. None is no bound.
            canvas_only: leaves the marginals out: factors and entropies are NaN.

        Raises:
            OptionError: no canvas is valid: it is too short, or pins contradict the constraint.
        """
        automaton = self.automaton
        starts = [start] if isinstance(start, int) else sorted(start)
        first_S = np.full(len(automaton.next_SK), -math.inf)
        first_S[starts] = 0.0
        last_S = np.zeros_like(first_S) if budget is None else np.where(automaton.distance_S <= budget, 0.0, -math.inf)

        best_CK, token_CK = emissions.best.double().cpu().numpy(), emissions.token.cpu().numpy()
        best_CL = np.maximum.reduceat(best_CK.take(self._kind_of_E, axis=1), self._begins_L, axis=1)
        ahead_CS = self._scan.best(best_CL, last_S)
        if (first_S + ahead_CS[0]).max() == -math.inf:
            raise OptionError(self._why_none(len(best_CL), starts, budget))
        best = _Best(best_CK, token_CK, best_CL, self._member_of_set)
        sets, end = self._scan.trace(best_CL, ahead_CS, starts[int(ahead_CS[0, starts].argmax())], best.lowest)
        canvas = best.tokens(sets)
        canvas_C = torch.from_numpy(canvas).to(self.device)
        if canvas_only:
            nothing = torch.full_like(emissions.total, math.nan)
            return Posterior(nothing, nothing[:, 0].float(), math.nan, canvas_C, end, self._column_V)

        plain = self._plain(emissions.total, first_S, last_S)
        factor_CK, log_total = self._in_log_space(emissions.total, first_S, last_S) if plain is None else plain
        log_share_CK = factor_CK + emissions.total
        share_CK = log_share_CK.exp()
        inside = torch.where(share_CK > 0, emissions.entropy - log_share_CK, 0.0)
        entropy_C = (share_CK * inside).sum(dim=-1).clamp_(min=0.0).float()
        return Posterior(factor_CK, entropy_C, log_total, canvas_C, end, self._column_V)

    def _plain(self, total_CK: Tensor, first_S: FloatArray, last_S: FloatArray) -> tuple[Tensor, float] | None:
        """Log factors and log total by plain products, every position scaled; None where too much underflows."""
        top_C1 = total_CK.amax(dim=-1, keepdim=True)
        weight_CL = ((total_CK - top_C1).exp_() @ self._member_LK.T).cpu().numpy()
        found = self._scan.shares(weight_CL, first_S, last_S)
        if found is None:
            return None
        share_CL, log_total = found
        each_CL = np.divide(share_CL, weight_CL, out=np.zeros_like(share_CL), where=weight_CL > 0)
        factor_CK = torch.from_numpy(each_CL).to(self.device) @ self._member_LK
        return factor_CK.log_().sub_(top_C1), log_total + float(top_C1.sum())

    def _in_log_space(self, total_CK: Tensor, first_S: FloatArray, last_S: FloatArray) -> tuple[Tensor, float]:
        total_CL = self._sets.logsumexp(total_CK.index_select(1, self._kind_E)).cpu().numpy()
        before_CS, behind_CS = self._scan.sums(total_CL, first_S, last_S)
        log_total = float(np.logaddexp.reduce(first_S + behind_CS[0]))
        return self._factors(before_CS, behind_CS) - log_total, log_total

    def _factors(self, before_CS: FloatArray, behind_CS: FloatArray) -> Tensor:
        """Log weight of everything around one class at one position, [C, K]."""
        before, behind = torch.from_numpy(before_CS).to(self.device), torch.from_numpy(behind_CS).to(self.device)
        around_CP = before[:-1].index_select(1, self._source_P).add_(behind[1:].index_select(1, self._target_P))
        return self._kinds.logsumexp(self._pairs_of_set.logsumexp(around_CP).index_select(1, self._set_E))

    def _why_none(self, width: int, starts: list[int], budget: int | None) -> str:
        needed = int(self.automaton.distance_S[starts].min())
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
