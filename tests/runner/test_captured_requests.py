"""Requests of all kinds are answered by captured passes as by those that run, whoever comes, goes or is cancelled."""

import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from oracle import random_model
from torch import Tensor

from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.engine.engine import Engine, Request
from gesso.engine.events import BlockCommitted, Event, Failed, Finished
from gesso.generation import GenerationConfig
from gesso.nn import experts as experts_module
from gesso.runner.cuda_graphs import CudaGraphRunner
from gesso.runner.model_runner import ModelRunner
from gesso.text.tokenizer import TokenIds
from runner.test_cuda_graphs import OPTIONS as LONG
from runner.test_cuda_graphs import PROMPT, SHAPE, Tracer

NARROW = dataclasses.replace(SHAPE, window=5)
"""A model whose sliding layer sees less than a canvas."""
OPTIONS = LONG | {"max_new_tokens": 16, "max_denoising_steps": 4}
AR = {"mode": "ar", "ignore_eos": True}
CASES: dict[str, list[dict[str, Any]]] = {
    "guided and not": [
        OPTIONS | {"prompt": PROMPT, "guidance_scale": 1.7},
        OPTIONS | {"prompt": PROMPT[:5], "max_new_tokens": 8},
        OPTIONS | {"prompt": PROMPT[:9], "guidance_scale": 1.2},
    ],
    "verified and not": [
        OPTIONS | {"prompt": PROMPT, "verify": "exact", "max_new_tokens": 8},
        OPTIONS | {"prompt": PROMPT[:6]},
    ],
    "both modes": [
        AR | {"prompt": PROMPT, "max_new_tokens": 9, "logprobs": 2},
        OPTIONS | {"prompt": PROMPT[:6], "logprobs": 2},
        AR | {"prompt": PROMPT[:4], "max_new_tokens": 6},
    ],
    "long prompts beside short ones": [
        OPTIONS | {"prompt": PROMPT * 15},
        OPTIONS | {"prompt": PROMPT[:3], "max_new_tokens": 24},
        OPTIONS | {"prompt": PROMPT * 9, "max_new_tokens": 11},
    ],
}


@pytest.fixture(autouse=True)
def _in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Experts are multiplied in one call, as on a GPU."""

    def multiply(x_MD: Tensor, ends_E: Tensor, matrix_EFD: Tensor) -> Tensor:
        groups_M = torch.searchsorted(ends_E, torch.arange(len(x_MD), dtype=torch.int32), right=True)
        return (matrix_EFD[groups_M] @ x_MD[..., None])[..., 0]

    monkeypatch.setattr(experts_module, "can_group", lambda *_: True)
    monkeypatch.setattr(experts_module, "multiply_groups", multiply)


def make_engine(tracer: Tracer | None = None) -> Engine:
    model = random_model(NARROW)
    runner = ModelRunner(model, None if tracer is None else CudaGraphRunner(model, tracer))
    return Engine(runner, TokenIds(), None, GenerationConfig(eos_token_ids=(1,)))


@pytest.mark.parametrize("case", CASES)
def test_answers_are_those_of_passes_that_are_run(case: str) -> None:
    plain, engine = make_engine(), make_engine(tracer := Tracer())
    requests = [options | {"seed": seed} for seed, options in enumerate(CASES[case])]
    expected = plain.generate_batch(requests)
    for _ in range(2):  # the second time in the caches of the first
        found = engine.generate_batch(requests)
        assert [result.token_ids for result in found] == [result.token_ids for result in expected]
    assert tracer.replayed > 4


class Listener:
    """Waits for the first block of a request, and for its end."""

    def __init__(self) -> None:
        self.begun, self.over = threading.Event(), threading.Event()
        self.last: Event | None = None

    def __call__(self, event: Event) -> None:
        self.last = event
        if isinstance(event, BlockCommitted):
            self.begun.set()
        if isinstance(event, Finished | Failed):
            self.over.set()


@pytest.fixture
def service() -> Iterator[tuple[AsyncEngine, Tracer]]:
    engine = make_engine(tracer := Tracer())
    limits = Limits(max_num_seqs=3, prefill_chunk=16)
    running = AsyncEngine(engine, limits)
    running.start()
    yield running, tracer
    running.close()


def test_a_server_answers_so_behind_stored_prefixes_and_cancelled_requests(
    service: tuple[AsyncEngine, Tracer],
) -> None:
    running, tracer = service
    plain = make_engine()
    prompts = [PROMPT * 3, PROMPT * 3 + [7, 8], PROMPT * 2 + [9], PROMPT[:4]]
    options = [OPTIONS, OPTIONS | {"max_new_tokens": 32}, AR | {"max_new_tokens": 9}, OPTIONS | {"guidance_scale": 1.5}]
    requests = [Request(p, o | {"seed": i}) for i, (p, o) in enumerate(zip(prompts, options, strict=True))]
    expected = [plain.generate_batch([request])[0].token_ids for request in requests]
    for _ in range(2):  # the second time prefixes are stored
        gone = Listener()
        handle = running.submit(Request(PROMPT * 3, OPTIONS | {"max_new_tokens": 400, "seed": 9}), gone)
        listeners = [Listener() for _ in requests]
        for request, listener in zip(requests, listeners, strict=True):
            running.submit(request, listener)
        assert gone.begun.wait(60)
        handle.cancel()
        for listener, tokens in zip(listeners, expected, strict=True):
            assert listener.over.wait(60)
            assert isinstance(listener.last, Finished)
            assert listener.last.result.token_ids == tokens
        assert gone.over.wait(60)
    assert tracer.replayed > 4
