"""Writes GGUF files as DiffusionGemma is published in them, by the `gguf` package and its own names of Gemma 4."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import tokenizers
import torch
from gguf import GGMLQuantizationType as Kind
from oracle import Shape, make_oracle
from safetensors.torch import load_file
from tokenizers import models, normalizers, pre_tokenizers, trainers

ARCHITECTURE = "diffusion-gemma"
CONTROL = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|turn>", "<turn|>", "<|image>", "<|image|>", "<image|>"]
VISIBLE = ["<|channel>", "<channel|>", "<|tool_response>", "<table>"]
TEXT = "the kettle is blue and the lamp is not; a pear and 481 pears were in the bag.\n\n  def add(a): return a + 7\n"
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|turn>{{ m['role'] }}\n{{ m['content'] }}<turn|>\n{% endfor %}"
    "<|turn>model\n"
)
SELF_CONDITIONING = {"pre_norm": "pre_norm", "gate_proj": "gate", "up_proj": "up", "down_proj": "down"}
BESIDE = {
    "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_down_exps.scale",
}
"""Names of which the package's table has none, as the published files have them."""


def vocabulary() -> tuple[list[str], list[str]]:
    """Returns tokens and merges of a small tokenizer of Gemma's kind."""
    trained = tokenizers.Tokenizer(models.BPE(byte_fallback=True))
    trained.normalizer = normalizers.Replace(" ", "\u2581")
    trained.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    first = [*CONTROL, *VISIBLE, *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=first, show_progress=False, min_frequency=1)
    trained.train_from_iterator([TEXT] * 4, trainer)
    made = json.loads(trained.to_str())["model"]
    tokens = [token for token, _ in sorted(made["vocab"].items(), key=lambda item: item[1])]
    return tokens, [merge if isinstance(merge, str) else " ".join(merge) for merge in made["merges"]]


TOKENS, MERGES = vocabulary()
SHAPE = Shape(
    layers="ssf", vocab=len(TOKENS), hidden=64, mlp=64, head_dim=16, full_head_dim=32, expert_size=32, window=8
)


def gguf_name(name: str, layers: int) -> str:
    """Returns the name that the `gguf` package, or the published files, give one of the released tensors."""
    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GEMMA4, layers)
    name = name.removeprefix("model.")
    if name.startswith("decoder.self_conditioning."):
        part = name.split(".")[2]
        return f"self_cond_{SELF_CONDITIONING[part]}.weight"
    if name.startswith("encoder."):
        return f"blk.{name.split('.')[3]}.enc_layer_output_scale.weight"
    name = name.replace("decoder.", "model.")
    block, _, part = name.removeprefix("model.layers.").partition(".")
    if part in BESIDE:
        return f"blk.{block}.{BESIDE[part]}"
    found = table.get_name(name.removesuffix(".weight"))
    assert found is not None, name
    return f"{found}.weight"


def write_published(
    path: Path, folder: Path, shape: Shape = SHAPE, kind: Kind = Kind.F32, changes: dict[str, Any] | None = None
) -> Path:
    """Writes the checkpoint in `folder` as a GGUF file; its matrices as `kind`.

    Args:
        changes: other values of metadata, by key; None leaves a key out. `tensors` are more of them, by name, or None.
    """
    own, changes = f"{ARCHITECTURE}.", dict(changes or {})
    tensors = {gguf_name(name, len(shape.layers)): tensor for name, tensor in _released(folder).items()}
    pairs = shape.full_head_dim // 2
    turning = int(pairs * shape.partial_rotary_factor)
    tensors["rope_freqs.weight"] = torch.tensor([1.0] * turning + [1e30] * (pairs - turning))
    tensors = {k: v for k, v in (tensors | changes.pop("tensors", {})).items() if v is not None}
    slides = [letter == "s" for letter in shape.layers]
    values: dict[str, Any] = {
        own + "block_count": len(slides),
        own + "context_length": 4096,
        own + "embedding_length": shape.hidden,
        own + "feed_forward_length": shape.mlp,
        own + "attention.head_count": shape.heads,
        own + "attention.head_count_kv": [shape.kv_heads if slide else shape.full_kv_heads for slide in slides],
        own + "rope.freq_base": 1e6,
        own + "rope.freq_base_swa": 1e4,
        own + "attention.layer_norm_rms_epsilon": 1e-6,
        own + "expert_count": shape.experts,
        own + "expert_used_count": shape.top_k,
        own + "attention.key_length": shape.full_head_dim,
        own + "attention.value_length": shape.full_head_dim,
        own + "final_logit_softcapping": shape.softcap,
        own + "attention.sliding_window": shape.window,
        own + "attention.shared_kv_layers": 0,
        own + "embedding_length_per_layer_input": 0,
        own + "attention.sliding_window_pattern": slides,
        own + "attention.key_length_swa": shape.head_dim,
        own + "attention.value_length_swa": shape.head_dim,
        own + "expert_feed_forward_length": shape.expert_size,
        own + "rope.dimension_count": shape.full_head_dim,
        own + "rope.dimension_count_swa": shape.head_dim,
        own + "attention.causal": False,
        "diffusion.canvas_length": shape.canvas,
        "tokenizer.ggml.model": "gemma4",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.scores": [-1000.0] * len(TOKENS),
        "tokenizer.ggml.token_type": [3 if t in CONTROL else 4 if t in VISIBLE else 1 for t in TOKENS],
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 3,
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.ggml.mask_token_id": 4,
        "tokenizer.chat_template": TEMPLATE,
        "tokenizer.ggml.add_space_prefix": False,
    }
    writer = gguf.GGUFWriter(path, changes.pop("general.architecture", ARCHITECTURE))
    for key, value in (values | changes).items():
        _add(writer, key, value)
    for name, tensor in tensors.items():
        numbers = tensor.float().numpy()
        if numbers.ndim < 2 or kind == Kind.F32:
            writer.add_tensor(name, numbers)
        else:
            writer.add_tensor(name, gguf.quants.quantize(numbers, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def _released(folder: Path) -> dict[str, torch.Tensor]:
    """Returns the tensors of a text checkpoint, as `transformers` wrote them, without second copies and tower."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= load_file(path)
    return {name: tensor for name, tensor in found.items() if "decoder" in name or name.endswith("layer_scalar")}


def make_folder(folder: Path) -> Path:
    """Makes a random checkpoint of `SHAPE`, by `transformers`."""
    make_oracle(folder, SHAPE)
    return folder


def as_turned_back(tensor: torch.Tensor, kind: Kind) -> torch.Tensor:
    """Returns what a matrix is once it has been packed as `kind`, in bfloat16."""
    packed = gguf.quants.quantize(np.ascontiguousarray(tensor.float().numpy()), kind)
    return torch.from_numpy(gguf.quants.dequantize(packed, kind)).bfloat16()
