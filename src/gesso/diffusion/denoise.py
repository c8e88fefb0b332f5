"""The denoising of canvases, one step at a time.

Life cycle of a `CanvasState`: it starts as uniform random tokens (or a given canvas); every `denoise_step` proposes
a token per position, accepts some, re-noises the rest, and asks the stopping rule; when it is `finished` its
`argmax_C`, never the sampled canvas, is what it says. Several states of one width share a pass of the model; each
has its own settings and its own random generator, so none of them depends on the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from gesso.diffusion.prediction import Prediction
from gesso.diffusion.sampler import Sampler
from gesso.diffusion.schedule import Schedule
from gesso.diffusion.stopping import StoppingRule
from gesso.nn.vocabulary import VocabularyPass

Cache_contra = TypeVar("Cache_contra", contravariant=True)


class Denoiser(Protocol[Cache_contra]):
    """All that this room knows of a model."""

    @property
    def device(self) -> torch.device: ...

    def predict(
        self,
        canvas_BC: Tensor,
        cache: Cache_contra,
        soft_embeddings_BCD: Tensor | None,
        temperature_BC: Tensor,
        uniform_BC: Tensor,
    ) -> VocabularyPass:
        """One pass over canvases behind a cache that it does not change; fields are flat over B*C."""


@dataclass(frozen=True, slots=True)
class DenoisingRules:
    """How a canvas is denoised."""

    schedule: Schedule
    sampler: Sampler
    stopping: StoppingRule
    max_denoising_steps: int


class CanvasState:
    """One canvas of C tokens on its way from noise to text."""

    def __init__(
        self,
        rules: DenoisingRules,
        vocab_size: int,
        width: int,
        generator: torch.Generator,
        start_canvas: Sequence[int] | None = None,
    ) -> None:
        self.rules = rules
        self.vocab_size = vocab_size
        self.generator = generator
        self.canvas_C = self._noise(width) if start_canvas is None else torch.tensor(start_canvas)
        self.argmax_C = self.canvas_C
        self.accepted_C = torch.zeros(width, dtype=torch.bool)
        self.entropy_C = torch.full((width,), float("nan"))
        self.soft_CD: Tensor | None = None
        self.steps = 0
        self.converged = False
        self._stopper = rules.stopping.start()

    @property
    def width(self) -> int:
        return self.canvas_C.shape[0]

    @property
    def finished(self) -> bool:
        return self.converged or self.steps >= self.rules.max_denoising_steps

    @property
    def temperature(self) -> float:
        """Of the next step."""
        return self.rules.schedule.temperature(self.rules.max_denoising_steps - self.steps)

    def _noise(self, width: int) -> Tensor:
        return torch.randint(self.vocab_size, (width,), generator=self.generator)

    def draw_uniform(self) -> Tensor:
        """The numbers that decide the next step's samples, [C] in [0, 1)."""
        return torch.rand(self.width, generator=self.generator)

    def advance(self, prediction: Prediction, soft_CD: Tensor) -> None:
        """Take one step's outcome: accept, re-noise, stop or go on."""
        self.steps += 1
        self.argmax_C = prediction.argmax_C
        self.entropy_C = prediction.entropy_C
        self.accepted_C = self.rules.sampler.accept(prediction)
        self.canvas_C = torch.where(self.accepted_C, prediction.sample_C, self._noise(self.width))
        self.soft_CD = soft_CD
        self.converged = self._stopper.should_stop(prediction)


def denoise_step(denoiser: Denoiser[Cache_contra], states: Sequence[CanvasState], cache: Cache_contra) -> None:
    """One step of every state, in one pass; the rows of `cache` belong to `states` in order.

    All states have the same width and none is finished.
    """
    width = states[0].width
    assert all(state.width == width and not state.finished for state in states)
    device = denoiser.device
    outcome = denoiser.predict(
        torch.stack([state.canvas_C for state in states]).to(device),
        cache,
        _soft(states),
        torch.tensor([state.temperature for state in states], device=device)[:, None].expand(-1, width),
        torch.stack([state.draw_uniform() for state in states]),
    )
    samples, bests = torch.stack((outcome.sample_N, outcome.argmax_N)).cpu().view(2, len(states), width)
    entropies = outcome.entropy_N.cpu().view(-1, width)
    softs = outcome.embedding_ND.view(len(states), width, -1)
    for state, sample, best, entropy, soft in zip(states, samples, bests, entropies, softs, strict=True):
        state.advance(Prediction(sample, best, entropy), soft)


def _soft(states: Sequence[CanvasState]) -> Tensor | None:
    """Self-conditioning of the batch; a canvas at its first step has exact zeros."""
    known = next((state.soft_CD for state in states if state.soft_CD is not None), None)
    if known is None:
        return None
    if len(states) == 1:
        return known[None]
    return torch.stack([torch.zeros_like(known) if state.soft_CD is None else state.soft_CD for state in states])
