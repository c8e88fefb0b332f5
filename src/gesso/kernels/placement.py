"""Launches Triton's kernels on the device that their tensors lie on.

Triton launches on the current device, which is the first GPU in every new thread, whatever a model was loaded on. So
what launches says where, each time: an engine's thread knows nothing of the device that the loading one had set.
"""

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def on_its_device(
    launch: Callable[Concatenate[Tensor, Arguments], Result],
) -> Callable[Concatenate[Tensor, Arguments], Result]:
    """Makes the device of the first tensor the current one while a function launches kernels."""

    @functools.wraps(launch)
    def placed(x: Tensor, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with torch.cuda.device_of(x):  # nothing where it lies on a CPU
            return launch(x, *args, **kwargs)

    return placed
