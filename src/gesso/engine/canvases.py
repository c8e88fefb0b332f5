"""Makes the canvases of one request, one after the other: their widths, starting tokens and pins."""

import dataclasses
from collections.abc import Callable, Collection, Sequence
from math import ceil

import torch
from torch import Tensor

from gesso.config import ModelShape
from gesso.diffusion.canvas_state import CanvasState, DenoisingRules, Pins
from gesso.diffusion.guidance import Classifier, Guidance
from gesso.diffusion.logits_processing import LogitsProcessing
from gesso.diffusion.preceding_text import PrecedingText
from gesso.diffusion.probe import Probe
from gesso.diffusion.step import CanvasShape, StartTokens
from gesso.diffusion.stopping.accepting import AcceptingRule
from gesso.engine.constraint import CanvasConstraintState, OutputConstraint
from gesso.engine.events import DenoisingFrame
from gesso.generation import NARROWEST, GenerationConfig
from gesso.text.tokenizer import Tokenizer


def denoising_rules(config: GenerationConfig, classifier: Classifier | None = None) -> DenoisingRules:
    """Returns the sampler, schedule, stopping rule and guidance of a request, with its number of steps."""
    steps, ends = config.max_denoising_steps, config.stop_at_end and not config.ignore_eos
    left = 1 if config.mode == "ar" else steps if config.strength is None else ceil(config.strength * steps)
    from_text = config.start_canvas is not None and config.strength != 1
    restart = None if from_text or config.mode == "ar" else config.restart_steps
    return DenoisingRules(
        max_denoising_steps=left,
        total_steps=steps if restart is None else min(restart, steps),
        restart_steps=restart,
        schedule=config.schedule_options,
        sampler=config.sampler_options,
        stopping=config.stopping_options,
        end_tokens=config.eos_token_ids if ends else (),
        logits_processing=LogitsProcessing(
            config.temperature,
            config.top_p,
            config.top_k,
            config.min_p,
            tuple(sorted(config.logit_bias.items())),
            config.penalties,
        ),
        guidance=Guidance(config.guidance_scale, config.guidance_start, config.guidance_end, classifier),
    )


def last_pin(config: GenerationConfig) -> int:
    """Returns the last position of the answer that is pinned; -1 where none is."""
    return max((place for place, token in enumerate(config.canvas or ()) if token is not None), default=-1)


class Canvases:
    """Makes the canvases of one request; all of them draw from one random generator."""

    def __init__(
        self,
        config: GenerationConfig,
        shape: ModelShape,
        canvas_length: int,
        seed: int,
        constraint: OutputConstraint | None = None,
        *,
        classifier: Classifier | None = None,
        accepts: Callable[[Tensor], bool] | None = None,
        prompt: Sequence[int] = (),
        response_prefix: int = 0,
        special: Collection[int] = (),
    ) -> None:
        """
        Args:
            shape: of the model: its vocabulary, what noise is, and the blocks of positions, counted from the prompt's
                beginning, past whose end no canvas goes.
            classifier: guides the canvases.
            accepts: ends a canvas whose likeliest tokens it accepts.
            prompt: tokens before the answer.
            response_prefix: how many tokens the answer is made to begin with; what is pinned stands behind them.
            special: token ids that are no text.
        """
        self.rules = denoising_rules(config, classifier)
        if accepts is not None:
            self.rules = dataclasses.replace(self.rules, stopping=AcceptingRule(self.rules.stopping, accepts))
        self.probe = Probe(config.probe) if config.probe else None
        """Read by the first canvas's first step."""
        self.last_pin = last_pin(config)
        self._config = config
        self._shape = shape
        self._canvas_length = canvas_length
        self._last_started = len(config.start_canvas or ()) // canvas_length - 1
        """Number of the last canvas that starts from given tokens."""
        self._constraint = constraint
        self._prompt_tokens = len(prompt)
        self._response_prefix = response_prefix
        self._preceding = None
        if not config.penalties.neutral:
            uncounted = {*special, shape.eos_token_id, config.pad_token_id}
            self._preceding = PrecedingText(config.penalties, prompt, uncounted, shape.vocab_size)
        self._generator = torch.Generator().manual_seed(seed)

    def make(self, number: int, before: Sequence[int], room: int) -> CanvasState:
        """Returns canvas `number`, counted from 0.

        Args:
            before: tokens of the answer before it, the response prefix included.
            room: positions left in the context, which bound its width.
        """
        offset, written = number * self._canvas_length, len(before)
        if self._preceding is not None:
            self._preceding.grow(before)
        left = self._config.max_new_tokens - written
        width = min(self._width(number, left), room)
        if (block := self._shape.block_length) is not None:
            offset = written - self._response_prefix
            width = min(width, block - (self._prompt_tokens + written) % block)
        pins = self._pins(offset, width, written)
        start = (self._config.start_canvas or ())[offset : offset + self._canvas_length][:width]
        rules, behind = self.rules, self._steps_behind(number)
        if behind or (self._config.strength is not None and not start):
            # Behind the given text a canvas starts from noise, and takes all of the steps.
            rules = dataclasses.replace(rules, max_denoising_steps=self._config.max_denoising_steps - behind)
        return CanvasState(
            rules,
            self._canvas_shape(width),
            self._generator,
            start=StartTokens(start, self._config.strength) if start else None,
            pins=pins,
            constraint=self._canvas_constraint(left, width, pins),
            probe=self.probe if number == 0 else None,
            preceding=self._preceding,
        )

    def make_round(self, canvas: CanvasState, pins: Pins, written: int, most_steps: int | None = None) -> CanvasState:
        """Returns the same canvas for another round, from noise where `pins` leave it free.

        Args:
            most_steps: how many it takes at most, the coolest of the schedule; None takes all of the schedule's.
        """
        constraint = self._canvas_constraint(self._config.max_new_tokens - written, canvas.width, pins)
        rules = self.rules
        if self._config.strength is not None:  # of the given text nothing is left, and of its few steps
            rules = dataclasses.replace(rules, max_denoising_steps=self._config.max_denoising_steps)
        if most_steps is not None:
            rules = rules.one_attempt()
            most = min(most_steps, rules.max_denoising_steps)
            rules = dataclasses.replace(
                rules, max_denoising_steps=most, total_steps=rules.total_steps or rules.max_denoising_steps
            )
        return CanvasState(
            rules,
            self._canvas_shape(canvas.width),
            self._generator,
            pins=pins,
            constraint=constraint,
            preceding=canvas.preceding,
        )

    def frame(self, canvas: CanvasState, number: int, before: int, tokenizer: Tokenizer) -> DenoisingFrame:
        """Returns the event of canvas `number` after its last step; earlier rounds took `before` steps on it."""
        rules, tokens = canvas.rules, canvas.argmax_C.tolist()
        before += self._steps_behind(number)
        return DenoisingFrame(
            canvas=number,
            step=before + canvas.steps,
            max_denoising_steps=before + rules.max_denoising_steps,
            temperature=canvas.last_temperature,
            tokens=tuple(tokens),
            accepted=tuple(canvas.accepted_C.tolist()),
            entropy=tuple(round(e, 4) for e in canvas.entropy_C.tolist()),
            pieces=tuple(tokenizer.piece(token) for token in tokens),
            canvas_tokens=tuple(canvas.canvas_C.tolist()),
            pinned=() if canvas.pins is None else tuple(canvas.pins.held_C.tolist()),
            forced=() if canvas.constraint is None else tuple(canvas.constraint.forced(tokenizer.piece).tolist()),
        )

    def _steps_behind(self, number: int) -> int:
        """Returns the steps that canvas `number` had taken before this request."""
        return self._config.start_step or 0 if number == self._last_started else 0

    def _canvas_shape(self, width: int) -> CanvasShape:
        return CanvasShape(width, self._shape.vocab_size, self._shape.mask_token_id, self._canvas_length)

    def _canvas_constraint(self, left: int, width: int, pins: Pins | None) -> CanvasConstraintState | None:
        return None if self._constraint is None else self._constraint.on_canvas(left, width, pins)

    def _width(self, number: int, left: int) -> int:
        """Returns the width of canvas `number`, when `left` tokens may still be written."""
        if self._config.mode == "ar":
            return 1
        width = self._canvas_length
        if self._config.canvas_width == "auto":
            width = min(width, max(NARROWEST, self._canvas_length // 8) << min(number, 30))
        if self._config.canvas_width != "full":
            width = min(width, max(NARROWEST, left))
        return width

    def _pins(self, offset: int, width: int, written: int) -> Pins | None:
        """Returns the template's pins on the canvas that begins at position `offset` of it, behind `written` tokens of
        the answer, and where the answer must not end yet; None where there is neither."""
        too_early = 0 if self._config.ignore_eos else self._config.min_new_tokens - written
        if offset > self.last_pin and too_early <= 0:
            return None
        template = (self._config.canvas or ())[offset : offset + width]
        parts = [*template, *(None for _ in range(width - len(template)))]
        held_C, place_C = torch.tensor([part is not None for part in parts]), torch.arange(width)
        return Pins(
            tokens_C=torch.tensor([part or 0 for part in parts]),
            held_C=held_C,
            never_C=~held_C & ((offset + place_C < self.last_pin) | (place_C < too_early)),
            banned=tuple(token for token in self._config.eos_token_ids if token < self._shape.vocab_size),
        )
