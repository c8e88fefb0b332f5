"""Applies a constraint to a request's output, canvas by canvas."""

import threading
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gesso.constraints.automaton import TokenAutomaton
from gesso.constraints.class_pass import read_classes
from gesso.constraints.emissions import Emissions
from gesso.constraints.held_bytes import held_bytes
from gesso.constraints.inference import Lattice, Posterior
from gesso.diffusion.canvas_state import Pins
from gesso.diffusion.logits_processing import ConstraintPosterior
from gesso.errors import OptionError
from gesso.nn.fp64 import fp64_device
from gesso.nn.vocabulary import ROWS, Vocabulary, VocabularyPass
from gesso.sized_cache import CacheStats, SizedCache

TABLE_BYTES = 256 * 2**20
"""Bytes of inference tables that are kept, on all devices together."""
_building: dict[tuple[TokenAutomaton, torch.device], threading.Lock] = {}
"""A lock for each that is being made: requests that waited for one automaton come together."""
_tables: SizedCache[tuple[TokenAutomaton, torch.device], Lattice] = SizedCache(TABLE_BYTES)


def get_lattice(automaton: TokenAutomaton, device: torch.device) -> Lattice:
    """Returns the inference tables of an automaton on a device, or on the CPU for one without fp64; the most recently
    used stay cached, up to `TABLE_BYTES` in all."""
    device = fp64_device(device)
    key = automaton, device
    if (lattice := _tables.get(key)) is not None:
        return lattice
    with _building.setdefault(key, threading.Lock()):
        try:
            if (lattice := _tables.peek(key)) is None:
                lattice = Lattice(automaton, device)
                lattice.prepare()
                # Its automaton is counted here as well: a lattice keeps it when the compiler lets it go.
                _tables.put(key, lattice, held_bytes(lattice))
        finally:
            _building.pop(key, None)
    return lattice


def table_stats() -> CacheStats:
    """Returns the number of cached inference tables in this process, and their bytes with those of their automata."""
    return _tables.stats


class OutputConstraint:
    """Tracks the state of one request's output in its automaton."""

    def __init__(self, lattice: Lattice, option: str | None = None) -> None:
        """
        Args:
            option: what asks for it, and is to blame where no text satisfies it.
        """
        self._lattice = lattice
        self._option = option
        self._state = self.automaton.start

    @property
    def automaton(self) -> TokenAutomaton:
        """Returns the automaton over tokens that the output must satisfy."""
        return self._lattice.automaton

    def allows(self, tokens: Sequence[int]) -> bool:
        """Says whether these tokens may come next."""
        return self.automaton.advance(self._state, tokens) >= 0

    def fits(self, tokens: Sequence[int], left: int) -> bool:
        """Says whether these tokens may come next and the output can still end within `left` tokens, them included."""
        state = self.automaton.advance(self._state, tokens)
        return state >= 0 and self.automaton.distance(state) <= left - len(tokens)

    def advance(self, tokens: list[int]) -> None:
        """Appends these tokens, which must be allowed, to the output."""
        self._state = self.automaton.advance(self._state, tokens)

    def on_canvas(self, left: int, width: int, pins: Pins | None) -> "CanvasConstraintState":
        """Returns the constraint on the next canvas of `width`, when `left` tokens may still be written."""
        return CanvasConstraintState(self._lattice, self._state, left, width, pins, self._option)


class CanvasConstraintState:
    """Constrains one canvas; implements `gesso.diffusion.logits_processing.CanvasConstraint`."""

    def __init__(
        self, lattice: Lattice, state: int, left: int, width: int, pins: Pins | None, option: str | None = None
    ) -> None:
        self._lattice = lattice
        self._state = state
        self._left = left
        self._width = width
        self._pins = pins
        self._option = option
        self._possible_CK: Tensor | None = None

    def reads_hidden(self, device: torch.device) -> bool:
        return device.type == self._lattice.device.type

    def forced(self, piece: Callable[[int], str]) -> Tensor:
        """Finds the free positions that hold the same text in all possible canvases, bool [C] on the CPU."""
        if self._possible_CK is None:
            return torch.zeros(self._width, dtype=torch.bool)
        possible_CK = self._possible_CK.cpu()
        one_C = (possible_CK.sum(dim=1) == 1) & (self._fixed() < 0)
        kind_C = possible_CK.int().argmax(dim=1)
        alike = {kind for kind in kind_C[one_C].unique().tolist() if self._lattice.one_text(kind, piece)}
        return one_C & torch.tensor([kind in alike for kind in kind_C.tolist()])

    def summarise(self, scores_RV: Tensor, rows: slice) -> Emissions:
        """Sums scores up by class of tokens. Pinned positions are certain of their token; those past the last token
        that may be written, of the pad fill."""
        fixed = self._fixed()[rows].to(scores_RV.device)
        held = fixed >= 0
        if held.any():
            scores_RV[held] = -torch.inf
            scores_RV[held, fixed[held]] = 0.0
        return self._lattice.emissions(scores_RV.to(self._lattice.device))

    def predict(
        self, vocabulary: Vocabulary, hidden_ND: Tensor, temperature_N: Tensor, uniform_N: Tensor
    ) -> VocabularyPass:
        classes = self._lattice.token_classes
        rows = [slice(start, start + ROWS) for start in range(0, self._width, ROWS)]
        passes = [read_classes(vocabulary, classes, hidden_ND[part], temperature_N[part]) for part in rows]
        fixed_N = self._fixed().to(hidden_ND.device)
        seen = Emissions.cat([part.summary for part in passes])
        seen.hold(fixed_N, self._lattice.class_V)
        posterior = self._posterior(seen)
        ends = [
            part.finish(posterior.factor_CK[place], uniform_N[place]) for part, place in zip(passes, rows, strict=True)
        ]
        sample_N, embedding_ND = (torch.cat(parts) for parts in zip(*ends, strict=True))
        held_N = fixed_N >= 0
        if held_N.any():
            embedding_ND[held_N] = vocabulary.embed(fixed_N[held_N])
        return VocabularyPass(
            sample_N=torch.where(held_N, fixed_N, sample_N),
            argmax_N=posterior.canvas_C,
            entropy_N=posterior.entropy_C,
            normaliser_N=torch.zeros_like(posterior.entropy_C),
            embedding_ND=embedding_ND,
        )

    def infer(self, parts: Sequence[Emissions]) -> ConstraintPosterior:
        posterior = self._posterior(Emissions.cat(parts))
        return ConstraintPosterior(posterior.canvas_C, posterior.entropy_C, posterior.apply)

    def _posterior(self, emissions: Emissions) -> Posterior:
        # Where the tokens are used up the text may end without its end token.
        budget = self._left - self._width + 1 if self._left >= self._width else 0
        try:
            posterior = self._lattice.posterior(emissions, self._state, budget)
        except OptionError as error:
            raise OptionError(str(error), option=self._option) from None
        self._possible_CK = posterior.factor_CK > -torch.inf
        return posterior

    def _fixed(self) -> Tensor:
        """Returns the token of every position that is not free, -1 elsewhere, int64 [C]."""
        fixed_C = torch.full((self._width,), -1)
        if self._pins is not None:
            fixed_C = torch.where(self._pins.held_C, self._pins.tokens_C, fixed_C)
        fixed_C[self._left :] = self._lattice.automaton.fill_token
        return fixed_C
