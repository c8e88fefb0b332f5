"""Trains `mini`, the bundled model: every part of the architecture at a size that trains on two CPU cores.

`mini` draws random weights; each further run goes on from the weights that the one before left in the package, and says
only what it does otherwise.
"""

from gesso.tasks.vocabulary import build_tokenizer
from gesso.text.tokenizer import Tokenizer
from gesso.train.config import CanvasWidth, TrainConfig
from gesso.train.recipe import Recipe
from gesso.train.recipes import mini_stages as tasks
from gesso.train.recipes.common import continued, small_generation, small_model, task_data, text_files

__all__ = ["RELEASED", "mini", "mini_2", "mini_3", "mini_4", "mini_5", "mini_6", "mini_7", "mini_8", "mini_distill"]

NARROW = (
    CanvasWidth(canvas_length=8, batch_size=128, share=0.35),
    CanvasWidth(canvas_length=16, batch_size=96, share=0.25),
)

SURE = {"max_denoising_steps": 12, "stability_threshold": 0, "confidence_threshold": 0.01}
"""A canvas is done once its first guess is sure: a second one like it, which the released rule waits for, mends nothing
here, and what is not sure after a few steps wanders. docs/lab.md has the figures."""
RELEASED = {"max_denoising_steps": 48, "stability_threshold": 1, "confidence_threshold": 0.005}
"""The same settings as DiffusionGemma has them, for what is taught to `mini` anew."""
FIRST_STEPS = {"max_denoising_steps": 8, "t_min": 0.75, "stability_threshold": 0}
"""Attempts that `mini-8` trains along: nearly as warm as the first steps of 48, and over as soon as they are sure."""


def mini() -> Recipe:
    """Trains six skills from generators, 5.5 million parameters."""
    tokenizer = Tokenizer(build_tokenizer())
    model = small_model(
        tokenizer,
        hidden_size=192,
        intermediate_size=256,
        moe_intermediate_size=128,
        sliding_window=64,
        canvas_length=32,
    )
    return Recipe(
        name="mini",
        model=model,
        generation=small_generation(tokenizer, verify="auto", **SURE),
        train=TrainConfig(steps=3250, encoder_loss_weight=0.2, narrow=NARROW),
        text=text_files(),
        data=task_data((tasks.FIRST, tasks.SECOND), seed=0),
    )


def _narrow(eights: float, sixteens: float) -> tuple[CanvasWidth, ...]:
    """Shares of canvases of 8 and 16 tokens, three of each example that is encoded."""
    return (CanvasWidth(8, 96, eights, 3), CanvasWidth(16, 64, sixteens, 3))


mini_2 = continued(
    mini, "mini-2",
    "`mini` trained on, from its bundled weights, with three canvases of each example that is encoded.",
    tasks.LONGER, tasks.LONGER_2, start="mini", seed=1,
    steps=2300, batch_size=40, canvases_per_example=3, narrow=_narrow(0.45, 0.25),
    learning_rate=1.5e-3, warmup_steps=100,
)  # fmt: skip
mini_3 = continued(
    mini_2, "mini-3",
    "`mini` trained on once more, after `mini-2`, from the weights that were bundled then.",
    tasks.ENDS, seed=2, steps=2000, narrow=_narrow(0.40, 0.35), encoder_loss_weight=0.3
)  # fmt: skip
mini_4 = continued(
    mini_3, "mini-4",
    "`mini` trained on once more, after `mini-3`, from the weights that were bundled then.",
    tasks.STOPS, seed=3,
    steps=2500, narrow=_narrow(0.35, 0.35), learning_rate=1.3e-3, precision="bfloat16",
)  # fmt: skip
mini_5 = continued(
    mini_4, "mini-5",
    "`mini` trained on, after `mini-4`, from the weights that were bundled then, with a sliding window of 256.",
    tasks.WIDER, seed=4, model={"sliding_window": 256}, learning_rate=1.2e-3, optimizer="muon"
)  # fmt: skip
mini_6 = continued(
    mini_5, "mini-6",
    "`mini` trained on, also on self-generated corruption and on texts that are to change.",
    tasks.LAST, seed=5, steps=1500, narrow=_narrow(0.40, 0.35),
    self_conditioning_probability=0.6, own_draft_probability=0.5, source_probability=0.5,
)  # fmt: skip
mini_7 = continued(
    mini_6,
    "mini-7",
    "`mini` trained on from the weights of `mini-6`, also on changes to a part of a file.",
    tasks.AROUND,
    tasks.AROUND_2,
    seed=6,
    steps=1650,
    learning_rate=1e-3,
)
mini_8 = continued(
    mini_7, "mini-8",
    "`mini` trained on, on the first steps of canvases that it denoises itself, to settle sooner.",
    tasks.SOONER, seed=8, generation=FIRST_STEPS,
    steps=1200, batch_size=48, canvases_per_example=2, learning_rate=8e-4, precision="float32",
    narrow=(CanvasWidth(8, 96, 0.3, 2), CanvasWidth(16, 64, 0.35, 2)),
    on_policy=True, own_draft_probability=0.0, source_probability=0.0,
)  # fmt: skip
mini_distill = continued(
    mini_7, "mini-distill",
    "The bundled `mini` taught to need fewer steps: consistency distillation from itself.",
    tasks.AROUND, start="mini", seed=7, distill=0.25,
    steps=300, warmup_steps=20, learning_rate=2e-4, own_draft_probability=0.0, precision="float32",
)  # fmt: skip
