"""Folds activation-aware scales into the weights beside them, so that a calibrated checkpoint has the same tensors.

What reads a norm is scaled by columns, and the norm's weight is divided by the same; what reads the product of an MLP's
(or an expert's) gate and up is scaled by columns, and up's rows are divided. Nothing is folded where that cannot be
done: attention's output reads values that are normed without a weight.

    E experts   F width of an MLP or of an expert   D hidden   k experts of a token
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gesso.models.quantization.scales import Choice, Product, choose_exponent, scale_of
from gesso.nn.elementwise import gelu
from gesso.nn.quant.base import Format

Read = Callable[[str, int | slice], Tensor]
"""Reads a place of a weight, by our name."""
EVERYTHING = slice(None)
JUDGES = 8
"""Experts that decide the exponents of their layer: those that saw the most tokens."""
TRUST = 8
"""Tokens that an expert must have seen for half of its own magnitudes to count."""


@dataclass(slots=True)
class Folds:
    """Holds what becomes of the tensors of a part of a model, by our names."""

    columns: dict[str, Tensor] = field(default_factory=dict)
    """What columns are multiplied by, [in] or [E, in]."""
    rows: dict[str, Tensor] = field(default_factory=dict)
    """What rows are divided by, [out] or [E, out]."""
    norms: dict[str, Tensor] = field(default_factory=dict)
    """Weights of norms as they are from now on."""
    choices: dict[str, Choice] = field(default_factory=dict)
    """Choices by the name of what the scaled matrices read."""

    def apply(self, name: str, place: int | slice, weight: Tensor) -> Tensor:
        """Returns a tile of a tensor, folded; tiles of tensors that nothing is folded into are as they were."""
        columns, rows = self.columns.get(name), self.rows.get(name)
        if columns is not None:
            weight = weight.float() * (columns[place] if columns.dim() == 2 else columns)
        if rows is not None:
            weight = weight.float() / rows[place][..., None]
        return weight


def fold(part: str, forms: Mapping[str, Format], seen: Mapping[str, Tensor], read: Read, experts: int) -> Folds:
    """Finds the scales of a layer, or of what stands beside the layers, and folds them.

    Args:
        part: `layers.I.`, or `self_conditioning.`.
        forms: of the layers that are packed, by name.
        seen: what `observe` found.
        experts: of a layer.
    """
    found = Folds()
    attention = [f"{part}attention.{letter}_proj" for letter in "qkv"]
    _norm(found, f"{part}input_norm", [name for name in attention if name in forms], forms, seen, read)
    norm = f"{part}{'pre_norm' if part == 'self_conditioning.' else 'pre_mlp_norm'}"
    gate, up, down = (f"{part}mlp.{name}_proj" for name in ("gate", "up", "down"))
    if gate in forms:
        _norm(found, norm, [gate, up], forms, seen, read)
        x_RD = seen[f"{norm}.rows"].float()
        inner_RF = gelu(x_RD @ _whole(read, gate).T) * (x_RD @ _whole(read, up).T)
        product = Product(inner_RF, _whole(read, down), inner_RF.abs().mean(dim=0))
        choice = found.choices[f"{part}mlp.inner"] = choose_exponent([product], forms[down])
        scale_F = scale_of(product.magnitude_D, choice.exponent)
        found.columns[f"{down}.weight"] = found.rows[f"{up}.weight"] = scale_F
    if f"{part}experts" in forms:
        _experts(found, part, forms[f"{part}experts"], seen, read, experts)
    return found


def _whole(read: Read, layer: str) -> Tensor:
    return read(f"{layer}.weight", EVERYTHING).float()


def _norm(
    found: Folds, norm: str, layers: list[str], forms: Mapping[str, Format], seen: Mapping[str, Tensor], read: Read
) -> None:
    """Scales linear layers that read a norm."""
    if not layers:
        return
    x_RD, magnitude_D = seen[f"{norm}.rows"], seen[f"{norm}.magnitude"]
    products = [Product(x_RD, _whole(read, layer), magnitude_D) for layer in layers]
    choice = found.choices[norm] = choose_exponent(products, forms[layers[0]])
    scale_D = _divide(found, norm, scale_of(magnitude_D, choice.exponent), read)
    found.columns |= {f"{layer}.weight": scale_D for layer in layers}


def _divide(found: Folds, norm: str, scale_D: Tensor, read: Read) -> Tensor:
    """Divides a norm's weight; returns the scale that its rounding makes of the one that was wanted: so products are
    what they were, to the bit of a weight."""
    weight = read(f"{norm}.weight", EVERYTHING)
    divided = (weight.float() / scale_D).to(weight.dtype)
    found.norms[f"{norm}.weight"] = divided
    return torch.where(divided == 0, 1.0, weight.float() / divided.float())


def _experts(found: Folds, part: str, form: Format, seen: Mapping[str, Tensor], read: Read, experts: int) -> None:
    """Scales a layer's experts: all read the same norm, and each has an inside of its own."""
    norm, gate_up, down = f"{part}pre_experts_norm", f"{part}experts.gate_up_proj", f"{part}experts.down_proj"
    x_RD, magnitude_D = seen[f"{norm}.rows"].float(), seen[f"{norm}.magnitude"]
    experts_Rk = seen[f"{part}router.experts"]
    own = [(experts_Rk == expert).any(dim=1) for expert in range(experts)]
    tokens = [int(rows.sum()) for rows in own]
    judges = sorted(range(len(own)), key=lambda expert: -tokens[expert])[:JUDGES]
    judges = [expert for expert in judges if tokens[expert]]
    outer = [Product(x_RD[own[expert]], read(gate_up, expert), magnitude_D) for expert in judges]
    choice = found.choices[norm] = choose_exponent(outer, form)
    found.columns[gate_up] = _divide(found, norm, scale_of(magnitude_D, choice.exponent), read)
    inside = [_inside(x_RD[rows], read(gate_up, expert).float()) for expert, rows in enumerate(own)]
    magnitudes_EF = torch.stack([_magnitude(inner_RF) for inner_RF in inside])
    inner = [Product(inside[expert], read(down, expert), magnitudes_EF[expert]) for expert in judges]
    choice = found.choices[f"{part}experts.inner"] = choose_exponent(inner, form)
    scales_EF = scale_of(magnitudes_EF, choice.exponent)
    found.columns[down] = scales_EF
    found.rows[gate_up] = torch.cat((torch.ones_like(scales_EF), scales_EF), dim=1)


def _inside(x_RD: Tensor, gate_up: Tensor) -> Tensor:
    gate, up = (x_RD @ gate_up.T).chunk(2, dim=-1)
    return gelu(gate) * up


def _magnitude(inner_RF: Tensor) -> Tensor:
    """Returns mean magnitudes [F], drawn towards their mean where there were few rows."""
    if not len(inner_RF):
        return inner_RF.new_ones(inner_RF.shape[1])
    mean = inner_RF.abs().mean(dim=0)
    return (len(inner_RF) * mean + TRUST * mean.mean()) / (len(inner_RF) + TRUST)
