"""Writes checkpoints of the published names and sizes with random weights, a tower and a tokenizer, layer by layer.

    python _fullsize.py FOLDER [--layers 30] [--form whole|int4]

`whole` is bfloat16 (51.7 GB with 30 layers); `int4` packs linear layers and experts in 4 bits and the table in 8, as
`gesso quantize --to int4 --embedding int8` would (13.9 GB), without the whole one on the disk.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.hf_config import read_config
from gesso.models.hub import resolve
from gesso.models.quantization.plan import Quantization, replace_layers, write_quantization
from gesso.models.state_dict_adapter import to_hf
from gesso.models.vision_config import read_vision_config
from gesso.models.vision_loading import vision_tensors
from gesso.models.vision_tower import VisionModel
from gesso.nn.quant.base import Format
from gesso.nn.quant.integer import Int4, Int8

VOCABULARY = 262_144
PUBLISHED = {
    "vocab_size": VOCABULARY,
    "hidden_size": 2816,
    "intermediate_size": 2112,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 256,
    "global_head_dim": 512,
    "num_global_key_value_heads": 2,
    "sliding_window": 1024,
    "num_experts": 128,
    "top_k_experts": 8,
    "moe_intermediate_size": 704,
    "attention_k_eq_v": True,
    "max_position_embeddings": 262_144,
}
VISION = {
    "model_type": "gemma4_vision",
    "global_head_dim": 72,
    "head_dim": 72,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "num_key_value_heads": 16,
    "patch_size": 16,
    "pooling_kernel_size": 3,
    "position_embedding_size": 10240,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_theta": 100.0, "rope_type": "default"},
    "standardize": True,
    "use_clipped_linears": False,
}
INT4 = Quantization(Int4(), Int4(), Int8())
DEVIATION = 0.02
NOISE = 1 << 25
"""Random numbers that are drawn; larger tensors repeat them."""


def published_config(layers: int) -> dict[str, Any]:
    """The published `config.json` with so many layers, the last of which sees everything."""
    raw: dict[str, Any] = json.loads((resolve("mini") / "config.json").read_text("utf-8"))
    kinds = [*((["sliding_attention"] * 5 + ["full_attention"]) * 5)[: layers - 1], "full_attention"]
    raw["canvas_length"] = 256
    raw["text_config"] |= PUBLISHED | {"num_hidden_layers": layers, "layer_types": kinds}
    raw["text_config"].pop("per_layer_config", None)
    raw["vision_config"] = VISION
    return raw


class Noise:
    """Fills tensors with random numbers that were drawn once."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.bytes = torch.randint(0, 256, (NOISE,), dtype=torch.uint8, generator=generator)
        self.numbers = (torch.randn(NOISE, generator=generator) * DEVIATION).to(torch.bfloat16)
        self.at = 0

    def fill(self, name: str, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        """Makes a tensor that this name could have: norms and scalars are one."""
        if name.endswith(("_scalar", "layer_scalar", "norm.weight", "layernorm.weight", "scale", "per_expert_scale")):
            return torch.ones(shape, dtype=dtype)
        source = self.bytes if dtype in (torch.uint8, torch.int8) else self.numbers
        out = torch.empty(shape, dtype=source.dtype)
        flat = out.view(-1)
        for begin in range(0, flat.numel(), NOISE):
            piece = flat[begin : begin + NOISE]
            self.at = (self.at + 1_000_003) % NOISE
            first = min(len(piece), NOISE - self.at)
            piece[:first] = source[self.at : self.at + first]
            piece[first:] = source[: len(piece) - first]
        return out.view(dtype) if dtype == torch.int8 else out.to(dtype)

    def packed(self, name: str, like: Tensor, form: Format) -> Tensor:
        """Makes a part of packed weights that stand for numbers of `DEVIATION`."""
        step = 4 * DEVIATION / 15 if isinstance(form, Int4) else 4 * DEVIATION / 127
        if name.endswith("scales"):
            return torch.full(like.shape, step, dtype=like.dtype)
        if name.endswith("offsets"):
            return torch.full(like.shape, -7.5 * step, dtype=like.dtype)
        return self.fill(name, like.shape, like.dtype)


def tensors(raw: dict[str, Any], form: str, noise: Noise) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """Yields the name of every part of the model, and its tensors by published name."""
    config = read_config(raw)
    with torch.device("meta"):
        model = DiffusionGemma(config).to(torch.bfloat16)
        tower = VisionModel(read_vision_config(VISION), config.hidden_size)
    forms = replace_layers(model, INT4) if form == "int4" else {}
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in model.state_dict().items():
        layer = ".".join(name.split(".")[:2]) if name.startswith("layers.") else "rest"
        parts.setdefault(layer, {})[name] = tensor
    for part, held in parts.items():
        made = {}
        for name, tensor in held.items():
            kind = forms.get(name.rpartition(".")[0])
            made[to_hf(name)] = (
                noise.fill(name, tensor.shape, tensor.dtype) if kind is None else noise.packed(name, tensor, kind)
            )
        yield part, made
    yield (
        "tower",
        {name: noise.fill(name, tensor.shape, torch.bfloat16) for name, tensor in vision_tensors(tower).items()},
    )


def needed_bytes(layers: int, form: str) -> int:
    """Counts the bytes that `write` writes."""
    config = read_config(published_config(layers))
    with torch.device("meta"):
        model = DiffusionGemma(config).to(torch.bfloat16)
        tower = VisionModel(read_vision_config(VISION), config.hidden_size).to(torch.bfloat16)
    if form == "int4":
        replace_layers(model, INT4)
    return sum(tensor.nbytes for part in (model, tower) for tensor in part.state_dict().values())


def write(folder: Path, layers: int, form: str) -> int:
    """Writes the checkpoint; returns its bytes."""
    needed = needed_bytes(layers, form)
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if needed + 10**9 > free:
        sys.exit(f"{layers} layers in {form} take {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free: fewer --layers")
    raw, noise = published_config(layers), Noise()
    weight_map: dict[str, str] = {}
    for part, held in tensors(raw, form, noise):
        file = f"model-{part.replace('.', '-')}.safetensors"
        save_file(held, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(held, file)
    index = {"metadata": {"total_size": needed}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
    if form == "int4":
        raw["quantization_config"] = write_quantization(INT4)
    (folder / "config.json").write_text(json.dumps(raw), "utf-8")
    write_texts(folder)
    return needed


def write_texts(folder: Path) -> None:
    """Writes mini's template and tokenizer, which is filled up to the published size with tokens that nothing uses."""
    source = resolve("mini")
    tokenizer = json.loads((source / "tokenizer.json").read_text("utf-8"))
    vocabulary = tokenizer["model"]["vocab"]  # pairs of a piece and its score: the worst ones are never chosen
    vocabulary += [[f"<unused{number}>", -1e4] for number in range(len(vocabulary), VOCABULARY)]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    for name in ("tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        shutil.copy(source / name, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--form", choices=("whole", "int4"), default="whole")
    options = parser.parse_args()
    print(f"{write(options.folder, options.layers, options.form) / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
