"""Holds embeddings of images, made by the vision tower when a prompt first needs them and kept while there is room.

What the tower makes of an image depends on that image alone, so it is looked up by the span's content hash, wherever
in whichever prompt it stands. Those that were used longest ago are let go first.
"""

from torch import Tensor

from gesso.config import ModelConfig
from gesso.models.vision_tower import VisionModel
from gesso.runner.prompt_input import EmbeddingSpan
from gesso.runner.protocol import VisionInput
from gesso.sized_cache import SizedCache
from gesso.vision.size import PatchLayout

KEPT_BYTES = 64 * 2**20
"""Bytes of the embeddings that are kept: some 40 images of 280 tokens and 2,816 numbers in bfloat16."""


class ImageEmbeddings:
    """Holds a vision tower, and what it made last. Not for several threads at once."""

    def __init__(self, vision: VisionModel, kept_bytes: int = KEPT_BYTES) -> None:
        self.vision = vision
        self.encoded = 0
        """Images that went through the tower."""
        self._kept: SizedCache[str, Tensor] = SizedCache(kept_bytes)

    @property
    def bytes(self) -> int:
        """Returns the bytes of the embeddings that are kept."""
        return self._kept.stats.bytes

    def of(self, span: EmbeddingSpan) -> Tensor:
        """Returns the embeddings [length, D] of a span.

        Raises:
            ImageError: the picture does not fit the tower.
        """
        found = self._kept.get(span.content_hash)
        if found is not None:
            return found
        (made,) = self.vision.embed([span.source])  # type: ignore[list-item]
        assert len(made) == span.length, f"{len(made)} embeddings for a span of {span.length}"
        self.encoded += 1
        self._kept.put(span.content_hash, made, made.nbytes)
        return made


def vision_input(config: ModelConfig, vision: VisionModel) -> VisionInput:
    """Tells how a model of this shape takes images from this tower."""
    tower = vision.config
    layout = PatchLayout(tower.patch_size, tower.pooling_kernel_size)
    multiplied = sum(weight.numel() for weight in vision.tower.layers.parameters()) * layout.pooling**2
    return VisionInput(layout, tower.position_embedding_size, multiplied / _multiplied(config), config.image_budget)


def _multiplied(config: ModelConfig) -> int:
    """Weights of the text model that one token is multiplied by, those of the vocabulary left out."""
    heads = sum(
        2 * (config.num_attention_heads + layer.num_key_value_heads) * layer.head_dim for layer in config.layers
    )
    mlps = 3 * (config.intermediate_size + config.top_k_experts * config.moe_intermediate_size)
    return config.hidden_size * (heads + len(config.layers) * (mlps + config.num_experts))
