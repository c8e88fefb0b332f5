"""Denoises canvases, one step at a time.

Several states (`gesso.diffusion.canvas_state`) share a pass of the model; each has its own width, settings, states of
sampler and stopping rule, and random generator: none depends on the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from gesso.diffusion.canvas_state import CanvasState
from gesso.diffusion.guidance import guided_scores
from gesso.diffusion.logits_changes import Ban, LogitsChange
from gesso.diffusion.logits_processing import (
    ROWS,
    processed_log_probs,
    processed_pass,
)
from gesso.diffusion.prediction import LogProbs, Prediction
from gesso.nn.vocabulary import Vocabulary

Cache_contra = TypeVar("Cache_contra", contravariant=True)


class Denoiser(Protocol[Cache_contra]):
    """Gives this package all that it knows of a model."""

    @property
    def device(self) -> torch.device: ...

    @property
    def vocabulary(self) -> Vocabulary: ...

    def denoise_flat(
        self, canvas_N: Tensor, widths: Sequence[int], cache: Cache_contra, self_conditioning_ND: Tensor | None
    ) -> Tensor:
        """Runs one pass over canvases laid flat, behind a cache that it does not change; returns hidden states [N,
        D]."""


def denoise_step(denoiser: Denoiser[Cache_contra], states: Sequence[CanvasState], cache: Cache_contra) -> None:
    """Takes one step of every state, in one pass. None may be finished.

    The rows of `cache` belong to `states` in order, and behind these to the second prompts of those that are `guided`.
    """
    given = step_inputs(states)
    found_ND = denoiser.denoise_flat(
        given.canvas_N.to(denoiser.device), given.widths, cache, given.self_conditioning_ND
    )
    finish_step(denoiser.vocabulary, states, found_ND)


@dataclass(frozen=True, slots=True)
class StepInputs:
    """Holds what one denoising pass is given: the canvases, and behind them those of the second prompts."""

    canvas_N: Tensor
    widths: list[int]
    self_conditioning_ND: Tensor | None


def step_inputs(states: Sequence[CanvasState]) -> StepInputs:
    """Begins a step: returns what its pass is given; see `denoise_step`."""
    assert not any(state.finished for state in states)
    for state in states:
        state.begin_step()
    rows = [*states, *(state for state in states if state.guided)]
    canvas_N = torch.cat([state.canvas_C for state in rows])
    return StepInputs(canvas_N, [state.width for state in rows], _self_conditioning(rows))


def finish_step(vocabulary: Vocabulary, states: Sequence[CanvasState], found_ND: Tensor) -> None:
    """Takes a step by what its pass has found; see `denoise_step`."""
    widths = [state.width for state in states]
    found = found_ND.split([*widths, *(state.width for state in states if state.guided)])
    others = iter(found[len(states) :])
    hidden = found[: len(states)]
    for state, hidden_CD in zip(states, hidden, strict=True):
        if state.probe is not None and state.steps == 0:
            state.probe.read(vocabulary, hidden_CD)
    if len(found) > len(states):
        pairs = zip(states, hidden, strict=True)
        hidden = tuple(torch.cat((own, next(others)), dim=-1) if state.guided else own for state, own in pairs)
    take_step(vocabulary, states, hidden)


def take_step(vocabulary: Vocabulary, states: Sequence[CanvasState], hidden: Sequence[Tensor]) -> None:
    """Takes the next step of every state from its hidden states [C, D]; of a guided one [C, 2 D]."""
    # Whether a state needs its logits is another matter once it has taken its step.
    whole = [state.needs_logits for state in states]
    if fused := [i for i, needed in enumerate(whole) if not needed]:
        _step_fused(vocabulary, [states[i] for i in fused], [hidden[i] for i in fused])
    for state, hidden_CD, needed in zip(states, hidden, whole, strict=True):
        if needed:
            _step_processed(vocabulary, state, hidden_CD)


def _step_fused(vocabulary: Vocabulary, states: Sequence[CanvasState], hidden: Sequence[Tensor]) -> None:
    """Steps states in one pass over the vocabulary, without holding their logits."""
    widths = [state.width for state in states]
    temperatures = torch.tensor([state.temperature for state in states]).repeat_interleave(torch.tensor(widths))
    uniforms = torch.cat([state.draw_uniform() for state in states])
    # What a canvas of one step believes conditions nothing: token by token it is left out.
    mix = any(state.rules.max_denoising_steps > 1 for state in states)
    hidden_ND, temperature_N = torch.cat(list(hidden)), temperatures.to(hidden[0].device)
    outcome = vocabulary.predict(hidden_ND, temperature_N, uniforms, mix=mix)
    samples, bests = torch.stack((outcome.sample_N, outcome.argmax_N)).cpu()
    confidences: Sequence[Tensor | None] = [None] * len(states)
    if any(state.rules.sampler.reads_confidence for state in states):
        tokens_N = torch.cat(
            [_drawn(*drawn) for drawn in zip(states, samples.split(widths), bests.split(widths), strict=True)]
        )
        scores_N = vocabulary.log_probs_of(
            tokens_N.to(hidden_ND.device), hidden_ND, temperature_N, outcome.normaliser_N
        )
        confidences = scores_N.exp().cpu().split(widths)
    parts = zip(
        states,
        samples.split(widths),
        bests.split(widths),
        outcome.entropy_N.cpu().split(widths),
        outcome.embedding_ND.split(widths),
        confidences,
        strict=True,
    )
    for state, sample, best, entropy, embedding, confidence in parts:
        state.advance(Prediction(_drawn(state, sample, best), best, entropy, confidence), embedding)


def _drawn(state: CanvasState, sample_C: Tensor, argmax_C: Tensor) -> Tensor:
    """Returns the sample, which is the likeliest token at temperature 0 of the request."""
    return argmax_C if state.rules.logits_processing.temperature == 0 else sample_C


def _step_processed(vocabulary: Vocabulary, state: CanvasState, hidden_CD: Tensor) -> None:
    """Steps one canvas over its full logits, which its request processes."""
    temperature_C = torch.full((state.width,), state.temperature, device=hidden_CD.device)
    changes = _changes(state)
    uniform_C, processing = state.draw_uniform(), state.rules.logits_processing
    scores, hidden_CD = guided_scores(state.rules.guidance, state.time, vocabulary, hidden_CD)
    mix = state.rules.max_denoising_steps > 1  # as above
    outcome = processed_pass(
        scores, hidden_CD, temperature_C, uniform_C, processing, changes, state.constraint, mix=mix
    )
    log_probs, confidence_C, reads_confidence = None, None, state.rules.sampler.reads_confidence
    if state.rules.reads_log_probs or reads_confidence:
        log_probs = processed_log_probs(scores, hidden_CD, temperature_C, processing, changes, state.constraint)
    if log_probs is not None and reads_confidence:
        confidence_C = _confidence(log_probs, outcome.sample_N)
    sample_C, argmax_C, entropy_C = outcome.sample_N.cpu(), outcome.argmax_N.cpu(), outcome.entropy_N.cpu()
    state.advance(Prediction(sample_C, argmax_C, entropy_C, confidence_C, log_probs), outcome.embedding_ND)


def _changes(state: CanvasState) -> list[LogitsChange]:
    """Returns what changes a canvas's logits beside its request's biases: bans before its pins, and penalties."""
    changes: list[LogitsChange] = [] if state.pins is None else [Ban(state.pins.never_C, state.pins.banned)]
    if (penalty := state.penalty()) is not None:
        changes.append(penalty)
    return changes


def _confidence(log_probs: LogProbs, sample_C: Tensor) -> Tensor:
    """Returns the probability of each drawn token, fp32 [C] on the CPU."""
    parts = [slice(start, start + ROWS) for start in range(0, len(sample_C), ROWS)]
    found = [log_probs(rows).gather(1, sample_C[rows, None])[:, 0].exp() for rows in parts]
    return torch.cat(found).cpu()


def _self_conditioning(states: Sequence[CanvasState]) -> Tensor | None:
    """Returns the self-conditioning of the batch, flat [N, D]; a canvas at its first step has exact zeros."""
    known = next((state.self_conditioning_CD for state in states if state.self_conditioning_CD is not None), None)
    if known is None:
        return None
    return torch.cat(
        [
            known.new_zeros(state.width, known.shape[1])
            if state.self_conditioning_CD is None
            else state.self_conditioning_CD
            for state in states
        ]
    )
