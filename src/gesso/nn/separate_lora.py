"""Adds one low-rank delta in the encoder's passes and another in the denoiser's, to weights that both share.

PEFT writes such adapters for the reference, which holds encoder and decoder as two modules on the same weights (TRL
trains them so). Since the weights are one, such an adapter cannot be merged into them.

    R rank   E experts
"""

from torch import nn

from gesso.nn.experts import Experts
from gesso.nn.linear import Linear
from gesso.nn.lora import LoraExperts, LoraLinear, device_of, drawn, zeros
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear


class PassSide:
    """Tells the layers of a block whose pass is under way; the block's caller sets it before every call."""

    causal = False


class SeparateLoraLinear(LoraLinear):
    """Adds `lora_A` and `lora_B` in the denoiser's passes, `encoder_lora_A` and `encoder_lora_B` in the encoder's."""

    def __init__(self, base: Linear | QuantizedLinear, rank: int, scale: float, dropout: float, side: PassSide) -> None:
        super().__init__(base, rank, scale, dropout)
        self.side = side
        self.encoder_lora_A = drawn(rank, base.in_features, device=device_of(base))
        self.encoder_lora_B = zeros(base.out_features, rank, device=device_of(base))

    @property
    def causal(self) -> bool:
        return self.side.causal

    def matrices(self, causal: bool) -> tuple[nn.Parameter, nn.Parameter]:
        return (self.encoder_lora_A, self.encoder_lora_B) if causal else super().matrices(causal)


class SeparateLoraExperts(LoraExperts):
    """Does the same for every matrix of every fused expert."""

    def __init__(
        self, base: Experts | QuantizedExperts, rank: int, scale: float, dropout: float, side: PassSide
    ) -> None:
        super().__init__(base, rank, scale, dropout)
        self.side = side
        shapes = {name: parameter.shape for name, parameter in self.named_parameters(recurse=False)}
        for name, shape in shapes.items():
            make = drawn if name.endswith("A") else zeros
            self.register_parameter(f"encoder_{name}", make(*shape, device=device_of(base)))

    @property
    def causal(self) -> bool:
        return self.side.causal

    def matrices(self, causal: bool) -> tuple[nn.Parameter, nn.Parameter, nn.Parameter, nn.Parameter]:
        prefix = "encoder_" if causal else ""
        names = ("gate_up_lora_A", "gate_up_lora_B", "down_lora_A", "down_lora_B")
        first, second, third, fourth = (self.get_parameter(f"{prefix}{name}") for name in names)
        return first, second, third, fourth
