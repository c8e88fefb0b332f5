"""A model of masked blocks behind the server: answers, streams, refusals."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from sdar_oracle import make_sdar_folder
from starlette.testclient import TestClient

from gesso.api import load
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.server.app import create_app
from gesso.server.settings import Settings
from server.conftest import ask, chat_body, parse_events, refusal


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, Path]]:
    torch.set_num_threads(1)
    folder = make_sdar_folder(tmp_path_factory.mktemp("sdar"), block=8)
    service = AsyncEngine(load(folder, "cpu"), Limits())
    service.start()
    try:
        yield TestClient(create_app(service, Settings(served_model_name="mini"))), folder
    finally:
        service.close()


def test_it_answers_as_the_engine_does(masked: tuple[TestClient, Path]) -> None:
    client, folder = masked
    expected = load(folder, "cpu").generate([{"role": "user", "content": "Hi"}], seed=3, max_new_tokens=20)
    choice = ask(client, seed=3, max_tokens=20)["choices"][0]
    assert choice["message"]["content"] == expected.text
    body = chat_body(seed=3, max_tokens=20, stream=True)
    events = parse_events(client.post("/v1/chat/completions", json=body).text)
    assert events[-1][1] == "[DONE]"
    sampled = ask(client, seed=3, max_tokens=8, diffusion={"sampler": "maskgit", "max_denoising_steps": 2})
    assert sampled["choices"][0]["diffusion"]["denoising_steps"]


def test_a_stored_prefix_changes_nothing(masked: tuple[TestClient, Path]) -> None:
    client, folder = masked
    engine, text = load(folder, "cpu"), "pear, fig, " * 40
    for end in ("kiwi", "plum and more"):  # another length each, so that blocks end elsewhere
        messages = [{"role": "user", "content": text + end}]
        expected = engine.generate(messages, seed=5, max_new_tokens=12)
        answer = ask(client, messages=messages, seed=5, max_tokens=12)
        assert answer["choices"][0]["message"]["content"] == expected.text
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] >= 128


def test_what_does_not_fit_is_refused_with_its_field(masked: tuple[TestClient, Path]) -> None:
    client, _ = masked
    assert refusal(client, diffusion={"sampler": "leave_one_out"})["param"] == "diffusion.sampler"
    assert refusal(client, logprobs=True)["param"] == "logprobs"
    assert refusal(client, structured_outputs={"regex": "a+"})["param"] == "structured_outputs.regex"


def test_ollama_is_told_the_family(masked: tuple[TestClient, Path]) -> None:
    tags = masked[0].get("/api/tags").json()
    assert tags["models"][0]["details"]["family"] == "sdar"
