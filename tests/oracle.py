"""The reference the model is tested against: small random checkpoints, built, run and saved by `transformers`.

Every weight is drawn far from its neutral value (norms, scales and layer scalars included), so that a part that is
left out, swapped or applied twice shows. `transformers` is imported on first use: tests that need a random model
only take `random_model`, which does without.
"""

import copy
import dataclasses
import inspect
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gesso.config import LayerConfig, ModelConfig, RopeConfig
from gesso.models.diffusion_gemma import DiffusionGemma

KINDS = {"s": "sliding_attention", "f": "full_attention"}
VISION = {
    "model_type": "gemma4_vision",
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "position_embedding_size": 16,
}


@dataclass(frozen=True)
class Shape:
    """Knobs of a small model; `layers` names the kinds, s(liding) and f(ull)."""

    layers: str = "sfsf"
    vocab: int = 131
    hidden: int = 32
    mlp: int = 40
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 8
    full_kv_heads: int = 1
    full_head_dim: int = 16
    window: int = 8
    experts: int = 4
    top_k: int = 2
    expert_size: int = 12
    canvas: int = 16
    softcap: float = 30.0
    bias: bool = False
    partial_rotary_factor: float = 0.25
    rope_factor: float = 1.0

    def config(self) -> ModelConfig:
        """The same shape in gesso's words, without a file in between."""
        sliding = LayerConfig("sliding_attention", self.head_dim, self.kv_heads)
        full = LayerConfig("full_attention", self.full_head_dim, self.full_kv_heads)
        return ModelConfig(
            vocab_size=self.vocab,
            hidden_size=self.hidden,
            intermediate_size=self.mlp,
            num_attention_heads=self.heads,
            layers=tuple(sliding if kind == "s" else full for kind in self.layers),
            num_experts=self.experts,
            top_k_experts=self.top_k,
            moe_intermediate_size=self.expert_size,
            sliding_window=self.window,
            sliding_rope=RopeConfig("default", 10_000.0),
            full_rope=RopeConfig("proportional", 1_000_000.0, self.partial_rotary_factor, self.rope_factor),
            canvas_length=self.canvas,
            final_logit_softcapping=self.softcap,
            attention_bias=self.bias,
            image_token_ids=(self.vocab - 3, self.vocab - 2, self.vocab - 1),
            vision_config=VISION,
        )


SHAPES = {
    "plain": Shape(),
    "two_full_kv_heads": Shape(layers="ssf", full_kv_heads=2, experts=7, top_k=3, canvas=8, window=4),
    "three_heads_one_kv": Shape(layers="sf", heads=3, kv_heads=1, head_dim=6, window=4, experts=7, top_k=1),
    "five_heads_five_kv": Shape(heads=5, kv_heads=5, full_kv_heads=5, layers="sff", experts=16, top_k=4, canvas=8),
    "six_heads_three_kv": Shape(heads=6, kv_heads=3, full_kv_heads=2, layers="sf", softcap=3.0, vocab=64),
    "window_1": Shape(layers="sfsf", window=1, canvas=8),
    "window_2": Shape(layers="sfsf", window=2, canvas=8, experts=16, top_k=1),
    "all_full": Shape(layers="ff", full_kv_heads=2, full_head_dim=8, vocab=257),
    "biased": Shape(layers="ssfssf", bias=True, softcap=5.0),
    "twelve_layers": Shape(layers="sssssfsssssf", hidden=16, mlp=16, canvas=8),  # layer numbers of two digits
    "wide_canvas": Shape(layers="sf", canvas=64, window=16, top_k=4),
    "same_head_dim": Shape(layers="sf", full_head_dim=8, full_kv_heads=2, partial_rotary_factor=0.5, rope_factor=4.0),
}
"""Shapes with one oddity or several each; together they cover what a config may say."""


def randomise(module: nn.Module, seed: int) -> None:
    """Draw every weight, norm, bias and layer scalar far from its neutral value."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
            if parameter.dim() == 1 and not name.endswith("bias"):
                parameter.add_(1.0)
            if name.endswith("q_norm.weight"):
                # Heads are not divided by sqrt(d): sharp random attention would only amplify rounding.
                parameter.mul_(0.3)
        for name, buffer in module.named_buffers():
            if name.endswith("_scalar"):
                buffer.copy_(0.6 + 0.5 * torch.rand(buffer.shape, generator=generator))


def _share_biases(model: Any) -> None:
    """The reference ties the weights of encoder and decoder, and forgets the biases."""
    decoder = dict(model.model.decoder.named_parameters())
    with torch.no_grad():
        for name, parameter in model.model.encoder.language_model.named_parameters():
            if name.endswith("bias"):
                parameter.copy_(decoder[name])


def random_model(shape: Shape, seed: int = 0) -> DiffusionGemma:
    """gesso's model with random weights; nothing is read and `transformers` is not imported."""
    model = DiffusionGemma(shape.config())
    randomise(model, seed)
    return model.eval().requires_grad_(False)


def reference_class() -> Any:
    """`DiffusionGemmaForBlockDiffusion`, imported quietly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers.models.diffusion_gemma.modeling_diffusion_gemma import DiffusionGemmaForBlockDiffusion
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
    return DiffusionGemmaForBlockDiffusion


def make_oracle(
    folder: Path,
    shape: Shape = SHAPES["plain"],
    *,
    seed: int = 0,
    max_shard_size: str = "1GB",
    old_dialect: bool = False,
) -> Any:
    """Build, randomise and save a reference checkpoint; returns the reference model, fp32, in eval mode.

    Args:
        max_shard_size: small values give several files and an index.
        old_dialect: write the full layers' shape as `global_head_dim` and `num_global_key_value_heads`.
    """
    model_class = reference_class()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import DiffusionGemmaConfig, DiffusionGemmaTextConfig, Gemma4VisionConfig

        full_rope: dict[str, Any] = {
            "rope_type": "proportional",
            "partial_rotary_factor": shape.partial_rotary_factor,
            "rope_theta": 1e6,
        }
        if shape.rope_factor != 1.0:
            full_rope["factor"] = shape.rope_factor
        text = DiffusionGemmaTextConfig(
            vocab_size=shape.vocab,
            hidden_size=shape.hidden,
            intermediate_size=shape.mlp,
            num_hidden_layers=len(shape.layers),
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            global_head_dim=shape.full_head_dim,
            num_global_key_value_heads=shape.full_kv_heads,
            sliding_window=shape.window,
            num_experts=shape.experts,
            top_k_experts=shape.top_k,
            moe_intermediate_size=shape.expert_size,
            layer_types=[KINDS[kind] for kind in shape.layers],
            attention_bias=shape.bias,
            final_logit_softcapping=shape.softcap,
            rope_parameters={
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                "full_attention": full_rope,
            },
            use_bidirectional_attention="vision",
        )
        vision = Gemma4VisionConfig(**{key: value for key, value in VISION.items() if key != "model_type"})
        config = DiffusionGemmaConfig(
            text_config=text,
            vision_config=vision,
            canvas_length=shape.canvas,
            boi_token_id=shape.vocab - 3,
            image_token_id=shape.vocab - 2,
            eoi_token_id=shape.vocab - 1,
        )
        config._attn_implementation = "eager"
        config._experts_implementation = "eager"
        model = model_class(config).eval()
        randomise(model, seed)
        _share_biases(model)
        model.save_pretrained(folder, max_shard_size=max_shard_size)
    if old_dialect:
        path = folder / "config.json"
        raw = json.loads(path.read_text("utf-8"))
        del raw["text_config"]["per_layer_config"]
        raw["text_config"] |= {
            "global_head_dim": shape.full_head_dim,
            "num_global_key_value_heads": shape.full_kv_heads,
            "attention_k_eq_v": True,
        }
        path.write_text(json.dumps(raw), "utf-8")
    return _without_images(model)


def load_reference(folder: Path, dtype: torch.dtype = torch.float32) -> tuple[Any, dict[str, Any]]:
    """What `transformers` makes of a folder, and its loading report (missing, unexpected, mismatched keys)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, report = reference_class().from_pretrained(
            folder,
            dtype=dtype,
            attn_implementation="eager",
            experts_implementation="eager",
            output_loading_info=True,
        )
    return _without_images(model.eval()), report


def _without_images(model: Any) -> Any:
    """Some versions read the token of an image as a pad where there is no image, others as any token. So do we."""
    for module in model.modules():
        if hasattr(module, "get_placeholder_mask"):
            module.config = copy.copy(module.config)
            module.config.image_token_id = -1
    return model


class Pair(NamedTuple):
    """One checkpoint, read by the reference and by gesso."""

    shape: Shape
    folder: Path
    reference: Any
    model: DiffusionGemma


class ReferenceRun:
    """A reference model and its cache, driven the way gesso's model is."""

    def __init__(self, model: Any) -> None:
        from transformers import DynamicCache

        self.model = model
        self.cache = DynamicCache(config=model.config.get_text_config(decoder=True))
        # transformers 5.24 calls it `cache`, and warns of the name that came before.
        named_cache = "cache" in inspect.signature(model.model.encoder.forward).parameters
        self.cached = {"cache" if named_cache else "past_key_values": self.cache}
        """The cache as a keyword of the reference's passes and of its `generate`."""

    @torch.no_grad()
    def encode(self, tokens_BT: Tensor) -> Tensor:
        """Normed hidden states [B, T, D]."""
        out = self.model.model.encoder(input_ids=tokens_BT, **self.cached)
        for layer in self.cache.layers:
            # A window of 1 keeps nothing; the reference's slice [-0:] keeps everything.
            if getattr(layer, "sliding_window", None) == 1:
                layer.keys, layer.values = layer.keys[:, :, :0], layer.values[:, :, :0]
        hidden: Tensor = out.last_hidden_state
        return hidden

    @torch.no_grad()
    def denoise(self, canvas_BC: Tensor, logits_BCV: Tensor | None = None) -> Tensor:
        """Logits [B, C, V]; `logits_BCV` are the step before's."""
        out = self.model(**self.cached, decoder_input_ids=canvas_BC, self_conditioning_logits=logits_BCV)
        logits: Tensor = out.logits
        return logits


def tokens(shape: Shape, *size: int, seed: int = 0) -> Tensor:
    """Random token ids of a shape's vocabulary."""
    return torch.randint(shape.vocab, size, generator=torch.Generator().manual_seed(seed))


def variant(shape: Shape, **changes: Any) -> Shape:
    return dataclasses.replace(shape, **changes)
