"""Holds a stack of layers as compiled steps (see `layer_steps`) for as long as its weights stay where they are."""

import operator
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import cast

import torch
from torch import Tensor

from gesso.config import AttentionKind
from gesso.kernels.host.threads import product_threads
from gesso.models.block import Block
from gesso.models.layer_steps import LayerSteps, can_list
from gesso.nn.fused_norms import agree

Angles = tuple[Tensor, Tensor]
"""Cos and sin of positions."""
Layers = Iterable[tuple[int, AttentionKind, Block]]
"""The number, kind and module of every layer."""


class ListedLayers(ABC):
    """Lists the steps of layers that `can_be_listed`, for so many rows; a subclass says what a layer's are."""

    def __init__(self, blocks: Layers, rows: int) -> None:
        layers = [(kind, block) for _, kind, block in blocks]
        self._seen = _Seen(block for _, block in layers)
        self._threads = product_threads()
        self._lock = threading.Lock()
        self._angles: dict[AttentionKind, Angles] = {}
        with torch.inference_mode(False):  # tensors that passes in any mode may write to
            self._steps = LayerSteps(rows)
            self._x = _room(rows, layers[0][1].attention.q_proj.in_features)
            for kind, block in layers:
                width = block.attention.head_dim
                self._steps.begin_layer()
                self._list(block, self._angles.setdefault(kind, (_room(rows, width), _room(rows, width))))

    @classmethod
    def can_be_listed(cls, blocks: Layers) -> bool:
        """Says whether kernels compute all of these layers."""
        return all(cls._can_list(block) for _, _, block in blocks) and agree()

    @classmethod
    def _can_list(cls, block: Block) -> bool:
        return can_list(block)

    @abstractmethod
    def _list(self, block: Block, angles: Angles) -> None:
        """Lists the steps of a layer, which leave its output in the place of its input."""

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Copies as None: a copy of a model lists its own."""
        return type(None), ()

    def serves(self) -> bool:
        """Says whether layers and threads are those that the steps were listed for."""
        return self._threads == product_threads() and self._seen.is_same()

    def _run(self, x_MD: Tensor, rope: dict[AttentionKind, Angles], work: Callable[[], None]) -> Tensor | None:
        """Does `work`, which runs the steps, between what goes into the layers and what comes out, [M, D].

        Returns None, and does nothing, where somebody observes a layer, or another thread is at it.
        """
        if self._seen.is_observed() or not self._lock.acquire(blocking=False):
            return None
        try:
            self._x.copy_(x_MD)
            for kind, own in self._angles.items():
                for angle, given in zip(own, rope[kind], strict=True):
                    angle.copy_(given.view(angle.shape))
            work()
            return self._x.clone()
        finally:
            self._lock.release()


def _room(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.float32, device="cpu")


class _Seen:
    """Remembers what layers are made of, so that others or other weights in their place are noticed."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        blocks = list(blocks)
        modules = [module for block in blocks for module in block.modules()]
        tables = [
            cast("dict[str, object]", table)
            for module in modules
            for table in (module._modules, module._buffers, module._parameters)
        ]
        self._tables = [table for table in tables for _ in table]
        self._names = [name for table in tables for name in table]
        self._held = [held for table in tables for held in table.values()]
        self._tensors = [held for held in self._held if isinstance(held, Tensor)]
        self._places = list(map(Tensor.data_ptr, self._tensors))
        self._hooks = [hooks for module in modules for hooks in (module._forward_hooks, module._forward_pre_hooks)]
        self._mixes = [(block, block.mix) for block in blocks]

    def is_observed(self) -> bool:
        """Says whether somebody observes a module."""
        return any(self._hooks)

    def is_same(self) -> bool:
        """Says whether all is as it was."""
        return (
            all(map(operator.is_, map(dict.get, self._tables, self._names), self._held))  # no loop of Python's
            and list(map(Tensor.data_ptr, self._tensors)) == self._places
            and all(block.mix is mix for block, mix in self._mixes)
        )
