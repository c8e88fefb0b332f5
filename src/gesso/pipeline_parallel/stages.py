"""Says which layers a stage holds, and which rows of a pass go through the stages together."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch

from gesso.config import ModelConfig
from gesso.errors import OptionError
from gesso.models.diffusion_gemma import DiffusionGemma

OPTION = "pipeline_parallel"


def stage_layers(config: ModelConfig, stages: int) -> list[range]:
    """Cuts a model into stages of neighbouring layers, so that the largest stage is as small as it can be; what
    the leader has besides, the table above all, counts as its own. Each has a layer at least.

    Raises:
        OptionError: there are more stages than layers.
    """
    count = len(config.layers)
    if count < stages:
        raise OptionError(f"{count} layers cannot be cut into {stages} stages", option=OPTION)
    with torch.device("meta"):
        model = DiffusionGemma(config)
    sizes = [sum(tensor.numel() for tensor in block.state_dict().values()) for block in model.layers]
    rest = sum(tensor.numel() for tensor in model.state_dict().values()) - sum(sizes)
    before = [0, *accumulate(sizes)]
    # least[s][n]: the smallest largest stage when the first n layers are cut into s, and where the last of them begins.
    least = [{n: (rest + before[n], 0) for n in range(1, count + 1)}]
    for stage in range(1, stages):
        least.append(
            {
                n: min((max(least[-1][m][0], before[n] - before[m]), m) for m in range(stage, n))
                for n in range(stage + 1, count + 1)
            }
        )
    ends = [count]
    for stage in range(stages - 1, 0, -1):
        ends.append(least[stage][ends[-1]][1])
    borders = [0, *reversed(ends)]
    return [range(begin, end) for begin, end in pairwise(borders)]


def micro_batches(sizes: Sequence[int], most: int) -> list[slice]:
    """Cuts a batch into up to `most` micro-batches of neighbouring requests with about equally many rows.

    Args:
        sizes: rows of each request.
    """
    parts = min(most, len(sizes))
    ends = list(accumulate(sizes))
    borders = [0]
    for part in range(1, parts):
        target = ends[-1] * part / parts
        nearest = min(range(len(sizes)), key=lambda i: abs(ends[i] - target)) + 1
        borders.append(min(max(nearest, borders[-1] + 1), len(sizes) - parts + part))
    return [slice(begin, end) for begin, end in zip(borders, [*borders[1:], len(sizes)], strict=True)]
