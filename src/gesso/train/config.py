"""Configures the optimisation of a training run."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from gesso.errors import ConfigError

Precision = Literal["auto", "float32", "bfloat16"]
Optimizer = Literal["adamw", "adamw8bit", "muon"]


@dataclass(frozen=True, slots=True)
class CanvasWidth:
    """Gives a share of the steps narrower canvases than the model's.

    A short answer on a wide canvas is mostly pad fill; narrow canvases teach the same for a
    fraction of the work, and teach the model to be used with them.
    """

    canvas_length: int
    batch_size: int
    share: float
    canvases_per_example: int = 1


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Configures the optimisation. Steps are optimiser steps; losses are nats a token."""

    steps: int
    batch_size: int = 64
    """Examples of a step, over all processes."""
    micro_batch_size: int | None = None
    """Examples that one process takes through the model at a time; None takes all at once. Changes memory only."""
    narrow: tuple[CanvasWidth, ...] = ()
    """Steps with narrower canvases; the rest of the steps use the model's own width and `batch_size`."""
    canvases_per_example: int = 1
    """Canvases trained on for each example that the encoder reads, of the steps at the model's own width."""
    learning_rate: float = 2e-3
    warmup_steps: int = 200
    """Linear from zero; then cosine to zero at `steps`."""
    within_minutes: float | None = None
    """Minutes that the whole run takes at most: its rate goes along them where it would lag behind by the steps, and it
    ends with them. The steps then depend on the machine."""
    beta1: float = 0.9
    beta2: float = 0.98
    weight_decay: float = 0.0
    """Weight decay of matrices; norms and scales are never decayed."""
    gradient_clip: float = 1.0
    optimizer: Optimizer = "adamw"
    """`adamw8bit` holds AdamW's moments in 8 bits (torchao), those of tensors of 4,096 numbers or more; `muon` makes
    the updates of matrices orthogonal and leaves the rest to AdamW."""
    momentum: float = 0.95
    """Momentum of the matrices' gradients, with `muon`."""
    denoiser_loss_weight: float = 1.0
    """0 leaves the canvases out: only the causal pass learns, for less than half of the work of an example."""
    encoder_loss_weight: float = 1.0
    causal_steps: int = 0
    """Steps at the beginning in which the causal pass learns alone, from whole answers, however long."""
    causal_share: float = 0.0
    """Share of the steps behind those in which it learns alone again, so that neither pass forgets."""
    causal_batch_size: int = 64
    """Examples of such a step, over all processes."""
    prompt_loss: bool = False
    """Take the encoder's loss over the prompt as well as the answer."""
    time_exponent: float = 1.0
    """Exponent of the uniform number that says how much of a canvas is noise: 1 as released, less for more noise."""
    source_probability: float = 0.0
    """Share of the canvases of an answer that changes a text which start from that text, not from the answer."""
    prefix_probability: float = 0.0
    """Share of the canvases that are clean up to a random place and noise behind it, as a copy looks half way; none in
    the released loss."""
    self_conditioning_probability: float = 0.5
    own_draft_probability: float = 0.0
    """Share of the self-conditioned canvases that get self-generated corruption (`gesso.train.self_generated`)."""
    own_draft_rounds: int = 1
    """Most rounds of self-generated corruption."""
    on_policy: bool = False
    """Learn every step of canvases that the model denoises itself from noise (`gesso.train.on_policy`), not corrupted
    ones."""
    precision: Precision = "auto"
    """Type of the matmuls, by autocast, while trained weights and optimiser stay fp32; auto is bfloat16 on a GPU."""
    gradient_checkpointing: bool = False
    """Keep only each layer's input for the backward pass and compute the rest again: a third more work."""
    expert_parallel: int = 1
    """Processes over which the experts of every layer lie, whole ones; tokens go to them. All processes of the run,
    or 1, where FSDP gathers a layer's experts for every pass. The same result."""
    context_parallel: int = 1
    """Processes over which every sequence and every canvas lies; all of the run, or a part of them that divides them.
    The same result."""
    workers: int = 0
    """Processes that make batches ahead of their steps; 0 makes each where it is trained on. The same result."""
    seed: int = 0
    checkpoint_every: int = 250
    keep_checkpoints: int = 2
    """The newest so many, and the one of the best held-out loss."""
    log_every: int = 10
    evaluate_every: int = 0
    """Steps between evaluations of the held-out loss; 0 never looks."""
    evaluation_examples: int = 256
    patience: int = 0
    """End after so many evaluations in a row without a better held-out loss; 0 never ends early."""
    sample_every: int = 0
    """Steps between answers to `sample_prompts`; 0 never answers."""
    sample_prompts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        least_one = ("steps", "batch_size", "canvases_per_example", "checkpoint_every", "keep_checkpoints", "log_every")
        further = (
            "evaluation_examples",
            "micro_batch_size",
            "causal_batch_size",
            "own_draft_rounds",
            "expert_parallel",
            "context_parallel",
        )
        for name in (*least_one, *further):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")
        for name in (
            "learning_rate",
            "evaluate_every",
            "patience",
            "sample_every",
            "warmup_steps",
            "causal_steps",
            "weight_decay",
            "workers",
            "denoiser_loss_weight",
            "encoder_loss_weight",
        ):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be at least 0 and finite, got {getattr(self, name)}")
        if self.within_minutes is not None and not 0 < self.within_minutes < math.inf:
            raise ConfigError(f"within_minutes must be above 0 and finite, got {self.within_minutes}")
        if not 0 <= self.seed < 2**31:
            raise ConfigError(f"seed must be at least 0 and below 2^31, got {self.seed}")
        for name, kinds in (("precision", Precision), ("optimizer", Optimizer)):
            if getattr(self, name) not in get_args(kinds):
                known = ", ".join(get_args(kinds))
                raise ConfigError(f"{name} {getattr(self, name)!r} does not exist; known: {known}")
        if sum(width.share for width in self.narrow) > 1:
            raise ConfigError("the shares of narrow canvases sum to more than 1")
        for name in (
            "time_exponent",
            "source_probability",
            "prefix_probability",
            "self_conditioning_probability",
            "own_draft_probability",
            "momentum",
            "causal_share",
        ):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be in [0, 1], got {getattr(self, name)}")
        self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        if not self.denoiser_loss_weight and not self.encoder_loss_weight:
            raise ConfigError("denoiser_loss_weight and encoder_loss_weight are both 0: nothing would be learned")
        if (self.causal_steps or self.causal_share) and not self.encoder_loss_weight:
            name = "causal_steps need" if self.causal_steps else "causal_share needs"
            raise ConfigError(f"{name} encoder_loss_weight above 0: nothing would be learned in them")
        if self.on_policy:
            self._check_on_policy()
        if self.patience and not self.evaluate_every:
            raise ConfigError("patience counts evaluations on what is held out, and evaluate_every is 0: set it, too")
        if self.sample_every and not self.sample_prompts:
            raise ConfigError("sample_every needs sample_prompts")

    def _check_on_policy(self) -> None:
        corruption = ("own_draft_probability", "source_probability", "prefix_probability")
        if used := next((name for name in corruption if getattr(self, name)), None):
            raise ConfigError(f"{used} corrupts canvases, and with on_policy all begin as noise: one of them")
        if self.time_exponent != 1:
            raise ConfigError("time_exponent means nothing with on_policy, where all canvases begin as noise")
        if not self.denoiser_loss_weight:
            raise ConfigError("on_policy trains the denoiser: denoiser_loss_weight must be above 0")
        if self.context_parallel > 1:
            raise ConfigError("on_policy takes whole canvases: context_parallel must be 1")

    def is_half(self, device_type: str) -> bool:
        """Says whether matmuls on such a device are bfloat16."""
        return self.precision == "bfloat16" or (self.precision == "auto" and device_type == "cuda")
