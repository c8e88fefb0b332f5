"""The checkpoints that are measured, and the arithmetic of one denoising step on them."""

from dataclasses import dataclass
from pathlib import Path

PROMPT = 256
CANVAS = 256
WINDOW = 1024


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a random model. Layers are 5 sliding to 1 full, the last is full; the dense MLP is 2 * hidden."""

    dtype: str
    hidden: int
    layers: int
    experts: int
    expert_size: int
    top_k: int
    vocab: int
    heads: int = 8
    sliding_dim: int = 64
    sliding_kv: int = 4
    full_dim: int = 128
    full_kv: int = 2

    def is_full(self, layer: int) -> bool:
        return (layer + 1) % 6 == 0 or layer == self.layers - 1

    def weights(self) -> int:
        """Weights of the text model without the table: each is read once in a step, with 256 tokens to route."""
        total = 3 * self.hidden * 2 * self.hidden  # self-conditioning
        for layer in range(self.layers):
            total += self._attention(layer) + 3 * self.hidden * 2 * self.hidden + self.hidden * self.experts
            total += self.experts * 3 * self.hidden * self.expert_size
        return total

    def flops(self) -> float:
        """Multiplications and additions of one step: a canvas behind a prompt, logits and self-conditioning."""
        per_token = 3 * self.hidden * 2 * self.hidden + 2 * self.vocab * self.hidden  # logits, then the mixture
        for layer in range(self.layers):
            dim = self.full_dim if self.is_full(layer) else self.sliding_dim
            keys = CANVAS + (PROMPT if self.is_full(layer) else min(PROMPT, WINDOW - 1))
            per_token += self._attention(layer) + 2 * keys * self.heads * dim
            per_token += 3 * self.hidden * 2 * self.hidden + self.hidden * self.experts
            per_token += self.top_k * 3 * self.hidden * self.expert_size
        return 2.0 * CANVAS * per_token

    def bytes(self) -> float:
        """What one step must read: every weight once, the table for the logits and again for the mixture."""
        size = 4 if self.dtype == "float32" else 2
        return float(size * (self.weights() + 2 * self.vocab * self.hidden))

    def _attention(self, layer: int) -> int:
        full = self.is_full(layer)
        dim, kv = (self.full_dim, self.full_kv) if full else (self.sliding_dim, self.sliding_kv)
        return self.hidden * dim * (2 * self.heads + kv * (1 if full else 2))


SHAPES = {
    "small": Shape("float32", hidden=256, layers=6, experts=16, expert_size=128, top_k=4, vocab=32_768),
    "vocab": Shape("float32", hidden=256, layers=6, experts=16, expert_size=128, top_k=4, vocab=262_144),
    "wide": Shape("bfloat16", hidden=1024, layers=12, experts=32, expert_size=256, top_k=8, vocab=32_768),
}


def write_checkpoint(shape: Shape, folder: Path) -> None:
    """A random checkpoint (normal weights, deviation 0.02), saved by `transformers`.

    Routers alone are wider: their scores then spread as trained ones do. With the small weights nearly every choice
    of experts is a tie that rounding decides, and engines could not agree on tokens.
    """
    import torch
    from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion

    from gesso.train.recipes.common import VISION

    torch.manual_seed(0)
    config = DiffusionGemmaConfig(
        text_config={
            "vocab_size": shape.vocab,
            "hidden_size": shape.hidden,
            "intermediate_size": 2 * shape.hidden,
            "num_hidden_layers": shape.layers,
            "layer_types": ["full_attention" if shape.is_full(i) else "sliding_attention" for i in range(shape.layers)],
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.sliding_kv,
            "head_dim": shape.sliding_dim,
            "num_global_key_value_heads": shape.full_kv,
            "global_head_dim": shape.full_dim,
            "sliding_window": WINDOW,
            "num_experts": shape.experts,
            "top_k_experts": shape.top_k,
            "moe_intermediate_size": shape.expert_size,
            "initializer_range": 0.02,
        },
        vision_config=VISION,
        canvas_length=CANVAS,
        boi_token_id=shape.vocab - 3,
        image_token_id=shape.vocab - 2,
        eoi_token_id=shape.vocab - 1,
    )
    model = DiffusionGemmaForBlockDiffusion(config)
    routers = [weight for name, weight in model.named_parameters() if name.endswith("router.proj.weight")]
    assert len(routers) >= shape.layers
    with torch.no_grad():
        for weight in routers:
            weight.normal_()
    model.to(getattr(torch, shape.dtype)).save_pretrained(folder)
