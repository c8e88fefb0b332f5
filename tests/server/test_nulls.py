"""A `null` is the same as leaving a field out."""

import importlib
import pkgutil
from collections.abc import Iterator

import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

import gesso.server
from gesso.server.schema import Strict
from server.conftest import chat_body, refusal

for _module in pkgutil.iter_modules(gesso.server.__path__):
    if _module.name != "ray":  # an optional dependency, and no requests
        importlib.import_module(f"gesso.server.{_module.name}")


def models(of: type[Strict] = Strict) -> Iterator[type[Strict]]:
    for model in of.__subclasses__():
        if model.__module__.startswith("gesso."):
            yield model
        yield from models(model)


@pytest.mark.parametrize("model", sorted({*models()}, key=lambda model: (model.__module__, model.__name__)))
def test_no_optional_field_minds(model: type[Strict]) -> None:
    fields = {field.alias or name: field.is_required() for name, field in model.model_fields.items()}
    wrong: set[object] = set()
    try:
        model.model_validate({name: None for name, required in fields.items() if not required})
    except ValidationError as error:
        wrong = {each["loc"][0] for each in error.errors() if each["loc"]}
    assert wrong <= {name for name, required in fields.items() if required}


def test_endpoints_take_it(client: TestClient) -> None:
    for path, fields in (
        (
            "/v1/chat/completions",
            chat_body(diffusion={"draft_frames": None, "max_denoising_steps": None}, n=None, stream=None),
        ),
        ("/v1/explain", {"structured_outputs": {"regex": "a"}, "strict": None}),
        ("/api/generate", {"model": "mini", "prompt": None}),
    ):
        assert client.post(path, json=fields).status_code == 200, path


def test_an_unknown_field_is_unknown_also_without_a_value(client: TestClient) -> None:
    assert refusal(client, colour=None)["param"] == "colour"
    assert refusal(client, messages=None)["param"] == "messages"
    assert refusal(client, query="x")["param"] == "query"
