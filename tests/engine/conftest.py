from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.tiny import make_tiny_folder
from gesso.api import load
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.engine.engine import Engine

Start = Callable[..., AsyncEngine]


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_folder(tmp_path_factory.mktemp("checkpoint") / "tiny")


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Engine:
    return load(tiny_folder, "cpu")


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts engines that are closed at the end, and have nothing left then."""
    services: list[AsyncEngine] = []

    def make(engine: Engine, adapters: dict[str, Path] | None = None, **limits: Any) -> AsyncEngine:
        services.append(AsyncEngine(engine, Limits(**limits), adapters))
        services[-1].start()
        return services[-1]

    yield make
    for service in services:
        service.close()
        assert service.stats().cache_bytes == 0
        assert service.stats().running == service.stats().waiting == 0


@pytest.fixture
def same_random_stream(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, bool], None]:
    """Gives the reference the random numbers of one of gesso's requests."""

    def install(seed: int, started: bool) -> None:
        from transformers.models.diffusion_gemma.generation_diffusion_gemma import EntropyBoundSampler

        generator = torch.Generator().manual_seed(seed)
        skip = [started]

        def initialize_canvas(self: Any, batch_size: int, device: torch.device) -> Tensor:
            assert batch_size == 1
            if skip[0]:  # the reference draws a first canvas also where it is given one
                skip[0] = False
                return torch.zeros(1, self.canvas_length, dtype=torch.int64)
            return torch.randint(self.vocab_size, (self.canvas_length,), generator=generator)[None]

        def multinomial(probs_NV: Tensor, num_samples: int) -> Tensor:
            assert num_samples == 1
            target_N = torch.rand(probs_NV.shape[0], generator=generator)
            cumulative_NV = probs_NV.double().cumsum(dim=-1)
            chosen_N = (cumulative_NV <= target_N[:, None] * cumulative_NV[:, -1:]).sum(dim=-1, keepdim=True)
            return chosen_N.clamp(max=probs_NV.shape[1] - 1)

        monkeypatch.setattr(EntropyBoundSampler, "initialize_canvas", initialize_canvas)
        monkeypatch.setattr(torch, "multinomial", multinomial)
        # It would import the compiler, for seconds, to mark a step that is not compiled.
        monkeypatch.setattr(torch.compiler, "cudagraph_mark_step_begin", lambda: None)

    return install
