"""Holds a canvas on its way from noise to text, and the rules by which it goes.

Life cycle of a `CanvasState`: its sampler makes the first canvas (noise, or a given canvas); in every step the model
proposes a token per position, the sampler makes the next canvas of it, and the stopping rule is asked; when it is
`finished`, its `argmax_C`, the sampler's output, is its text. With `restart_steps` a canvas that the stopping rule has
not ended by then begins once more, as long as it has the steps.
"""

import dataclasses
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gesso.diffusion.guidance import Guidance
from gesso.diffusion.logits_processing import CanvasConstraint, LogitsProcessing
from gesso.diffusion.preceding_text import Penalty, PrecedingText
from gesso.diffusion.prediction import Prediction
from gesso.diffusion.probe import Probe
from gesso.diffusion.samplers import SAMPLERS, Sampler, first_canvas, next_canvas
from gesso.diffusion.schedules import SCHEDULES, Schedule
from gesso.diffusion.step import CanvasInfo, CanvasShape, StartTokens, StepInfo
from gesso.diffusion.stopping import STOPPING_RULES, StoppingRule
from gesso.errors import NotANumberError


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
    """Steps of the schedule, of which only the last ones are taken; None is `attempt_steps`."""
    restart_steps: int | None = None
    """Steps after which a canvas that has not settled starts again; None where it never does."""
    end_tokens: tuple[int, ...] = ()
    """Token ids that end the answer, where only what stands up to the first of them has to settle."""

    @property
    def reads_log_probs(self) -> bool:
        """Says whether the sampler or the stopping rule needs `Prediction.log_probs`."""
        return self.sampler.reads_log_probs or self.stopping.reads_log_probs

    @property
    def attempt_steps(self) -> int:
        """Returns the most steps from one start of a canvas to the next, or to its end."""
        return min(self.restart_steps or self.max_denoising_steps, self.max_denoising_steps)

    def one_attempt(self) -> "DenoisingRules":
        """Returns the same rules for a canvas that never starts again."""
        return dataclasses.replace(self, max_denoising_steps=self.attempt_steps, restart_steps=None)

    def temperature(self, step: int) -> float:
        """Returns the temperature of step `step` of an attempt, counted from 1."""
        return self.schedule.temperature(self.attempt_steps - step + 1, self.total_steps or self.attempt_steps)


@dataclass(frozen=True, slots=True)
class Pins:
    """Holds some positions of a canvas at given tokens, and keeps some from others; all are CPU tensors [C].

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


class CanvasState:
    """Holds one canvas of C tokens on its way from noise to text."""

    def __init__(
        self,
        rules: DenoisingRules,
        shape: CanvasShape,
        generator: torch.Generator,
        *,
        start: StartTokens | None = None,
        pins: Pins | None = None,
        constraint: CanvasConstraint | None = None,
        probe: Probe | None = None,
        preceding: PrecedingText | None = None,
    ) -> None:
        """
        Args:
            generator: draws all of its random numbers.
            start: what it starts from; None starts from noise.
            constraint: what its text has to satisfy.
            probe: read in its first step.
            preceding: what penalties count before it; None where there are none.
        """
        self.rules = rules
        self.generator = generator
        self.pins = pins
        self.constraint = constraint
        self.probe = probe
        self.preceding = preceding
        self.info = CanvasInfo(
            width=shape.width,
            vocab_size=shape.vocab_size,
            steps=rules.attempt_steps,
            total_steps=rules.total_steps or rules.attempt_steps,
            start_C=None if start is None else torch.tensor(start.tokens),
            strength=None if start is None else start.strength,
            held_C=None if pins is None else pins.held_C,
            end_tokens=rules.end_tokens,
            mask_token=shape.mask_token,
            canvas_length=shape.canvas_length,
            sampling_temperature=rules.logits_processing.temperature,
        )
        first_C, self._sampler_state = first_canvas(rules.sampler, self.info, generator)
        self._stopping_state = rules.stopping.start(self.info)
        self.canvas_C = self._pin(first_C)
        self.argmax_C = self.canvas_C
        """The sampler's output so far, int64."""
        self.accepted_C = torch.zeros(shape.width, dtype=torch.bool)
        self.entropy_C = torch.full((shape.width,), float("nan"))
        self.self_conditioning_CD: Tensor | None = None
        self.steps = 0
        """Steps taken, over all attempts."""
        self.attempt_step = 0
        """Steps since the last start."""
        self.last_temperature = float("nan")
        """The schedule's, at the last step."""
        self.guided_steps = 0
        """Steps that took a second pass, over all attempts."""
        self.converged = False
        self._uniform_C: Tensor | None = None

    @property
    def width(self) -> int:
        return self.canvas_C.shape[0]

    @property
    def finished(self) -> bool:
        return self.converged or self.attempt_step >= self.rules.attempt_steps

    @property
    def temperature(self) -> float:
        """Returns the temperature of the next step."""
        return self.rules.temperature(self.attempt_step + 1)

    @property
    def time(self) -> float:
        """Returns the noise level of the next step."""
        return StepInfo(self.info, self.attempt_step + 1, self.temperature).time

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

    def penalty(self) -> Penalty | None:
        """Returns how the next step's logits are penalised; None where they are not."""
        if self.preceding is None:
            return None
        said_C = torch.full((self.width,), self.attempt_step > 0)
        if self.pins is not None:
            said_C |= self.pins.held_C
        return self.preceding.penalty(self.argmax_C, said_C)

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
        self.steps, self.attempt_step, self.last_temperature = other.steps, other.attempt_step, other.last_temperature
        self.guided_steps, self.converged = other.guided_steps, other.converged
        self._uniform_C = None

    def begin_step(self) -> None:
        """Begins a step; what came before the first one, such as time in a queue, is nothing to the stopping rule."""
        if self.steps == 0:
            self._stopping_state = self.rules.stopping.start(self.info)

    def advance(self, prediction: Prediction, self_conditioning_CD: Tensor) -> None:
        """Takes one step: the sampler makes the next canvas of the prediction, and the stopping rule decides whether it
        is the last. Behind the last step of an attempt the canvas starts again, if there are steps for another.

        Where the sampler or the rule fails, no step is taken: the canvas is as it was, but for random numbers drawn.

        Args:
            self_conditioning_CD: conditions the next step.

        Raises:
            NotANumberError: the prediction is none.
            OptionError: the sampler returns no canvas.
        """
        if prediction.entropy_C.isnan().any():
            raise NotANumberError
        held = self._held()
        # In a canvas of masks what is decoded is held as pins are, for this step.
        canvas = dataclasses.replace(self.info, held_C=held[0]) if held is not None else self.info
        info = StepInfo(canvas, self.attempt_step + 1, self.temperature)
        if held is not None:
            prediction = _with_held(prediction, *held)
        sampler = self.rules.sampler
        canvas_C, accepted_C, sampler_state = next_canvas(
            sampler, info, self.canvas_C, prediction, self._sampler_state, self.generator
        )
        if held is not None and not sampler.remasks:
            canvas_C = torch.where(held[0], held[1], canvas_C)
        canvas_C = self._pin(canvas_C)
        # Samples of single positions need not satisfy a constraint together; the likeliest canvas does.
        said_C = prediction.argmax_C
        if self.constraint is None:
            said_C = sampler.output(info, canvas_C, prediction, sampler_state)
            said_C = prediction.argmax_C.where(self._banned(said_C), said_C)
        masks_left = True
        if (mask := self.info.mask_token) is not None:
            # What is decoded stands there for good, drawn as it was.
            said_C = said_C.where(canvas_C == mask, canvas_C)
            masks_left = bool((canvas_C == mask).any())
        said_C = self._pin(said_C)
        committed = dataclasses.replace(prediction, argmax_C=said_C)
        stops, stopping_state = self.rules.stopping.should_stop(info, committed, self._stopping_state)
        self.canvas_C, self.argmax_C, self.entropy_C = canvas_C, said_C, prediction.entropy_C
        self.accepted_C = accepted_C if held is None else accepted_C | held[0]
        self.self_conditioning_CD = self_conditioning_CD
        self._sampler_state, self._stopping_state = sampler_state, stopping_state
        self.converged = stops or not masks_left
        self.last_temperature = info.temperature
        self.guided_steps += self.guided
        self.steps += 1
        self.attempt_step += 1
        self._uniform_C = None
        left = self.rules.max_denoising_steps - self.steps
        if self.finished and not self.converged and left >= self.rules.attempt_steps:
            self._restart()

    def _restart(self) -> None:
        """Starts again from new noise, with nothing to condition the next step. What the stopping rule remembers stays:
        a budget of time is one for all attempts."""
        first_C, self._sampler_state = first_canvas(self.rules.sampler, self.info, self.generator)
        self.canvas_C = self._pin(first_C)
        self.self_conditioning_CD = None
        self.attempt_step = 0

    def _banned(self, tokens_C: Tensor) -> Tensor:
        """Returns where the request's biases or the pins forbid these tokens, which a given canvas may hold, bool
        [C]."""
        banned_C = _among(tokens_C, self.rules.logits_processing.never)
        return banned_C if self.pins is None else banned_C | self.pins.never_C & _among(tokens_C, self.pins.banned)

    def _held(self) -> tuple[Tensor, Tensor] | None:
        """Returns the positions that hold a token in the next step, bool [C], and the tokens, int64 [C]: pins, and what
        is decoded of a canvas of masks; None where nothing can be held."""
        if self.info.mask_token is None:
            return None if self.pins is None else (self.pins.held_C, self.pins.tokens_C)
        decoded_C = self.canvas_C != self.info.mask_token
        if self.pins is None:
            return decoded_C, self.canvas_C
        return decoded_C | self.pins.held_C, torch.where(self.pins.held_C, self.pins.tokens_C, self.canvas_C)


def _among(tokens_C: Tensor, ids: tuple[int, ...]) -> Tensor:
    """Returns where a canvas has one of some tokens, bool [C]."""
    return torch.isin(tokens_C, torch.tensor(ids, dtype=tokens_C.dtype))


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
