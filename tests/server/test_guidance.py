"""Guidance on the wire, and best_of before a real engine."""

import httpx
import pytest
from starlette.testclient import TestClient

from gesso.engine.events import Finished
from gesso.errors import OptionError
from gesso.generation import GenerationConfig
from server.conftest import ask, refusal
from server.fake import FakeService, result

FIELDS = {"guidance_scale": 2.0, "guidance_start": 0.9, "guidance_end": 0.1, "negative_prompt": "no"}


def test_its_fields_reach_the_engine(client: TestClient, service: FakeService) -> None:
    ask(client, diffusion=FIELDS)
    assert service.requests[0].options == FIELDS


def test_its_passes_are_told_where_there_were_any(client: TestClient, service: FakeService) -> None:
    assert "guidance_passes" not in ask(client)["choices"][0]["diffusion"]
    service.events = [Finished(result(guidance_passes=6))]
    report = ask(client)["choices"][0]["diffusion"]
    assert report["guidance_passes"] == 6
    assert report["tokens_per_forward"] == 0.25, "of all twelve passes"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"guidance_scale": -1.0}, "guidance_scale"),
        ({"guidance_scale": 2.0, "mode": "ar"}, "guidance_scale"),
        ({"guidance_start": 0.0}, "guidance_start"),
        ({"guidance_start": 0.2, "guidance_end": 0.5}, "guidance_start"),
        ({"classifier": 5}, "classifier"),
        ({"accept": 5}, "accept"),
    ],
)
def test_it_is_refused_by_name(client: TestClient, service: FakeService, fields: dict[str, float], param: str) -> None:
    try:
        GenerationConfig(**{name: value for name, value in fields.items() if name not in ("classifier", "accept")})  # type: ignore[arg-type]
    except OptionError as error:
        service.error = error
    assert refusal(client, diffusion=fields)["param"] == f"diffusion.{param}"


def test_the_bundled_model_is_guided_and_searched(mini_url: str) -> None:
    body = {"model": "mini", "messages": [{"role": "user", "content": "What is 2 + 3?"}], "seed": 1, "max_tokens": 8}
    plain = httpx.post(f"{mini_url}/v1/chat/completions", json=body, timeout=60).json()["choices"][0]
    guided = httpx.post(
        f"{mini_url}/v1/chat/completions", json={**body, "diffusion": {"guidance_scale": 1.5}}, timeout=60
    ).json()["choices"][0]
    assert plain["message"]["content"] == guided["message"]["content"] == "5"
    assert guided["diffusion"]["guidance_passes"] == sum(guided["diffusion"]["denoising_steps"])
    asked = {"model": "mini", "prompt": "2 + 3 =", "max_tokens": 4, "n": 1, "best_of": 3, "seed": 5}
    found = httpx.post(f"{mini_url}/v1/completions", json=asked, timeout=60).json()
    (report,) = found["search"]
    means = {candidate["seed"]: candidate["mean_logprob"] for candidate in report["candidates"]}
    assert sorted(means) == [5, 6, 7]
    assert found["choices"][0]["diffusion"]["seed"] == max(means, key=lambda seed: means[seed])
