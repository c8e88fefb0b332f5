"""A device that is slow to be copied to: nothing of a copy is there before somebody waits for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class SlowStore:
    """Implements `DeviceStore` on the CPU. What is on its way is garbage; what happens is noted in `events`.

    Marks are numbers: those of copies count copies, those of work are negative and count calls of `mark`.
    """

    events: list[tuple[str, int]] = field(default_factory=list)
    """("begun", copy), ("landed", copy) and ("worked", mark), in order."""
    contents: list[tuple[int, int]] = field(default_factory=list)
    """Of each copy: which held tensors, and into which place."""
    places: list[int] = field(default_factory=list)
    """Addresses of the places."""
    bytes: int = 0
    """Bytes of all places."""
    _held: list[int] = field(default_factory=list)
    _waiting: list[tuple[int, Mapping[str, Tensor], Mapping[str, Tensor]]] = field(default_factory=list)
    _marks: int = 0

    def hold(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        held = {name: tensor.clone() for name, tensor in tensors.items()}
        self._held.append(_address(held))
        return held

    def place(self, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
        made = {name: torch.empty_like(tensor) for name, tensor in like.items()}
        self.places.append(_address(made))
        self.bytes += sum(tensor.nbytes for tensor in made.values())
        return made

    def copy(self, source: Mapping[str, Tensor], target: Mapping[str, Tensor], after: int | None) -> int:
        assert after is None or -self._marks <= after < 0, "a copy may only follow work that was marked"
        number = len(self.contents)
        self.contents.append((self._held.index(_address(source)), self.places.index(_address(target))))
        self.events.append(("begun", number))
        for tensor in target.values():
            tensor.view(torch.uint8).fill_(0x7F)
        self._waiting.append((number, source, target))
        return number

    def wait(self, mark: int) -> None:
        while self._waiting and self._waiting[0][0] <= mark:
            number, source, target = self._waiting.pop(0)
            for name, tensor in source.items():
                target[name].copy_(tensor)
            self.events.append(("landed", number))

    def mark(self) -> int:
        self._marks += 1
        self.events.append(("worked", -self._marks))
        return -self._marks

    def rate(self) -> float:
        return 2e6


def _address(tensors: Mapping[str, Tensor]) -> int:
    return next(iter(tensors.values())).data_ptr()
