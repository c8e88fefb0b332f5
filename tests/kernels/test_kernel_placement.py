"""Kernels are launched on the device of their tensors, whatever the current one of a thread is."""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import gesso.kernels
from gesso.kernels.placement import on_its_device

SOURCES = sorted(Path(gesso.kernels.__path__[0]).glob("*.py"))


def launching(source: Path) -> Iterator[ast.FunctionDef]:
    """Yields the functions that launch a kernel: `kernel[grid](...)`."""
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            calls = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
            if any(isinstance(call.func, ast.Subscript) for call in calls):
                yield node


def test_whatever_launches_says_where() -> None:
    found = [(source.stem, function) for source in SOURCES for function in launching(source)]
    assert len(found) >= 16
    for module, function in found:
        decorators = [getattr(decorator, "id", None) for decorator in function.decorator_list]
        assert decorators == ["on_its_device"], f"{module}.{function.name}"


def test_the_device_is_current_while_kernels_are_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    @contextmanager
    def device_of(x: Tensor) -> Iterator[None]:
        seen.append(x.device)
        yield
        seen.append("left")

    @on_its_device
    def launch(x: Tensor, factor: int, *, more: int) -> int:
        seen.append("launched")
        return len(x) * factor + more

    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    assert launch(torch.empty(3, device="meta"), 2, more=1) == 7
    assert seen == [torch.device("meta"), "launched", "left"]


def test_only_gpus_that_know_ptx_run_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch calls AMD's `cuda` as well, and brings Triton along for them."""
    monkeypatch.setattr("gesso.kernels._has_triton", lambda: True)
    assert gesso.kernels.usable(torch.device("cuda"))
    monkeypatch.setattr(torch.version, "hip", "7.0.0")
    assert not gesso.kernels.usable(torch.device("cuda"))
