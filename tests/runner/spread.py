"""What the tests of runners over ranks ask, and how they listen."""

import threading
from pathlib import Path
from typing import Any

import torch
from engine.seeing import picture

from gesso.api import load
from gesso.config import LoraConfig
from gesso.engine.engine import Request
from gesso.engine.events import Event, Failed, Finished
from gesso.engine.result import GenerationResult
from gesso.models.adapter_files import save_adapter
from gesso.models.adapters import adapter_parameters, attach
from gesso.models.diffusion_gemma import DiffusionGemma

SECONDS = 60
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
LONG = "The quick brown fox. " * 12


def make_adapter(folder: Path, made: Path) -> Path:
    """An adapter of all kinds of layers, for the checkpoint in `folder`, that changes what it says."""
    model = load(folder, "cpu").model
    assert isinstance(model, DiffusionGemma)
    config = LoraConfig(
        rank=2, targets=("layers.*.attention.*", "layers.*.mlp.*", "layers.*.router.*", "layers.*.experts")
    )
    attach(model, config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in adapter_parameters(model).values():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    save_adapter(model, config, made, "tiny")
    return made


def requests() -> list[Request]:
    """Requests of every kind, some with a beginning in common."""
    kinds: list[dict[str, Any]] = [
        {},
        {"mode": "ar", "max_new_tokens": 6},
        {"verify": 1},
        {"verify": 2, "verify_threshold": 0.1},
        {"json_schema": SCHEMA},
        {"regex": "[a-f]{3,9}!"},
        {"choices": ["yes", "no", "perhaps"]},
        {"sampler": "leave_one_out"},
        {"sampler": "confidence", "canvas_length": 5},
        {"guidance_scale": 2.0},
        {"top_k": 9, "top_p": 0.9, "temperature": 1.2},
        {"logit_bias": {40: 3.0}},
        {"temperature": 0},
        {"logprobs": 2},
        {"images": [picture(seed=1)], "image_budget": 70},
        {"images": [picture(seed=2), picture(48, 24, seed=3)], "image_budget": 70},
    ]
    return [
        Request((LONG if i % 3 == 0 else "") + f"Sort: fig, apple {i}", {"seed": i, "max_new_tokens": 9, **kind})
        for i, kind in enumerate(kinds)
    ]


class Listener:
    """Waits for the end of one request."""

    def __init__(self) -> None:
        self.end: Event | None = None
        self.done = threading.Event()
        self.begun = threading.Event()

    def __call__(self, event: Event) -> None:
        self.begun.set()
        if isinstance(event, Finished | Failed):
            self.end = event
            self.done.set()

    @property
    def result(self) -> GenerationResult:
        assert self.done.wait(SECONDS)
        assert isinstance(self.end, Finished), self.end
        return self.end.result


def told(result: GenerationResult) -> tuple[Any, ...]:
    return result.token_ids, result.denoising_steps, result.finish_reason
