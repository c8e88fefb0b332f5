"""Draws answers with the published sampler and records every denoising step of theirs.

A canvas is a walk of transitions. In each the model draws a token for every position, and the positions that are
accepted keep theirs, while the others become uniform noise. Which are accepted follows from the prediction's entropies,
and noise does not depend on the weights; so a transition's probability, as far as it depends on the weights, is the
product of the probabilities of the accepted tokens. The last step commits what it drew, up to the answer's end, where
generation commits the likeliest tokens: a canvas that stops early is so sure that they are the same.

    C canvas length
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from gesso.diffusion.canvas_state import CanvasState, DenoisingRules
from gesso.diffusion.denoise import denoise_step
from gesso.diffusion.samplers import Sampler
from gesso.diffusion.samplers.entropy_bound import EntropyBoundSampler
from gesso.diffusion.step import CanvasShape
from gesso.engine.canvases import denoising_rules
from gesso.errors import OptionError
from gesso.generation import GenerationConfig
from gesso.models.cache import KVCache
from gesso.models.diffusion_gemma import DiffusionGemma

if TYPE_CHECKING:
    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import CanvasInfo, StepInfo

AT_ONCE = 64
"""Canvases that are denoised in one pass."""


@dataclass(frozen=True, slots=True)
class Transition:
    """Holds one denoising step of one canvas, as CPU tensors [C]."""

    canvas_C: Tensor
    """What the model saw, int64."""
    tokens_C: Tensor
    """What was drawn at every position, int64."""
    counted_C: Tensor
    """Positions whose draw mattered: accepted, or committed at the last step; bool."""
    log_probs_C: Tensor
    """Log-probability of what was drawn when it was, nats, fp32."""
    temperature: float


@dataclass(frozen=True, slots=True)
class CanvasRollout:
    """Holds the transitions of a canvas, from noise to text."""

    context: tuple[int, ...]
    """The prompt, and the canvases committed before."""
    transitions: tuple[Transition, ...]


@dataclass(frozen=True, slots=True)
class Rollout:
    """Holds one answer that was drawn."""

    canvases: tuple[CanvasRollout, ...]
    tokens: tuple[int, ...]
    """The answer's tokens, without the one that ends it."""


@dataclass(frozen=True, slots=True)
class RecordingSampler(Sampler):
    """Samples as another sampler does and records it; it serves one canvas. What it commits is what it drew."""

    reads_confidence: ClassVar[bool] = True

    inner: EntropyBoundSampler
    transitions: list[Transition] = field(default_factory=list)

    def start(self, canvas: "CanvasInfo", rng: torch.Generator) -> tuple[Tensor, Any]:
        return self.inner.start(canvas, rng)

    def step(
        self, info: "StepInfo", canvas_C: Tensor, prediction: "Prediction", state: Any, rng: torch.Generator
    ) -> tuple[Tensor, Tensor, Any]:
        next_C, accepted_C, state = self.inner.step(info, canvas_C, prediction, state, rng)
        assert prediction.confidence_C is not None
        log_probs_C = prediction.confidence_C.log()
        drawn = Transition(canvas_C, prediction.sample_C, accepted_C, log_probs_C, info.temperature)
        self.transitions.append(drawn)
        return next_C, accepted_C, state

    def output(self, info: "StepInfo", canvas_C: Tensor, prediction: "Prediction", state: Any) -> Tensor:  # noqa: ARG002
        return prediction.sample_C


def policy_rules(config: GenerationConfig) -> DenoisingRules:
    """Returns the rules by which answers are drawn: the checkpoint's own on canvases and at temperature 1, whatever its
    mode and temperature are.

    Raises:
        OptionError: a setting whose draws cannot be replayed.
    """
    if type(config.sampler_options) is not EntropyBoundSampler:
        raise OptionError(
            f"reinforcement replays the published sampler, entropy_bound, and the checkpoint's is {config.sampler}",
            option="sampler",
        )
    drawn = config.override(mode="canvas", temperature=1.0)
    rules = denoising_rules(drawn).one_attempt()  # each step conditions the next
    neutral = DenoisingRules(1)
    for name in ("logits_processing", "guidance"):
        if getattr(rules, name) != getattr(neutral, name):
            raise OptionError(
                f"reinforcement draws from the model's own distribution: the checkpoint's {name.replace('_', ' ')} "
                "must be left at its defaults"
            )
    return rules


@torch.no_grad()
def roll_out(
    model: DiffusionGemma,
    prompts: Sequence[Sequence[int]],
    rules: DenoisingRules,
    seeds: Sequence[int],
    *,
    width: int,
    max_canvases: int,
    stop_tokens: Sequence[int],
) -> list[Rollout]:
    """Draws an answer to each prompt, each from the random numbers of its own seed.

    Args:
        width: of every canvas, in tokens.
        max_canvases: canvases after which an answer is cut.
        stop_tokens: what ends an answer.

    Raises:
        OptionError: a prompt after which an answer would not fit the model's positions.
    """
    positions = model.config.max_position_embeddings
    for prompt in prompts:
        if len(prompt) + width * max_canvases > positions:
            raise OptionError(
                f"a prompt of {len(prompt)} tokens and an answer of {width * max_canvases} are past the model's "
                f"{positions} positions",
                option="max_new_tokens",
            )
    found: list[Rollout] = []
    for begin in range(0, len(prompts), AT_ONCE):
        part = slice(begin, begin + AT_ONCE)
        answers = [_Answer(tuple(prompt), seed) for prompt, seed in zip(prompts[part], seeds[part], strict=True)]
        _run(model, answers, rules, width, max_canvases, torch.tensor(list(stop_tokens)))
        found += [Rollout(tuple(answer.canvases), tuple(answer.tokens)) for answer in answers]
    return found


class _Answer:
    """One answer while it is drawn."""

    def __init__(self, prompt: tuple[int, ...], seed: int) -> None:
        self.context = prompt
        self.generator = torch.Generator().manual_seed(seed)
        self.canvases: list[CanvasRollout] = []
        self.tokens: list[int] = []

    def close(self, transitions: list[Transition], stop_tokens: Tensor) -> bool:
        """Commits a canvas by what its last step drew; returns whether the answer goes on behind it."""
        last = transitions[-1]
        ends = torch.isin(last.tokens_C, stop_tokens).nonzero()
        end = int(ends[0]) if len(ends) else len(last.tokens_C)
        # What stands behind the end changes nothing any more.
        counted_C = torch.arange(len(last.tokens_C)) <= end
        transitions[-1] = dataclasses.replace(last, counted_C=counted_C)
        self.canvases.append(CanvasRollout(self.context, tuple(transitions)))
        self.tokens += last.tokens_C[:end].tolist()
        self.context = (*self.context, *last.tokens_C.tolist())
        return not len(ends)


def _run(
    model: DiffusionGemma,
    answers: list[_Answer],
    rules: DenoisingRules,
    width: int,
    max_canvases: int,
    stop_tokens: Tensor,
) -> None:
    caches = model.new_cache(len(answers)).rows
    going = list(range(len(answers)))
    unread = [list(answer.context) for answer in answers]
    for _ in range(max_canvases):
        tokens_N = torch.tensor([token for i in going for token in unread[i]])
        model.encode_flat(tokens_N, [len(unread[i]) for i in going], KVCache([caches[i] for i in going]))
        recorders = {i: RecordingSampler(rules.sampler) for i in going}  # type: ignore[arg-type]
        states = {
            i: CanvasState(
                dataclasses.replace(rules, sampler=recorders[i]),
                CanvasShape(width, model.config.vocab_size),
                answers[i].generator,
            )
            for i in going
        }
        while running := [i for i in going if not states[i].finished]:
            denoise_step(model, [states[i] for i in running], KVCache([caches[i] for i in running]))
        going = [i for i in going if answers[i].close(recorders[i].transitions, stop_tokens)]
        for i in going:
            unread[i] = list(answers[i].context[-width:])
        if not going:
            break
