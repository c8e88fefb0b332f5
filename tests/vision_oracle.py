"""The reference that images are tested against: small random checkpoints with a tower, made and run by `transformers`.

Its encoder throws away the masks it builds for images, and its `generate` has another rule than the trained model (see
docs/vision.md). So it is never asked which rows see which: `encode` feeds it masks made here, from the rule.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from oracle import randomise, reference_class
from torch import Tensor

BOI, EOI, IMAGE, VOCABULARY = 60, 61, 62, 64


@dataclass(frozen=True)
class VisionShape:
    """Knobs of a small tower under a small text model with a window of 8."""

    hidden: int = 48
    mlp: int = 40
    layers: int = 2
    heads: int = 4
    kv_heads: int = 4
    head_dim: int = 12
    patch: int = 4
    positions: int = 64
    standardize: bool = True
    clipped: bool = False
    rope_type: str = "default"


SHAPES = {
    "published": VisionShape(),
    "axial": VisionShape(rope_type="axial", layers=1),
    "not_standardised": VisionShape(standardize=False),
    "clipped": VisionShape(clipped=True, heads=3, kv_heads=3, head_dim=16),
    "grouped_heads": VisionShape(heads=4, kv_heads=2, head_dim=8, layers=3),
    "twelve_layers": VisionShape(hidden=16, heads=2, kv_heads=2, head_dim=8, layers=12, mlp=16),
}


def make_vision_oracle(folder: Path, shape: VisionShape = SHAPES["published"], seed: int = 0) -> Any:
    """Build, randomise and save a reference checkpoint with a tower; returns the reference, fp32, in eval mode."""
    model_class = reference_class()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import DiffusionGemmaConfig, DiffusionGemmaTextConfig, Gemma4VisionConfig

        text = DiffusionGemmaTextConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=24,
            moe_intermediate_size=8,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            global_head_dim=32,
            num_global_key_value_heads=1,
            sliding_window=8,
            num_experts=4,
            top_k_experts=2,
            layer_types=["sliding_attention"] * 2 + ["full_attention"],
            use_bidirectional_attention="vision",
        )
        vision = Gemma4VisionConfig(
            hidden_size=shape.hidden,
            intermediate_size=shape.mlp,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            patch_size=shape.patch,
            pooling_kernel_size=3,
            position_embedding_size=shape.positions,
            standardize=shape.standardize,
            use_clipped_linears=shape.clipped,
            rope_parameters={"rope_type": shape.rope_type, "rope_theta": 100.0},
        )
        config = DiffusionGemmaConfig(
            text_config=text,
            vision_config=vision,
            boi_token_id=BOI,
            eoi_token_id=EOI,
            image_token_id=IMAGE,
            canvas_length=8,
        )
        config._attn_implementation = "eager"
        config._experts_implementation = "eager"
        model = model_class(config).eval()
        randomise(model, seed)
        _randomise_tower(model.model.encoder.vision_tower, seed)
        model.save_pretrained(folder)
    return model


def _randomise_tower(tower: Any, seed: int) -> None:
    """Draw what is no parameter, too: the standardising buffers, and bounds that bite."""
    generator = torch.Generator().manual_seed(1000 + seed)
    for name, buffer in tower.named_buffers():
        if "freq" in name:
            continue
        drawn = torch.rand(buffer.shape, generator=generator)
        if name.endswith("std_bias"):
            buffer.copy_(4 * drawn - 2)
        elif name.endswith("std_scale"):
            buffer.copy_(0.5 + drawn)
        elif name.endswith(("_min", "_max")):
            buffer.copy_((0.3 + drawn) * (-1 if name.endswith("_min") else 1))


class Picture(NamedTuple):
    """Patches as the pre-processing hands them over."""

    pixels: np.ndarray
    rows: int
    columns: int

    def pixel_values(self) -> np.ndarray:
        return self.pixels


def picture(rows: int, columns: int, seed: int = 0, patch: int = 4) -> Picture:
    numbers = np.random.default_rng([seed, rows, columns]).random((rows * columns, 3 * patch**2), np.float32)
    return Picture(numbers, rows, columns)


def as_reference(pictures: list[Picture]) -> list[tuple[Tensor, int, int]]:
    return [(torch.from_numpy(each.pixels), each.rows, each.columns) for each in pictures]


def padded(pixels: Tensor, rows: int, columns: int, patches: int) -> tuple[Tensor, Tensor]:
    """A picture's patches and positions as the reference takes them, filled up to so many patches."""
    positions = torch.full((patches, 2), -1)
    positions[: rows * columns, 0] = torch.arange(columns).repeat(rows)
    positions[: rows * columns, 1] = torch.arange(rows).repeat_interleave(columns)
    out = torch.zeros(patches, pixels.shape[1])
    out[: rows * columns] = pixels
    return out, positions


@torch.no_grad()
def reference_features(model: Any, pictures: list[tuple[Tensor, int, int]], patches: int) -> Tensor:
    """Embeddings of pictures (pixels [P, V], rows, columns), padded and as one batch; all behind each other, [n, E]."""
    pairs = [padded(*picture, patches) for picture in pictures]
    pixels, positions = (torch.stack(parts) for parts in zip(*pairs, strict=True))
    features: Tensor = model.model.encoder.get_image_features(pixels, positions, return_dict=True).pooler_output
    return features


def rule_masks(ids: Tensor, begin: int, end: int, window: int = 8) -> dict[str, Tensor]:
    """Additive masks of rows `begin` to `end` of a prompt, written out from the rule, for every kind of layer."""
    image = ids[:end] == IMAGE
    block = [0] * end
    for i in range(end):
        block[i] = 0 if not image[i] else block[i - 1] if i and image[i - 1] else max(block) + 1
    full, sliding = torch.zeros(end - begin, end, dtype=torch.bool), torch.zeros(end - begin, end, dtype=torch.bool)
    for q in range(begin, end):
        for k in range(end):
            full[q - begin, k] = k <= q
            sliding[q - begin, k] = (k <= q or (block[q] > 0 and block[q] == block[k])) and abs(q - k) < window
    least = torch.finfo(torch.float32).min
    kinds = {"full_attention": full, "sliding_attention": sliding}
    return {kind: torch.where(seen, 0.0, least)[None, None] for kind, seen in kinds.items()}
