"""Translates the names that tensors have in GGUF files of DiffusionGemma. They appear in this file and nowhere else.

They are Gemma 4's of the `gguf` package, and of those that it does not know what the published files hold
(`unsloth/diffusiongemma-26B-A4B-it-GGUF`).
"""

import re
from pathlib import Path

from gesso.models.state_dict_adapter import HEAD, to_hf

ROPE_FACTORS = "rope_freqs.weight"
"""Divides the angles of full layers; huge where nothing turns. It says what the config does, and is no weight."""
_TOP = {
    "token_embd.weight": "vocabulary.weight",
    "output_norm.weight": "norm.weight",
    "self_cond_pre_norm.weight": "self_conditioning.pre_norm.weight",
    **{f"self_cond_{part}.weight": f"self_conditioning.mlp.{part}_proj.weight" for part in ("gate", "up", "down")},
}
_LAYER = {
    "attn_norm.weight": "input_norm.weight",
    **{f"attn_{part}.weight": f"attention.{part}_proj.weight" for part in ("q", "k", "v")},
    "attn_output.weight": "attention.o_proj.weight",
    **{f"attn_{part}_norm.weight": f"attention.{part}_norm.weight" for part in ("q", "k")},
    "post_attention_norm.weight": "post_attention_norm.weight",
    "ffn_norm.weight": "pre_mlp_norm.weight",
    **{f"ffn_{part}.weight": f"mlp.{part}_proj.weight" for part in ("gate", "up", "down")},
    "post_ffw_norm_1.weight": "post_mlp_norm.weight",
    "pre_ffw_norm_2.weight": "pre_experts_norm.weight",
    "ffn_gate_inp.weight": "router.proj.weight",
    "ffn_gate_inp.scale": "router.scale",
    "ffn_gate_up_exps.weight": "experts.gate_up_proj",
    "ffn_down_exps.weight": "experts.down_proj",
    "ffn_down_exps.scale": "router.per_expert_scale",
    "post_ffw_norm_2.weight": "post_experts_norm.weight",
    "post_ffw_norm.weight": "post_norm.weight",
    "layer_output_scale.weight": "decoder_scalar",
    "enc_layer_output_scale.weight": "encoder_scalar",
}
_BLOCK = re.compile(r"blk\.(0|[1-9]\d*)\.(.+)", re.ASCII)


def hf_name(name: str) -> str:
    """Returns Hugging Face's name of a tensor in a GGUF file; one that is not known keeps its own."""
    if name == "output.weight":  # the head, where a writer stored the tied table once more
        return HEAD
    match = _BLOCK.fullmatch(name)
    if match and match[2] in _LAYER:
        return to_hf(f"layers.{int(match[1])}.{_LAYER[match[2]]}")
    return to_hf(_TOP[name]) if name in _TOP else name


def is_gguf(path: Path) -> bool:
    """Says whether a path names a GGUF file, whatever it holds."""
    return path.suffix.lower() == ".gguf"
