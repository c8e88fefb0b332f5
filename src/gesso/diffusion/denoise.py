"""Denoises canvases, one step at a time.

Life cycle of a `CanvasState`: its sampler makes the first canvas (noise, or a given canvas); in every `denoise_step`
the model proposes a token per position, the sampler makes the next canvas of it, and the stopping rule is asked; when
it is `finished`, its `argmax_C`, the sampler's output, is its text. Several states share a pass of the model; each
has its own width, settings, states of sampler and stopping rule, and random generator: none depends on the others.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from gesso.diffusion.guidance import Guidance, guided_scores
from gesso.diffusion.logits_processing import (
    ROWS,
    CanvasConstraint,
    LogitsProcessing,
    processed_log_probs,
    processed_pass,
)
from gesso.diffusion.prediction import Prediction
from gesso.diffusion.samplers import SAMPLERS, Sampler
from gesso.diffusion.schedules import SCHEDULES, Schedule
from gesso.diffusion.step import CanvasInfo, StepInfo
from gesso.diffusion.stopping import STOPPING_RULES, StoppingRule
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


@dataclass(frozen=True, slots=True)
class DenoisingRules:
    """Holds the rules by which a canvas is denoised; strategies that are not named are the default ones."""

    max_denoising_steps: int
    """Steps that a canvas may take."""
    schedule: Schedule = field(default_factory=lambda: SCHEDULES.make(SCHEDULES.default, None, {}))
    sampler: Sampler = field(default_factory=lambda: SAMPLERS.make(SAMPLERS.default, None, {}))
    stopping: StoppingRule = field(default_factory=lambda: STOPPING_RULES.make(STOPPING_RULES.default, None, {}))
    logits_processing: LogitsProcessing = field(default_factory=LogitsProcessing)
    guidance: Guidance = field(default_factory=Guidance)
    total_steps: int | None = None
    """Steps of the schedule, of which only the last ones are taken; None is `max_denoising_steps`."""
    end_tokens: tuple[int, ...] = ()
    """Token ids that end the answer, where only what stands up to the first of them has to settle."""

    @property
    def reads_log_probs(self) -> bool:
        """Says whether the sampler or the stopping rule needs `Prediction.log_probs`."""
        return self.sampler.reads_log_probs or self.stopping.reads_log_probs

    def temperature(self, step: int) -> float:
        """Returns the temperature of step `step`, counted from 1."""
        return self.schedule.temperature(
            self.max_denoising_steps - step + 1, self.total_steps or self.max_denoising_steps
        )


@dataclass(frozen=True, slots=True)
class Pins:
    """Holds some positions of a canvas at given tokens; all are CPU tensors [C].

    A pinned position enters the model as itself in every step, is never re-noised, is certain to the sampler and to the
    stopping rule, and is what is emitted. What the model itself would say there only conditions the next step.
    """

    tokens_C: Tensor
    """Token ids, int64; used where `held_C`."""
    held_C: Tensor
    """Bool."""
    never_C: Tensor
    """Free positions that must not be any of `banned`, bool."""
    banned: tuple[int, ...]
    """Token ids, such as those that would end the text before a later pin."""


@dataclass(slots=True)
class Probe:
    """Asks the first step for the probabilities of some beginnings of the canvas."""

    sequences: tuple[tuple[int, ...], ...]
    logprobs: tuple[float, ...] = ()
    """Nats, one for each sequence: the sum over its tokens of each position's own log-probability, untempered. Empty
    before the first step."""

    def read(self, vocabulary: Vocabulary, hidden_CD: Tensor) -> None:
        """Computes the log-probabilities from the hidden states of the canvas, [C, D]."""
        longest = max(len(sequence) for sequence in self.sequences)
        scores_PV = vocabulary.logits(hidden_CD[:longest]).log_softmax(dim=-1)
        self.logprobs = tuple(
            float(scores_PV[torch.arange(len(sequence)), torch.tensor(sequence)].sum()) for sequence in self.sequences
        )


class CanvasState:
    """Holds one canvas of C tokens on its way from noise to text."""

    def __init__(
        self,
        rules: DenoisingRules,
        vocab_size: int,
        width: int,
        generator: torch.Generator,
        start_canvas: Sequence[int] | None = None,
        pins: Pins | None = None,
        constraint: CanvasConstraint | None = None,
        strength: float | None = None,
        probe: Probe | None = None,
        mask_token: int | None = None,
        canvas_length: int | None = None,
    ) -> None:
        """
        Args:
            start_canvas: what it starts from; None starts from noise.
            strength: share of the start canvas that noise takes the place of; None leaves it as it is.
            mask_token: what noise is; None where it is uniform.
            canvas_length: positions of a whole canvas; None where this one is whole.
        """
        self.rules = rules
        self.generator = generator
        self.pins = pins
        self.constraint = constraint
        self.probe = probe
        self.info = CanvasInfo(
            width=width,
            vocab_size=vocab_size,
            steps=rules.max_denoising_steps,
            total_steps=rules.total_steps or rules.max_denoising_steps,
            start_C=None if start_canvas is None else torch.tensor(start_canvas),
            strength=strength,
            held_C=None if pins is None else pins.held_C,
            end_tokens=rules.end_tokens,
            mask_token=mask_token,
            canvas_length=canvas_length,
        )
        first_C, self._sampler_state = rules.sampler.start(self.info, generator)
        self._stopping_state = rules.stopping.start(self.info)
        self.canvas_C = self._pin(first_C)
        self.argmax_C = self.canvas_C
        """The sampler's output so far, int64."""
        self.accepted_C = torch.zeros(width, dtype=torch.bool)
        self.entropy_C = torch.full((width,), float("nan"))
        self.self_conditioning_CD: Tensor | None = None
        self.steps = 0
        self.guided_steps = 0
        """Of them, those that took a second pass."""
        self.converged = False
        self._uniform_C: Tensor | None = None

    @property
    def width(self) -> int:
        return self.canvas_C.shape[0]

    @property
    def finished(self) -> bool:
        return self.converged or self.steps >= self.rules.max_denoising_steps

    @property
    def temperature(self) -> float:
        """Returns the temperature of the next step."""
        return self.rules.temperature(self.steps + 1)

    @property
    def time(self) -> float:
        """Returns the noise level of the next step."""
        return StepInfo(self.info, self.steps + 1, self.temperature).time

    @property
    def guided(self) -> bool:
        """Says whether the next step takes a second pass, behind another prompt."""
        return self.rules.guidance.doubles(self.time)

    def _pin(self, tokens_C: Tensor) -> Tensor:
        return tokens_C if self.pins is None else torch.where(self.pins.held_C, self.pins.tokens_C, tokens_C)

    @property
    def needs_logits(self) -> bool:
        """Says whether a step needs the logits of the whole canvas."""
        if self.constraint is not None or self.rules.logits_processing.needs_logits or self.rules.reads_log_probs:
            return True
        if self.guided or self.rules.guidance.steers(self.time):
            return True
        return self.pins is not None and bool(self.pins.never_C.any())

    def draw_uniform(self) -> Tensor:
        """Returns the numbers that decide the next step's samples, [C] in [0, 1): the same until the step is taken."""
        if self._uniform_C is None:
            self._uniform_C = torch.rand(self.width, generator=self.generator)
        return self._uniform_C

    def copy_from(self, other: "CanvasState") -> None:
        """Goes on from where another canvas of the same width and rules is, with random numbers of its own."""
        self.canvas_C, self.argmax_C, self.accepted_C = other.canvas_C, other.argmax_C, other.accepted_C
        self.entropy_C, self.self_conditioning_CD = other.entropy_C, other.self_conditioning_CD
        self._sampler_state, self._stopping_state = other._sampler_state, other._stopping_state
        self.steps, self.guided_steps, self.converged = other.steps, other.guided_steps, other.converged
        self._uniform_C = None

    def advance(self, prediction: Prediction, self_conditioning_CD: Tensor) -> None:
        """Takes one step: the sampler makes the next canvas of the prediction, and the stopping rule decides whether it
        is the last.

        Args:
            self_conditioning_CD: conditions the next step.
        """
        held = self._held()
        # In a canvas of masks what is decoded is held as pins are, for this step.
        canvas = dataclasses.replace(self.info, held_C=held[0]) if held is not None else self.info
        info = StepInfo(canvas, self.steps + 1, self.temperature)
        self.guided_steps += self.guided
        self.steps += 1
        self._uniform_C = None
        if held is not None:
            prediction = _with_held(prediction, *held)
        sampler = self.rules.sampler
        canvas_C, accepted_C, self._sampler_state = sampler.step(
            info, self.canvas_C, prediction, self._sampler_state, self.generator
        )
        if held is not None and not sampler.remasks:
            canvas_C = torch.where(held[0], held[1], canvas_C)
        self.canvas_C = self._pin(canvas_C)
        self.accepted_C = accepted_C if held is None else accepted_C | held[0]
        # Samples of single positions need not satisfy a constraint together; the likeliest canvas does.
        said_C = prediction.argmax_C
        if self.constraint is None:
            said_C = sampler.output(info, self.canvas_C, prediction, self._sampler_state)
        masks_left = True
        if (mask := self.info.mask_token) is not None:
            # What is decoded stands there for good, drawn as it was.
            said_C = said_C.where(self.canvas_C == mask, self.canvas_C)
            prediction = dataclasses.replace(prediction, argmax_C=said_C)
            masks_left = bool((self.canvas_C == mask).any())
        self.argmax_C = self._pin(said_C)
        self.entropy_C = prediction.entropy_C
        self.self_conditioning_CD = self_conditioning_CD
        stops, self._stopping_state = self.rules.stopping.should_stop(info, prediction, self._stopping_state)
        self.converged = stops or not masks_left

    def _held(self) -> tuple[Tensor, Tensor] | None:
        """Returns the positions that hold a token in the next step, bool [C], and the tokens, int64 [C]: pins, and what
        is decoded of a canvas of masks; None where nothing can be held."""
        if self.info.mask_token is None:
            return None if self.pins is None else (self.pins.held_C, self.pins.tokens_C)
        decoded_C = self.canvas_C != self.info.mask_token
        if self.pins is None:
            return decoded_C, self.canvas_C
        return decoded_C | self.pins.held_C, torch.where(self.pins.held_C, self.pins.tokens_C, self.canvas_C)


def _with_held(prediction: Prediction, held_C: Tensor, tokens_C: Tensor) -> Prediction:
    """Returns a prediction that is certain of the tokens that are held."""
    confidence_C = prediction.confidence_C
    return dataclasses.replace(
        prediction,
        sample_C=torch.where(held_C, tokens_C, prediction.sample_C),
        argmax_C=torch.where(held_C, tokens_C, prediction.argmax_C),
        entropy_C=torch.where(held_C, 0.0, prediction.entropy_C),
        confidence_C=None if confidence_C is None else torch.where(held_C, 1.0, confidence_C),
    )


def denoise_step(denoiser: Denoiser[Cache_contra], states: Sequence[CanvasState], cache: Cache_contra) -> None:
    """Takes one step of every state, in one pass. None may be finished.

    The rows of `cache` belong to `states` in order, and behind these to the second prompts of those that are `guided`.
    """
    assert not any(state.finished for state in states)
    rows = [*states, *(state for state in states if state.guided)]
    widths = [state.width for state in rows]
    canvas_N = torch.cat([state.canvas_C for state in rows]).to(denoiser.device)
    found = denoiser.denoise_flat(canvas_N, widths, cache, _self_conditioning(rows)).split(widths)
    others = iter(found[len(states) :])
    hidden = found[: len(states)]
    for state, hidden_CD in zip(states, hidden, strict=True):
        if state.probe is not None and state.steps == 0:
            state.probe.read(denoiser.vocabulary, hidden_CD)
    if len(rows) > len(states):
        pairs = zip(states, hidden, strict=True)
        hidden = tuple(torch.cat((own, next(others)), dim=-1) if state.guided else own for state, own in pairs)
    take_step(denoiser.vocabulary, states, hidden)


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
    ban = None if state.pins is None else (state.pins.never_C.to(hidden_CD.device), state.pins.banned)
    uniform_C, processing = state.draw_uniform(), state.rules.logits_processing
    scores, hidden_CD = guided_scores(state.rules.guidance, state.time, vocabulary, hidden_CD)
    outcome = processed_pass(scores, hidden_CD, temperature_C, uniform_C, processing, ban, state.constraint)
    log_probs, confidence_C, reads_confidence = None, None, state.rules.sampler.reads_confidence
    if state.rules.reads_log_probs or reads_confidence:
        log_probs = processed_log_probs(scores, hidden_CD, temperature_C, processing, ban, state.constraint)
    if log_probs is not None and reads_confidence:
        confidence_C = _confidence(log_probs, outcome.sample_N)
    sample_C, argmax_C, entropy_C = outcome.sample_N.cpu(), outcome.argmax_N.cpu(), outcome.entropy_N.cpu()
    state.advance(Prediction(sample_C, argmax_C, entropy_C, confidence_C, log_probs), outcome.embedding_ND)


def _confidence(log_probs: Callable[[slice], Tensor], sample_C: Tensor) -> Tensor:
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
