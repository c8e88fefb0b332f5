"""Kernels run on a GPU where there is one, and in Triton's interpreter elsewhere, which must be asked for early."""

import os
from importlib.util import find_spec
from typing import Any

import torch


def _read_loaded_bounds() -> None:
    """Has the interpreter take a loop's bounds that a kernel loads, arrays of one number, which `int` of NumPy 2.4
    refuses."""
    from triton.runtime import interpreter

    set_up = getattr(interpreter, "_patch_lang_tensor", None)
    if set_up is None:
        return

    def patched(tensor: type, scope: Any) -> None:
        set_up(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = patched


if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
    if find_spec("triton") is not None:
        _read_loaded_bounds()
