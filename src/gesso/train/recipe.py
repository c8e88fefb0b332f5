"""Holds what a training run is made of. A recipe is a function that returns a complete `Recipe`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, cast

from gesso.config import LoraConfig, ModelConfig
from gesso.errors import OptionError
from gesso.generation import GenerationConfig
from gesso.train.batch import Conversation
from gesso.train.config import TrainConfig
from gesso.train.picture_labels import PictureLabels
from gesso.train.reinforce.config import Cases, PolicyConfig
from gesso.train.text_files import TextFiles

Vision = Literal["none", "frozen", "trained"]


class Data(Protocol):
    """Gives training examples as a function of the step alone, so that a resumed run sees the same ones."""

    @property
    def fingerprint(self) -> str:
        """Returns a text that changes when the examples do: a run is not resumed on other data."""

    def batch(self, step: int, size: int, canvas_length: int | None) -> Sequence[Conversation]:
        """Returns the `size` examples of step `step` (from 0), which will be cut into canvases of `canvas_length`, or
        with None stay whole, answers of any length."""

    def evaluation(self, limit: int) -> Sequence[Conversation]:
        """Returns at most `limit` held-out examples, always the same ones; none where nothing is held out."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Holds a complete training run: model, text, data, optimisation."""

    name: str
    model: ModelConfig
    generation: GenerationConfig
    train: TrainConfig
    text: TextFiles
    data: Data | Cases
    """Examples to learn from; with `policy`, prompts and rewards."""
    start: Path | None = None
    """Checkpoint folder whose weights the run starts from; None draws random ones."""
    adapter: LoraConfig | None = None
    """Train low-rank deltas only; a run's checkpoints then hold the adapter alone."""
    adapter_start: Path | None = None
    """Adapter folder whose deltas the run starts from; None starts from fresh ones."""
    quantize: Literal["nf4"] | None = None
    """Hold the frozen weights in 4 bits (QLoRA)."""
    base: str = ""
    """What an adapter's file calls the model it belongs to."""
    vision: Vision = "none"
    """Whether the data shows images, and whether vision tower and projector learn from them."""
    labels: PictureLabels | None = None
    """Pictures with labels, by which the tower learns in the first steps; None has it learn from questions alone."""
    policy: PolicyConfig | None = None
    """Reinforcement: learn from rewards of the model's own answers."""
    teacher: Path | None = None
    """Checkpoint folder that says how the examples which the data mark as retained are answered
    (`gesso.train.retention`); None learns all from their answers."""
    distill: float | None = None
    """Distillation: learn what the start says so much earlier in time (`gesso.train.distill`); None learns the data."""
    raw_samples: bool = False
    """Take the sample prompts as they are, without the chat template, as the pairs of the data are taken."""

    @property
    def examples(self) -> Data:
        """Returns the examples of a run that learns from examples."""
        assert self.policy is None
        return cast(Data, self.data)

    @property
    def cases(self) -> Cases:
        """Returns the prompts of a run that learns from rewards."""
        assert self.policy is not None
        return cast(Cases, self.data)

    def __post_init__(self) -> None:
        if self.quantize and self.adapter is None:
            raise OptionError("4-bit weights cannot be trained themselves: quantize needs an adapter")
        if (self.adapter or self.quantize) and self.start is None:
            raise OptionError("an adapter needs a checkpoint to start from")
        if self.adapter and self.vision == "trained":
            raise OptionError("an adapter's file holds no vision tower: training one needs all weights")
        if self.labels is not None and self.vision != "trained":
            raise OptionError("labels of pictures teach a tower: vision must be trained")
        if self.labels is not None and (self.labels.steps % self.train.log_every or self.train.micro_batch_size):
            raise OptionError("labels take a step's pictures at once, and log_every must divide their steps")
        if self.distill is not None:
            self._check_distillation(self.distill)
        if self.distill is not None and self.train.prefix_probability:
            raise OptionError("distillation learns along whole paths of noise: prefix_probability must be 0")
        if self.teacher is not None:
            self._check_teacher()
        if self.policy is not None:
            if self.start is None:
                raise OptionError("reinforcement needs a checkpoint to start from")
            if self.adapter is not None and self.adapter.dropout:
                raise OptionError("reinforcement replays what was drawn: an adapter's dropout must be 0")
        if self.adapter and self.train.optimizer == "muon":
            raise OptionError("muon is for whole matrices, not for an adapter's thin ones: use adamw")

    def _check_teacher(self) -> None:
        if self.train.causal_steps < self.train.steps:
            raise OptionError("a teacher is heard by the causal pass alone: causal_steps must be all steps")
        if self.train.context_parallel > 1:
            raise OptionError("a teacher takes whole sequences: context_parallel must be 1")
        if self.policy is not None or self.distill is not None or self.vision != "none":
            raise OptionError("a teacher is for examples of text: no policy, distill or vision beside it")

    def _check_distillation(self, jump: float) -> None:
        if not 0 < jump <= 1:
            raise OptionError(f"distill must be above 0 and at most 1, got {jump:g}")
        if self.start is None:
            raise OptionError("distillation needs a checkpoint to start from, which is its teacher")
        if self.policy is not None:
            raise OptionError("distillation learns from a teacher, reinforcement from rewards: one of them")
        if self.vision != "none":
            raise OptionError("distillation works on text alone, and the data shows images")
        if not self.train.denoiser_loss_weight:
            raise OptionError("distillation trains the denoiser: denoiser_loss_weight must be above 0")
        if self.train.on_policy:
            raise OptionError("distillation learns at a time, and on_policy along canvases: one of them")
        if self.train.own_draft_probability:
            raise OptionError("distillation corrupts to a time, and own drafts have none: leave them out")
