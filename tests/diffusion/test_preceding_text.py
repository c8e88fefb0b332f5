from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import RepetitionPenaltyLogitsProcessor

from gesso.diffusion.canvas_state import CanvasState, DenoisingRules, Pins
from gesso.diffusion.denoise import denoise_step
from gesso.diffusion.logits_processing import LogitsProcessing
from gesso.diffusion.penalties import Penalties
from gesso.diffusion.preceding_text import PrecedingText
from gesso.diffusion.step import CanvasShape
from gesso.diffusion.stopping.stable_and_confident import StableAndConfident

VOCAB = 7
TOKENS = st.lists(st.integers(0, VOCAB - 1), max_size=9)


def penalise(
    logits_V: Tensor, prompt: Sequence[int], answer: Sequence[int], penalties: Penalties, uncounted: Sequence[int]
) -> Tensor:
    """One position, as the definitions have it."""
    whole = [(token, False) for token in prompt] + [(token, True) for token in answer]
    window = len(whole) if penalties.window is None else penalties.window
    seen = [entry for entry in whole[max(0, len(whole) - window) :] if entry[0] not in uncounted]
    found_V = logits_V.clone()
    for token in range(len(logits_V)):
        times = seen.count((token, True))
        if times or (token, False) in seen:
            value = float(found_V[token])
            found_V[token] = value / penalties.repetition if value > 0 else value * penalties.repetition
        found_V[token] -= penalties.frequency * times + penalties.presence * (times > 0)
    return found_V


@given(
    prompt=TOKENS,
    answer=TOKENS,
    draft=st.lists(st.tuples(st.integers(0, VOCAB - 1), st.booleans()), min_size=1, max_size=6),
    penalties=st.builds(
        Penalties,
        st.sampled_from([0.0, 0.5, -1.0]),
        st.sampled_from([0.0, 0.75]),
        st.sampled_from([1.0, 2.0, 0.5]),
        st.none() | st.integers(1, 12),
    ),
    uncounted=st.sets(st.integers(0, VOCAB + 2), max_size=2),
    grown=st.lists(st.integers(0, 9), max_size=3),
)
def test_each_position_is_penalised_for_what_stands_before_it(
    prompt: list[int],
    answer: list[int],
    draft: list[tuple[int, bool]],
    penalties: Penalties,
    uncounted: set[int],
    grown: list[int],
) -> None:
    logits = torch.randn(len(draft), VOCAB, generator=torch.Generator().manual_seed(1))
    logits[:, 3] = -torch.inf
    tokens, said = torch.tensor([token for token, _ in draft]), torch.tensor([known for _, known in draft])
    preceding = PrecedingText(penalties, prompt, uncounted, VOCAB)
    for committed in sorted({0, *(min(place, len(answer)) for place in grown), len(answer)}):
        preceding.grow(answer[:committed])
    penalty = preceding.penalty(tokens, said)
    found = logits.clone()
    for start in range(0, len(draft), 4):  # a few rows at a time
        rows = slice(start, start + 4)
        penalty.apply(found[rows], rows)
    # What is not known yet takes a place, and is no token.
    left = [token if known else -1 for token, known in draft]
    for place in range(len(draft)):
        expected = penalise(logits[place], prompt, [*answer, *left[:place]], penalties, [*uncounted, -1])
        torch.testing.assert_close(found[place], expected)


def test_repetitions_are_penalised_as_transformers_does() -> None:
    logits = torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(2))
    context = [1, 4, 4, 2]
    expected = RepetitionPenaltyLogitsProcessor(1.3)(torch.tensor([context]), logits.clone())
    preceding = PrecedingText(Penalties(repetition=1.3), context[:2], (), VOCAB)
    preceding.grow(context[2:])
    found = logits.clone()
    preceding.penalty(torch.tensor([0]), torch.tensor([False])).apply(found, slice(0, 1))
    torch.testing.assert_close(found, expected)


class FixedLogits:
    """A denoiser, and its vocabulary, that says the same of every canvas: hidden states are logits."""

    device = torch.device("cpu")

    def __init__(self, logits_CV: Tensor) -> None:
        self._logits_CV = logits_CV

    @property
    def vocabulary(self) -> Any:
        return self

    def denoise_flat(self, canvas_N: Tensor, *_: object) -> Tensor:
        return self._logits_CV

    def logits(self, hidden_ND: Tensor) -> Tensor:
        return hidden_ND.clone()

    def mix(self, scores_NV: Tensor) -> Tensor:
        return scores_NV.new_zeros(len(scores_NV), 2)


@pytest.mark.parametrize("held", [(), (2, 5)])
@pytest.mark.parametrize(
    "penalties",
    [
        Penalties(presence=1.0),
        Penalties(frequency=0.7, window=3),
        Penalties(repetition=2.0),
        Penalties(frequency=-0.5, repetition=1.5),
    ],
)
def test_a_canvas_settles_on_what_it_would_be_token_by_token(penalties: Penalties, held: tuple[int, ...]) -> None:
    width, prompt, answer = 9, [1, 1, 2], [0]
    logits = 0.7 * torch.randn(width, VOCAB, generator=torch.Generator().manual_seed(5)) + 0.2 * torch.arange(VOCAB)
    pins = None
    if held:
        held_C = torch.zeros(width, dtype=torch.bool)
        held_C[list(held)] = True
        pins = Pins(torch.full((width,), 6), held_C, torch.zeros_like(held_C), ())
    preceding = PrecedingText(penalties, prompt, (), VOCAB)
    preceding.grow(answer)
    state = CanvasState(
        DenoisingRules(
            max_denoising_steps=30,
            stopping=StableAndConfident(stability_threshold=1, confidence_threshold=10.0),
            logits_processing=LogitsProcessing(temperature=0.0, penalties=penalties),
        ),
        CanvasShape(width, VOCAB),
        torch.Generator().manual_seed(0),
        pins=pins,
        preceding=preceding,
    )
    while not state.finished:
        denoise_step(FixedLogits(logits), [state], None)
    written: list[int] = []
    for place in range(width):
        likeliest = int(penalise(logits[place], prompt, [*answer, *written], penalties, ()).argmax())
        written.append(6 if place in held else likeliest)
    assert state.converged
    assert state.argmax_C.tolist() == written
    assert written != [6 if place in held else int(logits[place].argmax()) for place in range(width)]
