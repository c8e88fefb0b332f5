"""Recorded passes: what stands for a CUDA graph in tests on a CPU."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten

lift = torch.ops.aten.lift_fresh.default
"""Comes first with every tensor that is made of numbers on the host."""


class Recorder(TorchDispatchMode):
    """Records the operations that run under it. Like a CUDA graph, `replay` computes the same over the same memory,
    whatever the host would do by then, and asking for numbers that are not written in the code is refused."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._calls: list[tuple[Callable[..., Any], list[Any], Any, list[int]]] = []
        self._slots: dict[int, int] = {}
        """The place in `_values` of each tensor that was seen, by its id: all are kept while it records."""
        self._values: list[Any] = []
        self._made: set[int] = set()
        self._written: set[int] = set()
        """Those of `_made` whose numbers are written in the code, as a GPU's host knows them."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves, form = tree_flatten((args, kwargs or {}))
        given = [_Slot(self._slot(leaf)) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        slots = {x.index for x in given if isinstance(x, _Slot)}
        if func is lift:
            self._written |= slots
        written = slots <= self._written
        assert written or not _asks(func, leaves), f"asks for numbers: {func}"
        result = func(*args, **(kwargs or {}))
        known = len(self._values)
        outs = [self._slot(out) if isinstance(out, Tensor) else -1 for out in tree_flatten(result)[0]]
        made = {slot for slot in outs if slot >= known}
        self._made |= made
        self._written = self._written | made if written else self._written - set(outs)
        self._calls.append((torch.clone if func is lift else func, given, form, outs))
        return result

    def _slot(self, tensor: Tensor) -> int:
        slot = self._slots.setdefault(id(tensor), len(self._values))
        if slot == len(self._values):
            self._values.append(tensor)
        return slot

    def replayed(self, out: Tensor) -> Callable[[], Any]:
        """Returns what runs all of it again and returns what `out` is by then."""
        last, values = self._slot(out), self._values
        for slot in self._made:
            values[slot] = None

        def replay() -> Any:
            held = list(values)
            for func, given, form, slots in self._calls:
                args, kwargs = tree_unflatten([held[x.index] if isinstance(x, _Slot) else x for x in given], form)
                outs = tree_flatten(func(*args, **kwargs))[0]
                for slot, value in zip(slots, outs, strict=True):
                    held[slot] = value
            return held[last]

        return replay


class _Slot:
    """Stands for a tensor among an operation's arguments."""

    def __init__(self, index: int) -> None:
        self.index = index


def _asks(func: Any, leaves: Sequence[Any]) -> bool:
    """Says whether an operation's result hangs on numbers in another way than by its own numbers."""
    if func is torch.ops.aten.index.Tensor:  # by places or, which asks how many there are, by truths
        return any(x.dtype == torch.bool for x in leaves if isinstance(x, Tensor))
    return bool({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags))
