"""Kernels run on a GPU where there is one, and in Triton's interpreter elsewhere, which must be asked for early."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
