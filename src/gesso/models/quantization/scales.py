"""Finds activation-aware scales of weights (AWQ, arXiv 2306.00978).

An input feature that is large, times a weight that is rounded, makes a large error. So a matrix is multiplied by a
scale for each input feature before it is packed, s = (mean magnitude of the feature) ** exponent, and whatever makes
the feature is divided by it: the product is what it was, and what is rounded finely is what counts. One exponent for
all matrices that read the same features is tried after the other; the one that is kept has the least error of their
products with activations that were observed. Exponent 0 is no scale at all, so that on those nothing gets worse.

    R rows   D input features   N output features
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gesso.nn.quant.base import Format, dequantize
from gesso.nn.quant.packing import pack

EXPONENTS = tuple(step / 10 for step in range(11))
SEARCHED = 1 << 20
"""Weights of a matrix that decide: its rows are taken evenly."""


@dataclass(frozen=True, slots=True)
class Product:
    """Holds activations and a matrix that they are multiplied by."""

    x_RD: Tensor
    weight_ND: Tensor
    magnitude_D: Tensor
    """Mean magnitude of the features."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Tells which exponent was chosen, and the relative errors of products that did not choose it."""

    exponent: float
    before: float
    """Relative error (root mean square) of the products without scales."""
    after: float


def scale_of(magnitude_D: Tensor, exponent: float) -> Tensor:
    """Returns the scale of every feature, fp32 [..., D], around one; features that never were anything keep one."""
    magnitude = magnitude_D.float()
    seen = magnitude > 0
    logs = torch.where(seen, magnitude, 1.0).log()
    middle = (logs * seen).sum(dim=-1, keepdim=True) / seen.sum(dim=-1, keepdim=True).clamp(min=1)
    return torch.where(seen, ((logs - middle) * exponent).clamp(-9, 9).exp(), 1.0)


def choose_exponent(products: Sequence[Product], form: Format) -> Choice:
    """Tries all exponents for matrices that read the same features: every other row decides, the rest tell errors."""
    lost = torch.zeros(len(EXPONENTS), 2, dtype=torch.float64)
    size = torch.zeros(2, dtype=torch.float64)
    for product in products:
        rows = max(1, SEARCHED // product.weight_ND.shape[1])
        weight = product.weight_ND[:: -(-len(product.weight_ND) // rows)].float()
        x = product.x_RD.float()
        size += _halves(x @ weight.T)
        for number, exponent in enumerate(EXPONENTS):
            scale = scale_of(product.magnitude_D, exponent)
            parts, _, _ = pack(weight * scale, form)
            lost[number] += _halves(x @ (dequantize(parts, form, torch.float32) / scale - weight).T)
    best = int(lost[:, 0].argmin())
    told = 1 if size[1] else 0  # one row decides and tells
    errors = (lost[:, told] / size[told].clamp(min=torch.finfo(torch.float64).tiny)).sqrt()
    return Choice(EXPONENTS[best], errors[0].item(), errors[best].item())


def _halves(out_RN: Tensor) -> Tensor:
    """Returns the sums of squares of the even rows and of the odd ones."""
    return torch.stack([out_RN[half::2].double().square().sum() for half in range(2)])
