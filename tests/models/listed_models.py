"""Models whose layers kernels compute, packed or whole."""

from tests.oracle import Shape, random_model

from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.quantization.plan import Quantization, replace_layers
from gesso.nn.quant.base import Format
from gesso.nn.quant.fp8 import FP8
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.layers import quantized_tensors
from gesso.nn.quant.nf4 import NF4
from gesso.nn.quant.nvfp4 import NVFP4

SHAPE = Shape(
    layers="ssf", hidden=128, mlp=192, heads=4, kv_heads=2, head_dim=32, full_head_dim=64, full_kv_heads=1,
    experts=16, top_k=3, expert_size=64, window=6, canvas=8, partial_rotary_factor=0.25,
)  # fmt: skip
FORMS: list[tuple[Format | None, Format | None]] = [
    (Int4(), Int4()), (Int8(), Int4(32)), (NF4(), Int8()), (FP8(), NVFP4()), (Int4(), FP8()), (None, None),
    (None, Int4()), (Int8(), None),
]  # fmt: skip
"""Of linear layers and of experts; None leaves them as they are."""


def named(form: Format | None) -> str | None:
    """Names a format in a test's name."""
    return form and f"{form.kernel}{getattr(form, 'group_size', '')}"


def packed(dense: Format | None, experts: Format | None, shape: Shape = SHAPE, seed: int = 0) -> DiffusionGemma:
    """A random model in these formats."""
    whole, model = random_model(shape, seed), random_model(shape, seed)
    if dense is experts is None:
        return model.requires_grad_(False)
    replaced = replace_layers(model, Quantization(dense, experts))
    tensors = {
        name: part
        for layer, form in replaced.items()
        for weight, tensor in whole.state_dict().items()
        if weight.rpartition(".")[0] == layer
        for name, part in quantized_tensors(weight, tensor, form).items()
    }
    model.load_state_dict({**model.state_dict(), **tensors}, assign=True)
    return model.eval().requires_grad_(False)
