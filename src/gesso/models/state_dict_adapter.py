"""Translates Hugging Face's tensor names, both ways. They appear in this file and nowhere else."""

import re

_TOP = {
    "vocabulary.weight": "model.decoder.embed_tokens.weight",
    "norm.weight": "model.decoder.norm.weight",
    "self_conditioning.pre_norm.weight": "model.decoder.self_conditioning.pre_norm.weight",
    **{
        f"self_conditioning.mlp.{part}.weight": f"model.decoder.self_conditioning.{part}.weight"
        for part in ("gate_proj", "up_proj", "down_proj")
    },
}
_LAYER = {
    **{
        f"attention.{part}_proj.{kind}": f"self_attn.{part}_proj.{kind}"
        for part in ("q", "k", "v", "o")
        for kind in ("weight", "bias")
    },
    "attention.q_norm.weight": "self_attn.q_norm.weight",
    "attention.k_norm.weight": "self_attn.k_norm.weight",
    **{f"mlp.{part}_proj.weight": f"mlp.{part}_proj.weight" for part in ("gate", "up", "down")},
    "router.proj.weight": "router.proj.weight",
    "router.scale": "router.scale",
    "router.per_expert_scale": "router.per_expert_scale",
    "experts.gate_up_proj": "experts.gate_up_proj",
    "experts.down_proj": "experts.down_proj",
    "input_norm.weight": "input_layernorm.weight",
    "post_attention_norm.weight": "post_attention_layernorm.weight",
    "pre_mlp_norm.weight": "pre_feedforward_layernorm.weight",
    "post_mlp_norm.weight": "post_feedforward_layernorm_1.weight",
    "pre_experts_norm.weight": "pre_feedforward_layernorm_2.weight",
    "post_experts_norm.weight": "post_feedforward_layernorm_2.weight",
    "post_norm.weight": "post_feedforward_layernorm.weight",
    "decoder_scalar": "layer_scalar",
}
HEAD = "lm_head.weight"
"""The vocabulary once more, where a writer stored it as the head."""
ENCODER_STACK = "model.encoder.language_model."
_ENCODER_SCALAR = ENCODER_STACK + "layers.{}.layer_scalar"
_OWN_LAYER = re.compile(r"layers\.(\d+)\.(.+)")
_PACKED = re.compile(r"(?:(.+\.experts\.(?:gate_up|down))_|(.+)\.)(codes|scales|offsets)")
"""Parts of a quantized weight. These names are gesso's own: Hugging Face has none for them."""
_ENCODER_COPY = re.compile(r"model\.encoder\.language_model\.(.+)")


def to_hf(name: str) -> str:
    """Returns Hugging Face's name of one of our tensors; a part of a quantized weight stands beside the weight's
    name."""
    if match := _PACKED.fullmatch(name):
        experts, linear, part = match.groups()
        return f"{to_hf(f'{experts}_proj') if experts else to_hf_module(linear)}.{part}"
    if match := _OWN_LAYER.fullmatch(name):
        layer, part = match.groups()
        if part == "encoder_scalar":
            return _ENCODER_SCALAR.format(layer)
        return f"model.decoder.layers.{layer}.{_LAYER[part]}"
    return _TOP[name]


def to_hf_module(name: str) -> str:
    """Returns Hugging Face's name of one of our linear layers, or of a layer's experts."""
    if name.endswith(".experts"):
        return to_hf(f"{name}.down_proj").removesuffix(".down_proj")
    return to_hf(f"{name}.weight").removesuffix(".weight")


def encoder_copy(name: str) -> str | None:
    """Returns Hugging Face's second name of one of our tensors: the reference ties all but the attention's biases."""
    return to_hf(name).replace("decoder", "encoder.language_model") if name.endswith(".bias") else None


def tied_to(hf_name: str) -> str | None:
    """Returns the name that a tied copy must equal, or None where `hf_name` is no copy.

    Some writers store the head and the encoder's shared weights once more; they are one tensor to us.
    """
    if hf_name == HEAD:
        return _TOP["vocabulary.weight"]
    if (match := _ENCODER_COPY.fullmatch(hf_name)) and not hf_name.endswith(".layer_scalar"):
        return f"model.decoder.{match[1]}"
    return None
