"""Prints what a step of `gesso finetune` takes. Imported when it is asked for."""

import dataclasses
from pathlib import Path
from typing import cast

from gesso.cli.memory import print_estimate
from gesso.config import LoraConfig, ModelConfig
from gesso.errors import ConfigError, DataError, OptionError
from gesso.models.device import pick_device
from gesso.models.loading import read_generation_defaults, read_model_config, stored_quantization
from gesso.models.quantization.plan import QLORA
from gesso.models.vision_config import read_vision_config
from gesso.train.config import TrainConfig
from gesso.train.data_images import most_images
from gesso.train.estimate_vision import ImageLoad
from gesso.train.finetune import check_plan, leaves_canvases_out, refuse_packed
from gesso.train.plan import Plan
from gesso.train.recipe import Data, Recipe
from gesso.train.text_files import CopiedText
from gesso.vision import NO_VISION
from gesso.vision.size import check_budget


def print_finetune_estimate(
    name: str,
    folder: Path,
    plan: Plan,
    train: TrainConfig,
    lora: LoraConfig,
    *,
    tokens: int,
    images: tuple[list[Path], int | None, bool],
    device: str,
) -> int:
    """Prints the memory of a step.

    Args:
        name: of the model, as it was asked for.
        folder: holds its config at least.
        plan: what learns, and from what.
        images: the data, the budget of an image, and whether the tower learns.

    Raises:
        OptionError: all weights of a quantized checkpoint are to be trained, examples are longer than the model's
            positions, or options contradict each other.
        ConfigError: options contradict each other.
        DataError: a line of the data is no JSON object.
    """
    method = plan.method
    refuse_packed(method, folder, name)
    stored = stored_quantization(folder)
    config = read_model_config(folder)
    generation = read_generation_defaults(folder, config)
    if leaves_canvases_out(plan, train, generation):
        train = dataclasses.replace(train, denoiser_loss_weight=0.0)
    files, budget, train_vision = images
    load = _image_load(files, config, budget, train_vision)
    check_plan(plan, config, tokens, train_vision)
    adapter = None if method == "full" else lora
    # A recipe refuses what contradicts itself, whatever the data is.
    Recipe(
        name=f"finetune-{method}",
        model=config,
        generation=generation,
        train=train,
        text=CopiedText(folder),
        data=cast(Data, None),
        start=folder,
        adapter=adapter,
        vision="none" if load is None else "trained" if train_vision else "frozen",
        distill=plan.distill,
    )
    return print_estimate(
        config,
        train,
        pick_device(device),
        tokens=tokens,
        answer=tokens,
        adapter=adapter,
        quantize=QLORA if method == "qlora" else stored,
        generation=generation,
        images=load,
        teacher=plan.distill is not None and method == "full",
    )


def _image_load(data: list[Path], config: ModelConfig, budget: int | None, trained: bool) -> ImageLoad | None:
    """The images of the line that has most of them; None where no line of the data has any.

    Raises:
        DataError: there are some, and the model has no eyes.
        OptionError: the tower is to learn, and there are none.
    """
    budget = config.image_budget if budget is None else budget
    check_budget(budget)
    most = most_images(data)
    if not most:
        if trained:
            raise OptionError("--train-vision is for data with images: name the DATA", option="train_vision")
        return None
    try:
        return ImageLoad(read_vision_config(config.vision_config or {}), most, budget, trained)
    except ConfigError:
        raise DataError(f"the data holds images, and {NO_VISION}") from None
