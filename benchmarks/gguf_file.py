"""Takes a GGUF file of the published sizes into four bits, as somebody does who has one on the disk.

    python benchmarks/gguf_file.py [--layers 30] [--folder DIR]

Writes a file of random weights in types of the published Q4_K_M (`unsloth/diffusiongemma-26B-A4B-it-GGUF`: Q4_K, and
Q8_0 what 256 does not divide, the table in Q6_K) with a vocabulary of 262,144 tokens and half a million merges; disk
is asked first. Then it is opened, shown and quantized by `gesso quantize --to int4 --embedding int8`, in processes of
their own: seconds, processor seconds, largest resident memory. The floor is what the `gguf` package takes to turn as
many numbers of each type back on one core, and reading and writing the bytes. The last line is JSON.
"""

import argparse
import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGUFWriter
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize
from rich.console import Console

from _fullsize import VOCABULARY, published_config
from fullsize import run
from gesso.config import ModelConfig
from gesso.models.gguf.config import ARCHITECTURE
from gesso.models.hf_config import read_config

ROWS = 1408
"""Rows of 2,816 numbers with which the package's rate is measured."""
BLOCK = 256
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
Shape = tuple[int, ...]


def tensors(config: ModelConfig) -> dict[str, tuple[Shape, Kind]]:
    """Returns shape and type of every tensor, by the file's names; dimensions in NumPy's order."""
    hidden, heads, found = config.hidden_size, config.num_attention_heads, dict[str, tuple[Shape, Kind]]()

    def matrix(name: str, *shape: int) -> None:
        found[f"{name}.weight"] = shape, Kind.Q8_0 if shape[-1] % BLOCK else Kind.Q4_K

    def vector(name: str, size: int) -> None:
        found[name] = (size,), Kind.F32

    found["token_embd.weight"] = (config.vocab_size, hidden), Kind.Q6_K
    vector("output_norm.weight", hidden)
    vector("rope_freqs.weight", next(layer.head_dim for layer in config.layers if not layer.is_sliding) // 2)
    vector("self_cond_pre_norm.weight", hidden)
    for part in ("gate", "up"):
        matrix(f"self_cond_{part}", config.intermediate_size, hidden)
        for number in range(len(config.layers)):
            matrix(f"blk.{number}.ffn_{part}", config.intermediate_size, hidden)
    matrix("self_cond_down", hidden, config.intermediate_size)
    for number, layer in enumerate(config.layers):
        block = f"blk.{number}."
        matrix(block + "attn_q", heads * layer.head_dim, hidden)
        matrix(block + "attn_k", layer.num_key_value_heads * layer.head_dim, hidden)
        if layer.is_sliding:
            matrix(block + "attn_v", layer.num_key_value_heads * layer.head_dim, hidden)
        matrix(block + "attn_output", hidden, heads * layer.head_dim)
        matrix(block + "ffn_down", hidden, config.intermediate_size)
        matrix(block + "ffn_gate_up_exps", config.num_experts, 2 * config.moe_intermediate_size, hidden)
        matrix(block + "ffn_down_exps", config.num_experts, hidden, config.moe_intermediate_size)
        found[block + "ffn_gate_inp.weight"] = (config.num_experts, hidden), Kind.F32
        vector(block + "ffn_gate_inp.scale", hidden)
        vector(block + "ffn_down_exps.scale", config.num_experts)
        for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            vector(f"{block}{name}.weight", hidden)
        for name in ("post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2"):
            vector(f"{block}{name}.weight", hidden)
        for name in ("attn_q_norm", "attn_k_norm"):
            vector(f"{block}{name}.weight", layer.head_dim)
        for name in ("layer_output_scale", "enc_layer_output_scale"):
            vector(f"{block}{name}.weight", 1)
    return found


def packed_shape(shape: Shape, kind: Kind) -> Shape:
    """Returns the shape in which a tensor lies in the file: of bytes, but for fp32."""
    if kind == Kind.F32:
        return shape
    block, size = GGML_QUANT_SIZES[kind]
    return *shape[:-1], shape[-1] // block * size


class Noise:
    """Makes bytes of packed weights that stand for small numbers: a thousand blocks of each type, over and over."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        self._blocks = {}
        for kind in (Kind.Q4_K, Kind.Q6_K, Kind.Q8_0):
            blocks = generator.integers(0, 256, (1000, GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
            scale = np.array([3e-4], np.float16).view(np.uint8)
            where = slice(-2, None) if kind == Kind.Q6_K else slice(0, 2)
            blocks[:, where] = scale
            if kind == Kind.Q4_K:
                blocks[:, 2:4] = scale
            self._blocks[kind] = blocks.reshape(-1)

    def __call__(self, shape: Shape, kind: Kind) -> np.ndarray[Any, Any]:
        if kind == Kind.F32:
            return np.ones(shape, np.float32)
        return np.resize(self._blocks[kind], packed_shape(shape, kind))


def write(path: Path, layers: int) -> dict[str, int]:
    """Writes the file, tensor by tensor; returns how many numbers it has of each type.

    Raises:
        SystemExit: the disk has no room.
    """
    config, noise = read_config(published_config(layers)), Noise()
    found = tensors(config)
    needed = sum(
        math.prod(packed_shape(shape, kind)) * (4 if kind == Kind.F32 else 1) for shape, kind in found.values()
    )
    free = shutil.disk_usage(path.parent).free
    if 2 * needed + 10**9 > free:
        sys.exit(f"{layers} layers take {2 * needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free: fewer --layers")
    writer = GGUFWriter(path, ARCHITECTURE)
    _write_metadata(writer, config)
    for name, (shape, kind) in found.items():
        like = np.empty(0, np.float32 if kind == Kind.F32 else np.uint8)
        size = math.prod(packed_shape(shape, kind)) * like.itemsize
        writer.add_tensor_info(name, packed_shape(shape, kind), like.dtype, size, None if kind == Kind.F32 else kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for name, (shape, kind) in found.items():
        made = noise(shape, kind)
        if name == "rope_freqs.weight":
            made[len(made) // 4 :] = 1e30
        writer.write_tensor_data(made)
    writer.close()
    counts: Counter[str] = Counter()
    for shape, kind in found.values():
        counts[kind.name] += math.prod(shape)
    return dict(counts)


def _write_metadata(writer: GGUFWriter, config: ModelConfig) -> None:
    own = f"{ARCHITECTURE}."
    slides = [layer.is_sliding for layer in config.layers]
    dims = {layer.kind: layer.head_dim for layer in config.layers}
    numbers = {
        own + "block_count": len(slides),
        own + "context_length": config.max_position_embeddings,
        own + "embedding_length": config.hidden_size,
        own + "feed_forward_length": config.intermediate_size,
        own + "attention.head_count": config.num_attention_heads,
        own + "expert_count": config.num_experts,
        own + "expert_used_count": config.top_k_experts,
        own + "expert_feed_forward_length": config.moe_intermediate_size,
        own + "attention.key_length": dims["full_attention"],
        own + "attention.key_length_swa": dims["sliding_attention"],
        own + "attention.sliding_window": config.sliding_window,
        "diffusion.canvas_length": config.canvas_length,
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 3,
        "tokenizer.ggml.padding_token_id": 0,
    }
    for key, value in numbers.items():
        writer.add_uint32(key, value)
    for key, real in (("rope.freq_base", 1e6), ("rope.freq_base_swa", 1e4), ("final_logit_softcapping", 30.0)):
        writer.add_float32(own + key, real)
    writer.add_float32(own + "attention.layer_norm_rms_epsilon", config.rms_norm_eps)
    writer.add_array(own + "attention.head_count_kv", [layer.num_key_value_heads for layer in config.layers])
    writer.add_array(own + "attention.sliding_window_pattern", slides)
    letters = [chr(code) for code in range(0x21, 0x21 + 94)]
    pieces = [*letters, *(a + b for a in letters for b in letters)]
    merged = [pair + letter for pair in pieces[len(letters) :] for letter in letters]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = list(dict.fromkeys([*SPECIAL, *bytes_, *pieces, *merged]))[:VOCABULARY]
    longer = tokens[len(SPECIAL) + len(bytes_) + len(letters) :]
    merges = [f"{token[:-1]} {token[-1]}" for token in longer] + [f"{t[0]} {t[1:]}" for t in longer if len(t) == 3]
    writer.add_string("tokenizer.ggml.model", "gemma4")
    writer.add_array("tokenizer.ggml.tokens", tokens)
    writer.add_array("tokenizer.ggml.scores", [-1000.0] * len(tokens))
    writer.add_array("tokenizer.ggml.token_type", [3 if token in SPECIAL else 1 for token in tokens])
    writer.add_array("tokenizer.ggml.merges", merges)


def floor(counts: dict[str, int], read: int, written: int, folder: Path) -> dict[str, float]:
    """Returns the seconds that the package takes for the numbers on one core, and the disk for the bytes."""
    turned, noise = 0.0, Noise()
    for name, count in counts.items():
        if name != "F32":
            raw = noise((ROWS, 2816), Kind[name])
            begin = time.perf_counter()
            with np.errstate(all="ignore"):
                dequantize(raw, Kind[name])
            turned += (time.perf_counter() - begin) / (ROWS * 2816) * count
    piece = np.zeros(1 << 29, np.uint8)
    begin = time.perf_counter()
    with (folder / "rate").open("wb") as file:
        file.write(piece.data)
        os.fsync(file.fileno())
    rate = len(piece) / (time.perf_counter() - begin)
    (folder / "rate").unlink()
    return {"turning_back_s": round(turned, 1), "disk_s": round((read + written) / rate, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--folder", type=Path, help="where the file, and what is made of it, lie for a while")
    options = parser.parse_args()
    console, found = Console(stderr=True), dict[str, Any]()
    with tempfile.TemporaryDirectory(dir=options.folder) as work:
        folder, path = Path(work), Path(work) / "published.gguf"
        os.environ["HF_ASSETS_CACHE"] = str(folder / "assets")
        begin = time.perf_counter()
        counts = write(path, options.layers)
        size = path.stat().st_size
        found["write"] = {"seconds": round(time.perf_counter() - begin, 1), "gb": round(size / 1e9, 2)}
        gesso = [sys.executable, "-m", "gesso"]
        found["show, the first time"] = run([*gesso, "models", "show", str(path)])[0]
        found["show"] = run([*gesso, "models", "show", str(path)])[0]
        out = folder / "int4"
        to = ["--to", "int4", "--embedding", "int8", "--out", str(out)]
        found["quantize"] = run([*gesso, "quantize", str(path), *to])[0]
        written = sum(file.stat().st_size for file in out.glob("*.safetensors"))
        found["quantize"] |= {"gb": round(written / 1e9, 2)} | floor(counts, size, written, folder)
        for name, figures in found.items():
            console.print(name, figures)
    print(json.dumps({"benchmark": "gguf", "layers": options.layers, "numbers": counts, "steps": found}))


if __name__ == "__main__":
    main()
