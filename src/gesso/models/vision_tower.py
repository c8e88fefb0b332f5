"""Defines Gemma 4's vision tower and the projector behind it: patches of an image to embeddings of the text model.

    B pictures of one size   P = rows x columns patches   V numbers of a patch   n soft tokens
    D hidden   E hidden of the text model

A picture is encoded unpadded. Pooling, scaling, standardising and the projector's norm are done in fp32, whatever the
weights are; the result is rounded once, before the projection.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from gesso.errors import ImageError
from gesso.models.vision_config import VisionConfig
from gesso.nn.axial_rope import AxialRope
from gesso.nn.linear import Linear
from gesso.nn.mlp import MLP
from gesso.nn.norm import RMSNorm, rms_norm
from gesso.nn.vision_attention import VisionAttention, vision_linear


class Patches(Protocol):
    """Gives the tower an image, resized and cut into patches; `gesso.vision.preprocess.PreparedImage` is one."""

    @property
    def rows(self) -> int:
        """Returns the number of patches from top to bottom."""

    @property
    def columns(self) -> int:
        """Returns the number of patches from left to right."""

    def pixel_values(self) -> Any:
        """Returns an array [P, V] of fp32 in [0, 1], patches row by row."""


class VisionBlock(nn.Module):
    """Applies attention, then the MLP, each between norms of its own."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        size, eps, clipped = config.hidden_size, config.rms_norm_eps, config.use_clipped_linears
        self.attention = VisionAttention(
            size, config.num_attention_heads, config.num_key_value_heads, config.head_dim, eps, clipped
        )
        self.mlp = MLP(size, config.intermediate_size)
        if clipped:
            self.mlp.gate_proj = vision_linear(size, config.intermediate_size, clipped)
            self.mlp.up_proj = vision_linear(size, config.intermediate_size, clipped)
            self.mlp.down_proj = vision_linear(config.intermediate_size, size, clipped)
        self.input_norm = RMSNorm(size, eps)
        self.post_attention_norm = RMSNorm(size, eps)
        self.pre_mlp_norm = RMSNorm(size, eps)
        self.post_mlp_norm = RMSNorm(size, eps)

    def forward(self, x_BPD: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
        x_BPD = x_BPD + self.post_attention_norm(self.attention(self.input_norm(x_BPD), rope))
        flat_ND = self.pre_mlp_norm(x_BPD).flatten(0, 1)
        out: Tensor = x_BPD + self.post_mlp_norm(self.mlp(flat_ND)).view_as(x_BPD)
        return out


class VisionTower(nn.Module):
    """Turns patches into soft tokens; one for `pooling_kernel_size` squared patches."""

    std_bias: Tensor
    std_scale: Tensor

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        self.input_proj = Linear(config.pixels, config.hidden_size, bias=False)
        self.position_table = nn.Parameter(torch.zeros(2, config.position_embedding_size, config.hidden_size))
        """[0] by column, [1] by row."""
        self.layers = nn.ModuleList(VisionBlock(config) for _ in range(config.num_hidden_layers))
        self.rope = AxialRope(config.rope_theta, config.head_dim)
        if config.standardize:
            self.register_buffer("std_bias", torch.zeros(config.hidden_size))
            self.register_buffer("std_scale", torch.ones(config.hidden_size))

    def forward(self, pixels_BPV: Tensor, rows: int, columns: int) -> Tensor:
        """Returns soft tokens [B, n, D], row by row, in fp32.

        Args:
            pixels_BPV: fp32 in [0, 1].

        Raises:
            ImageError: sides that are no multiples of the pooling, or longer than the table of positions.
        """
        size, weight = self.config.pooling_kernel_size, self.input_proj.weight
        if rows % size or columns % size or max(rows, columns) > self.config.position_embedding_size:
            raise ImageError(
                f"an image of {rows} x {columns} patches does not fit the vision tower: sides must be multiples of "
                f"{size}, up to {self.config.position_embedding_size}"
            )
        x = self.input_proj((2 * (pixels_BPV.to(weight.device, torch.float32) - 0.5)).to(weight.dtype))
        x = x + (self.position_table[0, None, :columns] + self.position_table[1, :rows, None]).flatten(0, 1)
        rope = self.rope.grid(rows, columns, x.device, x.dtype)
        for layer in self.layers:
            x = layer(x, rope)
        return self._standardised(x.float().unflatten(1, (rows // size, size, columns // size, size)).mean((2, 4)))

    def _standardised(self, pooled: Tensor) -> Tensor:
        soft: Tensor = pooled.flatten(1, 2) * self.config.hidden_size**0.5
        if not self.config.standardize:
            return soft
        return (soft - self.std_bias.float()) * self.std_scale.float()


class Projector(nn.Module):
    """Projects soft tokens of the tower to embeddings of the text model, which are not scaled by its width."""

    def __init__(self, config: VisionConfig, text_hidden_size: int) -> None:
        super().__init__()
        self.eps = config.rms_norm_eps
        self.projection = Linear(config.hidden_size, text_hidden_size, bias=False)

    def forward(self, soft_BnD: Tensor) -> Tensor:
        normed = rms_norm(soft_BnD.float(), None, self.eps)
        out: Tensor = self.projection(normed.to(self.projection.weight.dtype))
        return out


class VisionModel(nn.Module):
    """Combines tower and projector. See `embed`."""

    def __init__(self, config: VisionConfig, text_hidden_size: int) -> None:
        super().__init__()
        self.config = config
        self.tower = VisionTower(config)
        self.projector = Projector(config, text_hidden_size)

    @property
    def device(self) -> torch.device:
        return self.projector.projection.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.projector.projection.weight.dtype

    def forward(self, pixels_BPV: Tensor, rows: int, columns: int) -> Tensor:
        """Returns embeddings [B, n, E] of images of one size, in the dtype of the weights."""
        out: Tensor = self.projector(self.tower(pixels_BPV, rows, columns))
        return out

    @torch.no_grad()
    def embed(self, images: Sequence[Patches], together: int = 1) -> list[Tensor]:
        """Returns the embeddings [n, E] that take the place of each image's soft tokens, in order.

        Args:
            together: pictures of one size that are encoded at once. With 1, what comes of a picture does not depend,
                in its last bits, on those beside it.

        Raises:
            ImageError: a picture whose size does not fit the tower.
        """
        found: dict[int, Tensor] = {}
        for numbers in _groups(images, max(1, together)):
            first = images[numbers[0]]
            pixels = torch.stack([torch.from_numpy(images[number].pixel_values()) for number in numbers])
            found |= zip(numbers, self(pixels, first.rows, first.columns).unbind(), strict=True)
        return [found[number] for number in range(len(images))]


def _groups(images: Sequence[Patches], together: int) -> Iterator[list[int]]:
    """Yields the numbers of images of one size, at most `together` in a group."""

    def size(number: int) -> tuple[int, int]:
        return images[number].rows, images[number].columns

    for _, group in groupby(sorted(range(len(images)), key=size), key=size):
        numbers = list(group)
        for begin in range(0, len(numbers), together):
            yield numbers[begin : begin + together]
