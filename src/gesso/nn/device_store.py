"""Moves tensors from host memory to a device beside its work: what streaming asks of a device, and CUDA's answer."""

import time
from collections.abc import Mapping
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from gesso.errors import OptionError

Mark = TypeVar("Mark")
"""A point in a device's work, such as a CUDA event."""
MEASURED = 1 << 28
"""Bytes that are copied to measure the link."""
TRIALS = 3

Tensors = Mapping[str, Tensor]


class DeviceStore(Protocol[Mark]):
    """Holds tensors in host memory and copies them into fixed places of a device, in order, beside its work."""

    def hold(self, tensors: Tensors) -> dict[str, Tensor]:
        """Returns the tensors in host memory, as copies can be made from best."""

    def place(self, like: Tensors) -> dict[str, Tensor]:
        """Returns tensors of the device of the same shapes, not filled in."""

    def copy(self, source: Tensors, target: Tensors, after: Mark | None) -> Mark:
        """Begins to copy once the device has got to `after`, and returns at once; the mark is the copy's end. Copies
        follow each other."""

    def wait(self, mark: Mark) -> None:
        """Lets what the device is given from now on begin after a mark; the caller does not wait."""

    def mark(self) -> Mark:
        """Returns the end of what the device has been given so far."""

    def rate(self) -> float:
        """Measures how many bytes a second a large copy takes over."""


class CudaStore:
    """Implements `DeviceStore` by pinned memory and a stream of its own."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def hold(self, tensors: Tensors) -> dict[str, Tensor]:
        try:
            return {name: tensor.pin_memory() for name, tensor in tensors.items()}
        except RuntimeError as error:
            why = (str(error).splitlines() or ["no reason given"])[0]
            raise OptionError(
                f"experts that stream need host memory that can be pinned ({why}): free some, or raise `ulimit -l`",
                option="device_memory",
            ) from None

    def place(self, like: Tensors) -> dict[str, Tensor]:
        return {name: torch.empty_like(tensor, device=self.device) for name, tensor in like.items()}

    def copy(self, source: Tensors, target: Tensors, after: torch.cuda.Event | None) -> torch.cuda.Event:
        with torch.cuda.stream(self.stream):
            if after is not None:
                self.stream.wait_event(after)
            for name, tensor in source.items():
                target[name].copy_(tensor, non_blocking=True)
            done = torch.cuda.Event()
            done.record(self.stream)
        return done

    def wait(self, mark: torch.cuda.Event) -> None:
        torch.cuda.current_stream(self.device).wait_event(mark)

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self.device))
        return event

    def rate(self) -> float:
        source = {"bytes": torch.empty(MEASURED, dtype=torch.uint8, pin_memory=True)}
        target, best = self.place(source), float("inf")
        for _ in range(TRIALS):
            torch.cuda.synchronize(self.device)
            started = time.perf_counter()
            self.copy(source, target, None)
            torch.cuda.synchronize(self.device)
            best = min(best, time.perf_counter() - started)
        return MEASURED / best
