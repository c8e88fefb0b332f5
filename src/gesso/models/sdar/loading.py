"""Loads an SDAR checkpoint. Hugging Face's names of its tensors are in this file and nowhere else."""

import re
from pathlib import Path

import torch
from torch import Tensor

from gesso.diffusion.samplers.low_confidence import LowConfidenceSampler
from gesso.diffusion.stopping.last_step import LastStep
from gesso.errors import CheckpointError
from gesso.generation import GenerationConfig
from gesso.models.sdar.config import SdarConfig
from gesso.models.sdar.model import Sdar
from gesso.models.tensors import cast_finite, open_checked

_TOP = {
    "vocabulary.weight": "lm_head.weight",
    "embedding.weight": "model.embed_tokens.weight",
    "norm.weight": "model.norm.weight",
}
_PARTS = {
    "attention": "self_attn",
    "mlp": "mlp",
    "input_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
}
_LAYER = re.compile(r"layers\.(\d+)\.(\w+)\.(.+)")


def to_hf(name: str, config: SdarConfig) -> str:
    """Returns Hugging Face's name of one of our tensors."""
    if match := _LAYER.fullmatch(name):
        number, part, rest = match.groups()
        return f"model.layers.{number}.{_PARTS[part]}.{rest}"
    if name == "vocabulary.weight" and config.tie_word_embeddings:
        return _TOP["embedding.weight"]
    return _TOP[name]


def load(config: SdarConfig, files: dict[str, Path], device: torch.device, dtype: torch.dtype) -> Sdar:
    """Loads the model from a checkpoint's files.

    Args:
        files: of each tensor, by Hugging Face name.

    Raises:
        CheckpointError: missing, unknown, misshapen, truncated or non-finite weights.
    """
    with torch.device("meta"):
        model = Sdar(config)
    wanted = {to_hf(name, config): (name, tensor) for name, tensor in model.state_dict().items()}
    copies = {_TOP["vocabulary.weight"]} if config.tie_word_embeddings else set[str]()
    if unknown := sorted(files.keys() - wanted.keys() - copies):
        raise CheckpointError(f"unknown tensors: {', '.join(unknown[:4])}")
    if missing := sorted(wanted.keys() - files.keys()):
        raise CheckpointError(f"tensors missing: {', '.join(missing[:4])}")
    loaded: dict[str, Tensor] = {}
    for hf_name, (name, like) in wanted.items():
        with open_checked(hf_name, files[hf_name], like, packed=False, device=str(device)) as file:
            loaded[name] = cast_finite(hf_name, file.get_tensor(hf_name), dtype)
    model.load_state_dict(loaded, strict=True, assign=True)
    return model.eval().requires_grad_(False)


def defaults(config: SdarConfig) -> GenerationConfig:
    """Returns the settings of the published `generate.py`: a step for each position of a block, every token above 0.85
    at once, drawn at temperature 1."""
    return GenerationConfig(
        max_denoising_steps=config.block_size,
        sampler="low_confidence",
        sampler_options=LowConfidenceSampler(),
        stopping="last_step",
        stopping_options=LastStep(),
        t_min=1.0,
        t_max=1.0,
        pad_token_id=config.pad_token_id,
        eos_token_ids=(config.eos_token_id,),
    )


def facts(config: SdarConfig) -> dict[str, object]:
    """Returns what `gesso models show` says of the shape."""
    return {
        "layers": f"{config.num_hidden_layers} (full)",
        "hidden_size": config.hidden_size,
        "attention_heads": config.num_attention_heads,
        "experts": "none",
        "vocab_size": config.vocab_size,
        "context": config.max_position_embeddings,
        "canvas_length": config.block_size,
        "noise": f"masks (token {config.mask_token_id})",
    }
