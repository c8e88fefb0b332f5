"""Configures the optimisation of a training run."""

from dataclasses import MISSING, dataclass
from typing import Any, Literal

from gesso.errors import OptionError
from gesso.options import Texts, checked, option
from gesso.train.option_groups import CANVASES, CHECKPOINTS, DATA, IN_CODE, TRAINING

Precision = Literal["auto", "float32", "bfloat16"]
Optimizer = Literal["adamw", "adamw8bit", "muon"]
_SHARE: dict[str, Any] = {"minimum": 0, "maximum": 1}


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
    """Configures the optimisation. Steps are optimiser steps; losses are nats a token.

    Raises:
        OptionError: a value that is impossible, or contradicts another.
    """

    steps: int = option(MISSING, "Optimiser steps.", minimum=1, **IN_CODE)
    batch_size: int = option(64, "Examples of a step, over all processes.", minimum=1, **TRAINING)
    micro_batch_size: int | None = option(
        None, "Examples of a process at a time: less memory, same result.", minimum=1, unset="all", **TRAINING
    )
    narrow: tuple[CanvasWidth, ...] = ()
    """Steps with narrower canvases; the rest of the steps use the model's own width and `batch_size`."""
    canvases_per_example: int = option(
        1, "Canvases of each example that is read, where they have the model's own width.", minimum=1, **CANVASES
    )
    learning_rate: float = option(2e-3, "Highest learning rate.", minimum=0, **IN_CODE)
    warmup_steps: int = option(
        200, "Steps in which the learning rate rises from 0; then it falls, a cosine, to 0.", minimum=0, **IN_CODE
    )
    within_minutes: float | None = option(
        None,
        "What the whole run may take: the learning rate falls along it, so that it is done when it is over. How many "
        "steps that makes depends on the machine.",
        above=0,
        unit="minutes",
        flag="--within",
        **TRAINING,
    )
    beta1: float = option(0.9, "Decay of AdamW's mean of the gradients.", minimum=0, below=1, **IN_CODE)
    beta2: float = option(0.98, "Decay of its mean of their squares.", minimum=0, below=1, **IN_CODE)
    weight_decay: float = option(
        0.0, "Weight decay of matrices; norms and scales are never decayed.", minimum=0, **IN_CODE
    )
    gradient_clip: float = 1.0
    optimizer: Optimizer = option(
        "adamw",
        "adamw8bit holds AdamW's moments in 8 bits (torchao), those of tensors of 4,096 numbers or more; muon, for "
        "full, makes the updates of matrices orthogonal and leaves the rest to AdamW.",
        **TRAINING,
    )
    momentum: float = option(0.95, "Momentum of the matrices' gradients, with muon.", **_SHARE, **IN_CODE)
    denoiser_loss_weight: float = option(
        1.0,
        "Weight of the canvases' loss. 0 leaves them out: only the causal pass learns, for less than half of the work "
        "of an example.",
        minimum=0,
        **IN_CODE,
    )
    encoder_loss_weight: float = option(1.0, "Weight of the causal pass's loss.", minimum=0, **IN_CODE)
    causal_steps: int = option(
        0,
        "Steps at the beginning in which the causal pass learns alone, from whole answers, however long.",
        minimum=0,
        **IN_CODE,
    )
    causal_share: float = option(
        0.0,
        "Share of the steps behind those in which it learns alone again, so that neither pass forgets.",
        **_SHARE,
        **IN_CODE,
    )
    causal_batch_size: int = option(64, "Examples of such a step, over all processes.", minimum=1, **IN_CODE)
    prompt_loss: bool = option(False, "The encoder learns the prompts as well.", flag="--train-on-prompt", **DATA)
    time_exponent: float = option(
        1.0,
        "Exponent of the uniform number that says how much of a canvas is noise: 1 as released, less for more noise.",
        **_SHARE,
        **CANVASES,
    )
    source_probability: float = option(
        0.0,
        "Share of the canvases of an answer that changes a text which start from that text, not from the answer.",
        **_SHARE,
        **IN_CODE,
    )
    prefix_probability: float = option(
        0.0,
        "Share of the canvases that are clean up to a random place and noise behind it, as a copy looks half way; none "
        "in the released loss.",
        **_SHARE,
        **IN_CODE,
    )
    self_conditioning_probability: float = option(
        0.5, "Share of the canvases that get the self-conditioning of a pass before.", **_SHARE, **IN_CODE
    )
    own_draft_probability: float = option(
        0.0,
        "Share of the self-conditioned canvases that get self-generated corruption (gesso.train.self_generated).",
        **_SHARE,
        **IN_CODE,
    )
    own_draft_rounds: int = option(
        1, "Most rounds that a draft of the model's own went through.", minimum=1, flag="--draft-rounds", **CANVASES
    )
    on_policy: bool = option(
        False,
        "Learn every step of canvases that the model denoises itself from noise, not corrupted ones.",
        **CANVASES,
    )
    precision: Precision = option(
        "auto",
        "Type of the products, while trained weights and optimiser stay float32; auto is bfloat16 on a GPU.",
        **TRAINING,
    )
    gradient_checkpointing: bool = option(
        False,
        "Less memory for a third more work: each layer's input alone is kept, and the rest computed again.",
        flag="--*/--no-*",
        **TRAINING,
    )
    expert_parallel: int = option(
        1,
        "Lay the experts of every layer, whole ones, over the processes that torchrun starts; tokens go to them. All "
        "of these, or 1, where a layer's experts are gathered for every pass. The same result.",
        minimum=1,
        **TRAINING,
    )
    context_parallel: int = option(
        1,
        "Split every sequence and every canvas over so many of the processes that torchrun starts, a divisor of their "
        "number. The same result.",
        minimum=1,
        **TRAINING,
    )
    workers: int = option(
        0,
        "Processes that make batches ahead of their steps; 0 makes each where it is trained on. The same result.",
        minimum=0,
        **IN_CODE,
    )
    seed: int = option(
        0, "Seed of all that is drawn: order, noise, answers, fresh deltas.", minimum=0, below=2**31, **TRAINING
    )
    checkpoint_every: int = option(250, "Steps between checkpoints.", minimum=1, **CHECKPOINTS)
    keep_checkpoints: int = option(
        2, "Newest checkpoints kept, besides the best.", minimum=1, flag="--keep", **CHECKPOINTS
    )
    log_every: int = option(10, "Steps between records.", minimum=1, **IN_CODE)
    evaluate_every: int = option(0, "Steps between evaluations on what is held out; 0 never.", minimum=0, **CHECKPOINTS)
    evaluation_examples: int = option(
        256, "So many of the held-out examples are evaluated, the first ones.", minimum=1, **CHECKPOINTS
    )
    patience: int = option(
        0, "End after so many evaluations in a row without a better one; 0 never.", minimum=0, **CHECKPOINTS
    )
    sample_every: int = option(0, "Steps between answers to the sample prompts; 0 never.", minimum=0, **CHECKPOINTS)
    sample_prompts: tuple[str, ...] = option(
        (),
        "Answered on the way, to watch it learn.",
        kind=Texts(may_be_empty=True),
        flag="--sample-prompt",
        **CHECKPOINTS,
    )

    def __post_init__(self) -> None:
        checked(self)
        if sum(width.share for width in self.narrow) > 1:
            raise OptionError("the shares of narrow canvases sum to more than 1", option="narrow")
        self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        if not self.denoiser_loss_weight and not self.encoder_loss_weight:
            raise OptionError(
                "denoiser_loss_weight and encoder_loss_weight are both 0: nothing would be learned",
                option="encoder_loss_weight",
            )
        if (self.causal_steps or self.causal_share) and not self.encoder_loss_weight:
            name, needs = ("causal_steps", "need") if self.causal_steps else ("causal_share", "needs")
            message = f"{name} {needs} encoder_loss_weight above 0: nothing would be learned in them"
            raise OptionError(message, option=name)
        if self.on_policy:
            self._check_on_policy()
        if self.patience and not self.evaluate_every:
            message = "patience counts evaluations on what is held out, and evaluate_every is 0: set it, too"
            raise OptionError(message, option="patience")
        if self.sample_every and not self.sample_prompts:
            raise OptionError("sample_every needs sample_prompts", option="sample_every")

    def _check_on_policy(self) -> None:
        corruption = ("own_draft_probability", "source_probability", "prefix_probability")
        if used := next((name for name in corruption if getattr(self, name)), None):
            raise OptionError(
                f"{used} corrupts canvases, and with on_policy all begin as noise: one of them", option=used
            )
        if self.time_exponent != 1:
            message = "time_exponent means nothing with on_policy, where all canvases begin as noise"
            raise OptionError(message, option="time_exponent")
        if not self.denoiser_loss_weight:
            raise OptionError("on_policy trains the denoiser: denoiser_loss_weight must be above 0", option="on_policy")
        if self.context_parallel > 1:
            raise OptionError("on_policy takes whole canvases: context_parallel must be 1", option="on_policy")

    def is_half(self, device_type: str) -> bool:
        """Says whether matmuls on such a device are bfloat16."""
        return self.precision == "bfloat16" or (self.precision == "auto" and device_type == "cuda")
