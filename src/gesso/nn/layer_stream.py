"""Runs modules whose weights lie in host memory: each is copied to the device while the one before it computes.

Life cycle: modules of the same shape run one after another, pass after pass, always in the same order. There are two
places on the device. When a module is called, its weights are in one of them, or on their way; the device waits for
them, and the copy of the next module's begins, into the other place, as soon as the module that used it last is done.
After the last module comes the first, so that a pass begins with its first weights there. Between calls a module holds
its tensors in host memory.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from gesso.nn.device_store import DeviceStore

PLACES = 2
"""Modules whose weights are on the device at a time."""


class LayerStream:
    """Streams the weights of modules, in the order in which they run."""

    def __init__(self, modules: Sequence[nn.Module], store: DeviceStore[Any]) -> None:
        """
        Args:
            modules: of one kind and shape, their tensors in host memory.
        """
        self.modules, self.store = list(modules), store
        self.held: list[dict[str, Tensor]] = []
        for module in modules:  # one by one: what a module held before is let go of at once
            self.held.append(store.hold(_tensors(module)))
            _bind(module, self.held[-1])
        assert all(_shapes(held) == _shapes(self.held[0]) for held in self.held)
        self.places = [store.place(self.held[0]) for _ in range(PLACES)]
        self._contents: list[int | None] = [None] * PLACES
        self._copied: list[Any] = [None] * PLACES
        self._used: list[Any] = [store.mark() for _ in range(PLACES)]
        for number, module in enumerate(self.modules):
            module.register_forward_pre_hook(self._entering(number))
            module.register_forward_hook(self._leaving(number), always_call=True)

    @property
    def bytes(self) -> int:
        """Returns what is copied in every pass."""
        return sum(tensor.nbytes for held in self.held for tensor in held.values())

    def _entering(self, number: int) -> Any:
        def enter(module: nn.Module, _: Any) -> None:
            if number not in self._contents:  # the first pass, or one after a pass that was broken off
                self._stage(number, 0)
            place = self._contents.index(number)
            self.store.wait(self._copied[place])
            _bind(module, self.places[place])
            following = (number + 1) % len(self.modules)
            if following not in self._contents:
                self._stage(following, 1 - place)

        return enter

    def _leaving(self, number: int) -> Any:
        def leave(module: nn.Module, *_: Any) -> None:
            if number in self._contents:
                self._used[self._contents.index(number)] = self.store.mark()
            _bind(module, self.held[number])

        return leave

    def _stage(self, number: int, place: int) -> None:
        self._contents[place] = None  # a copy that is broken off leaves parts of both
        self._copied[place] = self.store.copy(self.held[number], self.places[place], self._used[place])
        self._contents[place] = number


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach() for name, tensor in module.state_dict().items()}


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[Any, Any]]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


def _bind(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Makes a module compute with these tensors."""
    for name, tensor in tensors.items():
        if name in module._parameters:
            module._parameters[name] = nn.Parameter(tensor, requires_grad=False)
        else:
            module._buffers[name] = tensor
