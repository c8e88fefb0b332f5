"""Self-verification on the wire."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from gesso.engine.events import Finished
from gesso.errors import OptionError
from gesso.generation import GenerationConfig
from server.conftest import ask, refusal
from server.fake import FakeService, result


def test_its_fields_reach_the_engine(client: TestClient, service: FakeService) -> None:
    ask(client, diffusion={"verify": 2, "verify_threshold": 1.5})
    assert service.requests[0].options == {"verify": 2, "verify_threshold": 1.5}


@pytest.mark.parametrize("word", ["auto", "exact"])
def test_words_reach_the_engine(client: TestClient, service: FakeService, word: str) -> None:
    ask(client, diffusion={"verify": word})
    assert service.requests[0].options == {"verify": word}


def test_what_it_did_is_told_where_it_was_asked_for(client: TestClient, service: FakeService) -> None:
    plain = ask(client)["choices"][0]["diffusion"]
    assert not set(plain) & {"verify_rounds", "rejected_tokens"}
    service.events = [Finished(result(verify_rounds=(1, 0), rejected_tokens=3))]
    report = ask(client)["choices"][0]["diffusion"]
    assert (report["verify_rounds"], report["rejected_tokens"]) == ([1, 0], 3)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"verify": -1}, "verify"),
        ({"verify": 9}, "verify"),
        ({"verify": 1.5}, "verify"),
        ({"verify": "exactly"}, "verify"),
        ({"verify": "exact", "mode": "canvas", "logit_bias": {5: 1.0}}, "logit_bias"),
        ({"verify": 1, "verify_threshold": -1}, "verify_threshold"),
        ({"verify": 1, "mode": "ar"}, "verify"),
        ({"verify_threshold": 2.0}, "verify_threshold"),
    ],
)
def test_it_is_refused_by_name(client: TestClient, service: FakeService, fields: dict[str, Any], param: str) -> None:
    try:
        GenerationConfig(**fields)
    except OptionError as error:
        service.error = error
    biased = {"logit_bias": fields.pop("logit_bias")} if "logit_bias" in fields else {}
    assert refusal(client, diffusion=fields, **biased)["param"] in (param, f"diffusion.{param}")
