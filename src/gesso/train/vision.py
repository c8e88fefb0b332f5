"""Makes the embeddings of a training batch's images: of a frozen tower, which are kept, or of one that is trained."""

from itertools import groupby
from pathlib import Path

import torch
from torch import Tensor

from gesso.config import ModelConfig
from gesso.errors import CheckpointError, OptionError
from gesso.models.vision_config import read_vision_config
from gesso.models.vision_loading import has_vision, load_vision
from gesso.models.vision_tower import VisionModel
from gesso.runner.image_embeddings import ImageEmbeddings, vision_input
from gesso.runner.prompt_input import EmbeddingSpan
from gesso.runner.protocol import VisionInput
from gesso.train.batch import Batch
from gesso.train.distributed import ProcessGroup
from gesso.train.recipe import Recipe
from gesso.vision.preprocess import PreparedImage

POSITION_STD = 0.1
"""Standard deviation of a fresh table of positions, beside patches of unit size."""


class BatchImages:
    """Owns the tower of a run. It is no module: a frozen one is not sharded over processes, nor saved."""

    def __init__(self, vision: VisionModel, *, trained: bool) -> None:
        self.vision = vision.train(trained).requires_grad_(trained)
        self.trained = trained
        self.rests = False
        """Whether a tower that is trained stays as it is for now: its embeddings have no gradient then."""
        self._frozen = None if trained else ImageEmbeddings(vision)

    @property
    def trained_vision(self) -> VisionModel | None:
        """Returns the tower where it is trained."""
        return self.vision if self.trained else None

    def embeddings(self, batch: Batch) -> list[Tensor]:
        """Returns the embeddings [n, D] of all images of a batch, in order. A picture that is there twice is encoded
        once."""
        spans = [image for row in batch.images for image in row]
        if self._frozen is not None:
            with torch.no_grad():
                return [self._frozen.of(span) for span in spans]
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.rests):
            return self._trained_embeddings(spans)

    def _trained_embeddings(self, spans: list[EmbeddingSpan]) -> list[Tensor]:
        distinct = {span.content_hash: _prepared(span) for span in spans}
        found: dict[str, Tensor] = {}
        for (rows, columns), group in groupby(sorted(distinct.items(), key=_size_of), lambda item: _size_of(item)[:2]):
            names, pictures = zip(*group, strict=True)
            pixels = torch.stack([torch.from_numpy(picture.pixel_values()) for picture in pictures])
            found |= zip(names, self.vision(pixels, rows, columns).unbind(), strict=True)
        return [found[span.content_hash] for span in spans]


def _prepared(span: EmbeddingSpan) -> PreparedImage:
    assert isinstance(span.source, PreparedImage)
    return span.source


def _size_of(item: tuple[str, PreparedImage]) -> tuple[int, int, str]:
    name, picture = item
    return picture.rows, picture.columns, name


def start_vision(recipe: Recipe, group: ProcessGroup) -> BatchImages | None:
    """Makes the tower that a run begins with: that of the checkpoint it starts from, or random weights; None where the
    run has no images.

    Raises:
        OptionError: several processes are to train it.
        CheckpointError: the run has images, and the checkpoint it starts from no tower.
    """
    if recipe.vision == "none":
        return None
    trained = recipe.vision == "trained"
    if trained and group.size > 1:
        raise OptionError("a vision tower is trained in one process only: leave it frozen", option="train_vision")
    if recipe.start is not None and has_vision(recipe.start):
        exact = trained or recipe.adapter is None or recipe.train.precision == "float32"
        vision = load_vision(recipe.start, str(group.device), "float32" if exact else "auto")
    elif trained and recipe.model.vision_config is not None:
        vision = VisionModel(read_vision_config(recipe.model.vision_config), recipe.model.hidden_size)
        initialise_vision(vision.to(group.device), recipe.train.seed)
    else:
        raise CheckpointError(f"{recipe.start} has no vision tower, and recipe {recipe.name!r} shows images")
    return BatchImages(vision, trained=trained)


def vision_input_of(config: ModelConfig) -> VisionInput:
    """Tells how a model takes images, from its config alone.

    Raises:
        ConfigError: its `vision_config` describes no tower.
    """
    with torch.device("meta"):
        vision = VisionModel(read_vision_config(config.vision_config or {}), config.hidden_size)
    return vision_input(config, vision)


@torch.no_grad()
def initialise_vision(vision: VisionModel, seed: int) -> None:
    """Draws random weights for training from scratch.

    Patches become vectors of unit size, positions smaller ones; the projector's embeddings have the size of the text's.
    Norms that end a branch start at (2 * layers)**-0.5, as in the text model.
    """
    generator = torch.Generator(device=vision.device).manual_seed(seed)
    branch = (2 * vision.config.num_hidden_layers) ** -0.5
    for name, parameter in vision.named_parameters():
        if name.endswith(("post_attention_norm.weight", "post_mlp_norm.weight")):
            parameter.fill_(branch)
        elif parameter.dim() == 1:
            parameter.fill_(1.0)
        elif name.endswith("position_table"):
            parameter.normal_(0.0, POSITION_STD, generator=generator)
        else:
            parameter.normal_(0.0, parameter.shape[1] ** -0.5, generator=generator)


@torch.no_grad()
def resume_vision(vision: VisionModel, folder: Path) -> None:
    """Puts the tower of a checkpoint in place.

    Raises:
        CheckpointError: it holds none, or one of another shape.
    """
    saved = load_vision(folder, "cpu", "float32")
    if saved.config != vision.config:
        raise CheckpointError(f"{folder} holds a vision tower of another shape")
    for name, tensor in saved.state_dict().items():
        vision.state_dict()[name].copy_(tensor)
