"""Self-verification on the wire."""

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


def test_what_it_did_is_told_where_it_was_asked_for(client: TestClient, service: FakeService) -> None:
    plain = ask(client)["choices"][0]["diffusion"]
    assert not set(plain) & {"verify_rounds", "disputed_tokens"}
    service.events = [Finished(result(verify_rounds=(1, 0), disputed_tokens=3))]
    report = ask(client)["choices"][0]["diffusion"]
    assert (report["verify_rounds"], report["disputed_tokens"]) == ([1, 0], 3)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"verify": -1}, "verify"),
        ({"verify": 9}, "verify"),
        ({"verify": 1.5}, "verify"),
        ({"verify": 1, "verify_threshold": -1}, "verify_threshold"),
        ({"verify": 1, "mode": "ar"}, "verify"),
        ({"verify_threshold": 2.0}, "verify_threshold"),
    ],
)
def test_it_is_refused_by_name(client: TestClient, service: FakeService, fields: dict[str, float], param: str) -> None:
    try:
        GenerationConfig(**fields)  # type: ignore[arg-type]
    except OptionError as error:
        service.error = error
    assert refusal(client, diffusion=fields)["param"] == f"diffusion.{param}"
