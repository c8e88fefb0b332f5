"""Translates Hugging Face's names of the vision tower's tensors, both ways. They appear in this file and nowhere
else."""

import re

TOWER, PROJECTOR = "model.encoder.vision_tower.", "model.encoder.embed_vision."
VISION_PREFIXES = (TOWER, PROJECTOR)
"""Left unread in text-only use."""
DEAD = f"{PROJECTOR}embedding."
"""Some checkpoints carry a table here that nothing reads."""

_TOP = {
    "tower.input_proj.weight": f"{TOWER}patch_embedder.input_proj.weight",
    "tower.position_table": f"{TOWER}patch_embedder.position_embedding_table",
    "tower.std_bias": f"{TOWER}std_bias",
    "tower.std_scale": f"{TOWER}std_scale",
    "projector.projection.weight": f"{PROJECTOR}embedding_projection.weight",
}
_NORMS = {
    "input_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "pre_mlp_norm": "pre_feedforward_layernorm",
    "post_mlp_norm": "post_feedforward_layernorm",
}
_LAYER = re.compile(r"tower\.layers\.(\d+)\.(.+)")
_PROJECTION = re.compile(r"(attention|mlp)\.(\w+_proj)\.(\w+)")


def to_hf(name: str) -> str:
    """Returns Hugging Face's name of one of the tensors of a `VisionModel`."""
    if (match := _LAYER.fullmatch(name)) is None:
        return _TOP[name]
    layer, part = match.groups()
    return f"{TOWER}encoder.layers.{layer}.{_part(part)}"


def _part(part: str) -> str:
    if match := _PROJECTION.fullmatch(part):
        module, projection, kind = match.groups()
        own = "linear.weight" if kind == "weight" else kind  # a bound of a clipped projection stands beside it
        return f"{'self_attn' if module == 'attention' else 'mlp'}.{projection}.{own}"
    module, _, rest = part.partition(".")
    return f"self_attn.{rest}" if module == "attention" else f"{_NORMS[module]}.{rest}"
