"""Makes room in a model for some of its experts, of every layer the same ones."""

import torch

from gesso.errors import OptionError
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.quantization import modelopt
from gesso.nn.experts import Experts
from gesso.nn.quant.layers import QuantizedExperts


def keep_experts(model: DiffusionGemma, count: int) -> None:
    """Gives every layer of a model without storage `count` experts in the place of all.

    Raises:
        OptionError: experts that another program packed, which are read whole.
    """
    for _, _, block in model.blocks():
        experts = block.experts
        with torch.device("meta"):
            if isinstance(experts, QuantizedExperts):
                if isinstance(experts.form, modelopt.FORMATS):
                    raise OptionError(
                        "experts that ModelOpt quantized are read whole: expert_parallel needs a checkpoint of gesso's",
                        option="expert_parallel",
                    )
                (_, hidden), (_, width) = experts.shapes
                block.experts = QuantizedExperts(hidden, width, count, experts.form)  # type: ignore[assignment]
            else:
                (_, hidden), (_, width) = experts.shapes
                block.experts = Experts(hidden, width, count).to(experts.down_proj.dtype)


def is_of_experts(name: str) -> bool:
    """Says whether a tensor has a part for each expert, along its first dimension."""
    return ".experts." in name
