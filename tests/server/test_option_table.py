"""`GET /v1/options`: the table of options, whole and true, for whoever builds a form of it."""

from starlette.testclient import TestClient

from gesso.generation import engine_options
from server.conftest import ask, refusal
from server.fake import FakeService


def test_every_option_that_a_request_has_a_field_for_is_there(client: TestClient) -> None:
    body = client.get("/v1/options").json()
    assert body["object"] == "list"
    assert [card["name"] for card in body["data"]] == [row.name for row in engine_options().values() if row.field]
    for card in body["data"]:
        assert card["help"]
        assert card["group"]
        assert card["field"]
        assert "default" in card


def test_kinds_bounds_and_units(client: TestClient) -> None:
    cards = {card["name"]: card for card in client.get("/v1/options").json()["data"]}
    top_p = cards["top_p"]
    assert (top_p["type"], top_p["above"], top_p["maximum"], top_p["field"]) == ("number", 0, 1, "top_p")
    assert "minimum" not in top_p
    bound = cards["entropy_bound"]
    assert (bound["unit"], bound["field"]) == ("nats", "diffusion.entropy_bound")
    assert bound["owner"].startswith("sampler entropy_bound")
    assert (cards["mode"]["type"], cards["mode"]["words"]) == ("choice", ["canvas", "ar", "auto"])
    verify = cards["verify"]
    assert (verify["type"], verify["words"], verify["maximum"]) == ("integer_or_word", ["auto", "exact"], 8)
    assert (cards["canvas_length"]["default"], cards["canvas_length"]["unset"]) == (None, "the model's")
    kinds = {name: cards[name]["type"] for name in ("sampler", "ignore_eos", "stop", "regex", "start_canvas", "seed")}
    assert kinds == {
        "sampler": "choice", "ignore_eos": "switch", "stop": "texts", "regex": "text", "start_canvas": "json",
        "seed": "integer",
    }  # fmt: skip


def test_defaults_are_those_of_this_server(client: TestClient, service: FakeService) -> None:
    service.engine.defaults = service.engine.defaults.override(entropy_bound=0.3, max_new_tokens=77)
    cards = {card["name"]: card["default"] for card in client.get("/v1/options").json()["data"]}
    assert (cards["entropy_bound"], cards["max_new_tokens"]) == (0.3, 77)


def test_fields_of_the_table_are_taken_by_requests(client: TestClient, service: FakeService) -> None:
    """A number at its bounds is taken under the path that the table names, and refused by that path beyond them."""
    for card in client.get("/v1/options").json()["data"]:
        if card["type"] in ("integer", "number") and "maximum" in card and card["name"] != "logprobs":
            *objects, last = card["field"].split(".")
            largest = (int if card["type"] == "integer" else float)(card["maximum"])
            value, beyond = {last: largest}, {last: largest + 1}
            for name in reversed(objects):
                value, beyond = {name: value}, {name: beyond}
            ask(client, **value)
            assert service.requests[-1].options[card["name"]] == largest
            assert refusal(client, **beyond)["param"] == card["field"]
