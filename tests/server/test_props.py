"""What the server says it is, and fills in the middle."""

from typing import Any

import pytest
from starlette.testclient import TestClient

import gesso
from server.conftest import parse_events, refusal
from server.fake import FakeService


def test_version_and_props(client: TestClient, service: FakeService) -> None:
    assert client.get("/version").json() == client.get("/api/version").json() == {"version": gesso.__version__}
    props = client.get("/props").json()
    assert props["default_generation_settings"]["n_ctx"] == 4096
    assert props["modalities"] == {"vision": False, "audio": False}
    assert (props["max_images"], props["max_body_bytes"]) == (16, 4 * 2**20)
    assert props["total_slots"] == service.limits.max_num_seqs
    assert props["model_alias"] == "mini"
    assert "<|turn>" in props["chat_template"]


def test_a_fill_in_the_middle(mini_url: str) -> None:
    import httpx

    body: Any = {"model": "mini", "prompt": "Sum: 2 + ", "suffix": " = 5", "random_seed": 3, "max_tokens": 4}
    whole = httpx.post(f"{mini_url}/v1/fim/completions", json=body, timeout=120)
    assert whole.status_code == 200, whole.text
    (choice,) = whole.json()["choices"]
    assert choice["diffusion"]["seed"] == 3
    streamed = httpx.post(f"{mini_url}/v1/fim/completions", json={**body, "stream": True}, timeout=120)
    events = parse_events(streamed.text)
    assert events[-1] == (None, "[DONE]")
    import json

    chunk = json.loads(events[0][1])
    assert chunk["choices"][0]["delta"]["content"] == choice["message"]["content"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": "a", "min_tokens": 3}, "min_tokens"),
        ({"prompt": "a", "steps": 3}, "steps"),
        ({"prompt": "a", "diffusion": {"draft_frames": True}}, "diffusion.draft_frames"),
    ],
)
def test_fills_that_are_refused(client: TestClient, fields: Any, param: str) -> None:
    assert refusal(client, "/v1/fim/completions", **{"model": "mini", **fields})["param"] == param
