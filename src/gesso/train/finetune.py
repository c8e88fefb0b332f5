"""Makes a complete recipe from a user's data and a checkpoint."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import torch

from gesso.config import LoraConfig, ModelConfig
from gesso.errors import OptionError
from gesso.generation import GenerationConfig
from gesso.models.adapter_files import adapter_config_of
from gesso.models.adapters import targets
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import read_generation_defaults, read_model_config, stored_quantization
from gesso.models.vision_loading import has_vision
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.config import TrainConfig
from gesso.train.data_config import FileDataConfig
from gesso.train.file_data import FileData
from gesso.train.plan import Method, Plan
from gesso.train.recipe import Recipe
from gesso.train.run_rate import is_small
from gesso.train.text_files import CopiedText
from gesso.train.vision import vision_input_of

LEARNING_RATES: dict[Method, float] = {"full": 2e-5, "lora": 2e-4, "qlora": 2e-4}
"""Defaults for models of billions of parameters."""
SMALL_RATES: dict[Method, float] = {"full": 3e-4, "lora": 3e-3, "qlora": 3e-3}
"""Defaults for models of the bundled ones' size, which `is_small` finds."""

SOURCE_SHARE = 0.5


def default_learning_rate(method: Method, model: ModelConfig) -> float:
    """Returns the learning rate that a method takes by itself, which depends on the model's size."""
    return (SMALL_RATES if is_small(model) else LEARNING_RATES)[method]


def leaves_canvases_out(plan: Plan, train: TrainConfig, generation: GenerationConfig) -> bool:
    """Says whether the causal pass learns alone (`Plan.causal_only`).

    Args:
        generation: the checkpoint's own settings.

    Raises:
        OptionError: it is to, and there is a setting of canvases.
    """
    settings = {
        "own_drafts": train.own_draft_probability,
        "on_policy": train.on_policy,
        "time_exponent": train.time_exponent != 1,
        "canvases_per_example": train.canvases_per_example != 1,
        "source_share": plan.source_share,
        "distill": plan.distill,
    }
    of_canvases = [name for name, value in settings.items() if value]
    causal_only = (generation.mode == "ar" and not of_canvases) if plan.causal_only is None else plan.causal_only
    if causal_only and of_canvases:
        message = f"causal_only leaves the canvases out: leave out {', '.join(of_canvases)}, too"
        raise OptionError(message, option="causal_only")
    return causal_only


def check_plan(plan: Plan, model: ModelConfig, max_length: int, train_vision: bool) -> None:
    """Refuses what no data can make possible.

    Raises:
        OptionError: examples that are longer than the model's positions, or a vision tower that an adapter is to hold.
    """
    if train_vision and plan.method != "full":
        raise OptionError(
            "train_vision needs the method full: an adapter's file holds no vision tower", option="train_vision"
        )
    if max_length > model.max_position_embeddings:
        raise OptionError(
            f"max_length {max_length} is past the model's {model.max_position_embeddings} positions",
            option="max_length",
        )


def refuse_packed(method: Method, folder: Path, name: str) -> None:
    """Refuses to train whole weights that the checkpoint `folder`, called `name`, does not have.

    Raises:
        OptionError: it is quantized, and the method needs whole weights.
    """
    if method != "lora" and stored_quantization(folder) is not None:
        raise OptionError(
            f"method {method} needs whole weights, and those of {name} are quantized already", option="method"
        )


def finetune_recipe(
    files: Sequence[Path],
    folder: Path,
    *,
    base: str,
    plan: Plan,
    train: TrainConfig,
    data: FileDataConfig,
    adapter: LoraConfig,
    held_out_files: Sequence[Path] = (),
    train_vision: bool = False,
    adapter_start: Path | None = None,
) -> Recipe:
    """Reads the data once and makes the recipe.

    Args:
        folder: the checkpoint to start from.
        base: what the adapter's file calls it.
        train: settings other than steps, learning rate and warm-up, which `plan` decides.
        adapter_start: an adapter to go on from; `adapter` is then not asked.
        train_vision: let vision tower and projector learn as well; else they stay as they are.

    Raises:
        DataError: a line of the data cannot be used.
        OptionError: options contradict each other, or a target matches no layer.
    """
    if not (folder / "tokenizer.json").exists():
        raise OptionError(f"{folder} has no tokenizer.json, without which text cannot be trained on")
    refuse_packed(plan.method, folder, base)
    model = read_model_config(folder)
    check_plan(plan, model, data.max_length, train_vision)
    if adapter_start is not None:
        adapter = adapter_config_of(model, adapter_start)
    elif plan.method != "full":
        with torch.device("meta"):
            targets(DiffusionGemma(model), adapter)
    generation = read_generation_defaults(folder, model)
    examples = FileData(
        files,
        Tokenizer.from_folder(folder),
        ChatTemplate.from_folder(folder),
        model,
        generation.eos_token_ids,
        data,
        held_out_files,
        vision_input_of(model) if has_vision(folder) else None,
    )
    if train_vision and not examples.report.images:
        raise OptionError("train_vision is for data with images, and no line holds one", option="train_vision")
    steps = plan.steps
    if steps is None:
        wanted = plan.epochs * examples.report.examples / train.batch_size
        if not math.isfinite(wanted):
            raise OptionError(f"epochs {plan.epochs:g} make more steps than can be counted", option="epochs")
        steps = math.ceil(wanted)
    if plan.source_share and not examples.report.changes:
        raise OptionError(
            "source_share is for pairs with a source, and no line to train on has one", option="source_share"
        )
    causal_only = leaves_canvases_out(plan, train, generation)
    usual = SOURCE_SHARE if examples.report.changes and not train.on_policy else 0.0
    settings = dataclasses.replace(
        train,
        denoiser_loss_weight=0.0 if causal_only else train.denoiser_loss_weight,
        source_probability=usual if plan.source_share is None else plan.source_share,
        steps=steps,
        learning_rate=plan.learning_rate or default_learning_rate(plan.method, model),
        warmup_steps=math.ceil(plan.warmup_share * steps),
    )
    if settings.evaluate_every and not examples.report.held_out:
        raise OptionError(
            "evaluate_every needs held-out examples: give held_out or a held-out file", option="evaluate_every"
        )
    return Recipe(
        name=f"finetune-{plan.method}",
        model=model,
        generation=generation,
        train=settings,
        text=CopiedText(folder),
        data=examples,
        start=folder,
        adapter=None if plan.method == "full" else adapter,
        adapter_start=adapter_start,
        quantize="nf4" if plan.method == "qlora" else None,
        base=base,
        vision="none" if not examples.report.images else "trained" if train_vision else "frozen",
        distill=plan.distill,
        raw_samples=data.raw_pairs,
    )
