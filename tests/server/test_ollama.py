"""Ollama's interface: what its own client sends and reads."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from gesso.engine.events import Failed, Finished
from gesso.models.card import ModelCard, Skill
from gesso.text.output import ToolCall
from server.conftest import make_client, running
from server.fake import FakeService, block, logprobs, result

CALL = ToolCall("weather", '{"city": "Köln"}')
WEATHER: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
ASKED: Any = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def scripted() -> Iterator[tuple[FakeService, Any]]:
    """A service that answers as told, and the official client of it."""
    ollama = pytest.importorskip("ollama")
    service = FakeService()
    with running(service) as url, ollama.Client(host=url) as client:
        yield service, client


def ask(client: TestClient, path: str = "/api/chat", **fields: Any) -> dict[str, Any]:
    body = {"model": "mini", "stream": False, **fields}
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    return dict(response.json())


@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded", "text/plain", "application/json"])
@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
def test_curl_need_not_say_that_it_sends_json(client: TestClient, path: str, kind: str | None) -> None:
    asked = {"messages": ASKED} if path == "/api/chat" else {"prompt": "Hi"}
    body = json.dumps({"model": "mini", "stream": False, **asked})
    response = client.post(path, content=body, headers={"Content-Type": kind} if kind else {})
    assert response.status_code == 200, response.text
    assert response.json()["done"] is True


@pytest.mark.parametrize(
    "header", [{"Origin": "https://a.example"}, {"Origin": "null"}, {"Referer": "https://a.example/"}]
    + [{"Sec-Fetch-Site": site} for site in ("cross-site", "same-site", "same-origin", "none")]
    + [{"Sec-Fetch-Mode": "no-cors"}],
)  # fmt: skip
def test_a_page_of_a_stranger_cannot_send_a_form(
    client: TestClient, service: FakeService, header: dict[str, str]
) -> None:
    body = json.dumps({"model": "mini", "messages": ASKED})
    for kind in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}):
        response = client.post("/api/chat", content=body, headers={**header, **kind})
        assert response.status_code == 400
        assert "Content-Type" in response.json()["error"]
    assert not service.requests


def test_a_conversation(client: TestClient, service: FakeService) -> None:
    said = [
        *ASKED,
        {"role": "assistant", "thinking": "Hm.", "tool_calls": [{"function": {"name": "weather", "arguments": {}}}]},
        {"role": "tool", "tool_name": "weather", "content": "rain"},
    ]
    options = {"num_predict": 32, "temperature": 0.5, "seed": 3, "stop": ["x"], "num_ctx": 4096, "repeat_penalty": 1.0}
    answer = ask(client, messages=said, tools=[WEATHER], options=options, keep_alive="5m")
    assert answer["message"] == {"role": "assistant", "content": "Hello there"}
    assert (answer["done"], answer["done_reason"], answer["eval_count"], answer["prompt_eval_count"]) == (
        True,
        "stop",
        3,
        11,
    )
    assert answer["diffusion"]["seed"] == 9
    (request,) = service.requests
    messages: Any = list(request.prompt)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert messages[1]["tool_calls"][0]["function"] == {"name": "weather", "arguments": {}}
    assert {"max_new_tokens": 32, "temperature": 0.5, "seed": 3, "stop": ("x",)}.items() <= request.options.items()


def test_warnings_stand_beside_the_report(client: TestClient, service: FakeService) -> None:
    service.events = [Finished(result(warnings=("odd",)))]
    assert ask(client, messages=ASKED)["warnings"] == ["odd"]


def test_a_stream_of_lines(client: TestClient, service: FakeService) -> None:
    service.events = [block("", "Hm."), block("Hello"), block("", "", [CALL]), Finished(result(finish_reason="length"))]
    response = client.post("/api/chat", json={"model": "mini:latest", "messages": ASKED})
    assert response.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert [line["done"] for line in lines] == [False, False, False, True]
    assert lines[0]["message"]["thinking"] == "Hm."
    assert lines[1]["message"]["content"] == "Hello"
    assert lines[2]["message"]["tool_calls"][0]["function"] == {"name": "weather", "arguments": {"city": "Köln"}}
    assert lines[3]["done_reason"] == "length"
    assert {line["model"] for line in lines} == {"mini:latest"}


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
def test_silence_is_filled_with_empty_lines(
    client: TestClient, service: FakeService, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("gesso.server.ollama.KEEP_ALIVE_SECONDS", 0.01)
    service.events = []

    thread = service.finish_after(0.2)
    asked = {"messages": ASKED} if path == "/api/chat" else {"prompt": "Hi"}
    lines = [json.loads(line) for line in client.post(path, json={"model": "mini", **asked}).text.splitlines()]
    thread.join()
    assert len(lines) > 1
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert {line["message"]["content"] if path == "/api/chat" else line["response"] for line in lines} == {""}


def test_one_prompt(client: TestClient, service: FakeService) -> None:
    assert ask(client, "/api/generate", prompt="Hi", system="Be kind.")["response"] == "Hello there"
    assert ask(client, "/api/generate", prompt="Hi", raw=True, format="json")["response"] == "Hello there"
    templated, raw = service.requests
    assert list(templated.prompt) == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    assert (raw.prompt, raw.options["raw"]) == ("Hi", True)
    assert raw.options["json_schema"] == {"type": "object"}


def test_forms_and_thoughts(client: TestClient, service: FakeService) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    ask(client, messages=ASKED, format=schema, think=True)
    ask(client, messages=ASKED, format="json", think="low")
    ask(client, messages=ASKED, think=False)
    first, second, third = service.requests
    assert first.options["json_schema"] == schema
    assert first.options["thinking"]
    assert second.options["json_object"]
    assert second.options["thinking_share"] < first.options["thinking_share"]
    assert "thinking" not in third.options


def test_a_whole_block_of_options_at_their_neutral_values_is_taken(client: TestClient, service: FakeService) -> None:
    """As clients send it that list all that Ollama has."""
    options = {
        "seed": -1, "min_p": 0.0, "typical_p": 1.0, "tfs_z": 1.0, "mirostat": 0, "mirostat_tau": 5.0,
        "mirostat_eta": 0.1, "repeat_last_n": 64, "repeat_penalty": 1.0, "penalize_newline": True, "numa": False,
        "main_gpu": 0, "low_vram": False, "use_mmap": True, "use_mlock": False, "num_thread": 8,
    }  # fmt: skip
    ask(client, messages=ASKED, options=options)
    (request,) = service.requests
    assert "seed" not in request.options, "another one each time"
    assert not {"repetition_penalty", "penalty_window"} & set(request.options)


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"repeat_penalty": 1.1}, {"repetition_penalty": 1.1, "penalty_window": 64}),
        ({"repeat_penalty": 1.1, "repeat_last_n": 9}, {"repetition_penalty": 1.1, "penalty_window": 9}),
        (
            {"repeat_penalty": 1.0, "presence_penalty": 0.5},
            {"repetition_penalty": 1.0, "presence_penalty": 0.5, "penalty_window": 64},
        ),
        ({"frequency_penalty": 1, "repeat_last_n": -1}, {"frequency_penalty": 1.0}),
        ({"repeat_penalty": 1.1, "repeat_last_n": 0}, {}),
        ({"repeat_penalty": 1.0, "penalize_newline": False}, {}),
        ({"repeat_last_n": 9}, {}),
    ],
)
def test_penalties_look_at_so_many_tokens(
    client: TestClient, service: FakeService, options: dict[str, Any], asked: dict[str, Any]
) -> None:
    names = ("frequency_penalty", "presence_penalty", "repetition_penalty", "penalty_window")
    for path, prompt in (("/api/chat", {"messages": ASKED}), ("/api/generate", {"prompt": "Hi", "raw": True})):
        response = client.post(path, json={"model": "mini", "stream": False, "options": options, **prompt})
        assert response.status_code == 200, response.text
        given = service.requests[-1].options
        assert {name: given[name] for name in names if name in given} == asked


@pytest.mark.parametrize(("path", "asked"), [("/api/chat", {"messages": ASKED}), ("/api/generate", {"prompt": "Hi"})])
def test_a_stream_of_null_is_one_that_was_left_out(client: TestClient, path: str, asked: dict[str, Any]) -> None:
    answers = [client.post(path, json={"model": "mini", **asked, **more}) for more in ({"stream": None}, {})]
    assert {answer.headers["content-type"] for answer in answers} == {"application/x-ndjson"}
    assert len({len(answer.text.splitlines()) for answer in answers}) == 1


@pytest.mark.parametrize("named", [{}, {"name": "weather"}, {"tool_name": "weather"}])
def test_results_belong_to_the_calls_that_wait(client: TestClient, service: FakeService, named: dict[str, str]) -> None:
    called = [{"function": {"name": name, "arguments": {}}} for name in ("weather", "clock")]
    said = [
        *ASKED,
        {"role": "assistant", "tool_calls": called},
        {"role": "tool", "content": "rain", **named},
        {"role": "tool", "content": "noon"},
    ]
    ask(client, messages=said, tools=[WEATHER])
    (request,) = service.requests
    results: Any = [message for message in request.prompt if message["role"] == "tool"]
    assert [result["tool_call_id"] for result in results] == ["weather", "clock"]


def test_the_parts_of_a_duration_are_not_more_than_the_whole(client: TestClient, service: FakeService) -> None:
    service.events = [Finished(result(seconds=0.2, seconds_to_prompt=0.05))]
    answer = ask(client, messages=ASKED)
    assert (answer["prompt_eval_duration"], answer["eval_duration"]) == (50_000_000, 150_000_000)
    assert answer["total_duration"] >= 200_000_000


def test_asking_for_nothing_loads_nothing(client: TestClient, service: FakeService) -> None:
    assert ask(client, messages=[])["done_reason"] == "load"
    assert ask(client, "/api/generate")["done_reason"] == "load"
    assert service.requests == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model": "other"}, "no model 'other'"),
        ({"options": {"mirostat": 1}}, "options.mirostat: only 0: likelihoods are cut by top_p, top_k and min_p"),
        ({"options": {"min_p": 1.1}}, "options.min_p"),
        ({"options": {"seed": -2}}, "options.seed"),
        ({"options": {"grammar": ""}}, "unknown field options.grammar"),
        ({"think": "bogus"}, "think: input should be 'low', 'medium' or 'high'"),
        (
            {"messages": [{"role": "user", "content": "x", "name": "f"}]},
            "name: goes with messages of a tool",
        ),
        ({"options": {"num_ctx": 100_000}}, "options.num_ctx: 100000 is past this server's 4096"),
        ({"options": {"num_predict": 100_000}}, "options.num_predict: 100000 is past this server's 4096"),
        ({"options": {"num_predict": 0}}, "options.num_predict: must be at least 1, or -1"),
        ({"options": {"repeat_penalty": 0}}, "options.repeat_penalty"),
        ({"options": {"repeat_last_n": -2}}, "options.repeat_last_n"),
        (
            {"options": {"penalize_newline": False, "presence_penalty": 1}},
            "newlines are penalised as other tokens are",
        ),
        ({"options": {"repeat_last_n": 2**31}}, "options.repeat_last_n"),
        (
            {"messages": [{"role": "user", "content": "x", "images": ["eA=="]}]},
            "messages[0].images[0]: this model reads text only",
        ),
    ],
)
def test_refusals_are_ollamas(client: TestClient, service: FakeService, fields: Any, said: str) -> None:
    response = client.post("/api/chat", json={"model": "mini", "messages": ASKED, **fields})
    assert response.status_code in (400, 404)
    assert set(response.json()) == {"error"}
    assert said in response.json()["error"]
    assert service.requests == []


# The official client.


def test_sdk(scripted: tuple[FakeService, Any]) -> None:
    import ollama

    service, client = scripted
    service.events = FakeService().events
    assert client.chat(model="mini", messages=ASKED).message.content == "Hello there"
    parts = list(client.chat(model="mini", messages=ASKED, stream=True, options={"seed": 3}))
    assert "".join(part.message.content for part in parts) == "Hello there"
    assert parts[-1].eval_count == 3
    assert client.generate(model="mini", prompt="Hi").response == "Hello there"
    assert [model.model for model in client.list().models] == ["mini:latest", "mini:sudoku"]
    with pytest.raises(ollama.ResponseError, match="no model 'other'"):
        client.chat(model="other", messages=ASKED)
    service.events = [block("Hello"), Failed("timeout", "not finished within 1 seconds")]
    with pytest.raises(ollama.ResponseError, match="not finished"):
        list(client.chat(model="mini", messages=ASKED, stream=True))


def test_sdk_asks_what_there_is(scripted: tuple[FakeService, Any]) -> None:
    import ollama

    _, client = scripted
    shown = client.show("mini")
    assert shown.modelinfo == {"general.architecture": "diffusion_gemma", "diffusion_gemma.context_length": 4096}
    assert "<|turn>" in shown.template
    assert set(shown.capabilities) == {"completion", "insert", "tools", "thinking"}
    assert client.show("mini:latest") == shown
    (loaded, _) = client.ps().models
    assert (loaded.model, loaded.context_length, loaded.expires_at.year) == ("mini:latest", 4096, 9999)
    with pytest.raises(ollama.ResponseError, match="no model 'other'"):
        client.show("other")


def test_a_model_is_said_to_do_what_it_was_trained_to(service: FakeService) -> None:
    skill = Skill("sums", "What is 1 + 1?", 1, 1, 1, 1, 1, 1, "")
    for card, extra in (
        (ModelCard((skill,)), set()),
        (ModelCard((skill,), tool_calls=True), {"tools"}),
        (ModelCard((skill,), thinking=True), {"thinking"}),
    ):
        shown = make_client(service, card=card).post("/api/show", json={"name": "mini"}).json()
        assert set(shown["capabilities"]) == {"completion", "insert"} | extra


@pytest.mark.parametrize("fields", [{}, {"model": "mini", "name": "mini:sudoku"}, {"model": "mini", "system": "x"}])
def test_what_cannot_be_shown(client: TestClient, fields: dict[str, Any]) -> None:
    response = client.post("/api/show", json=fields)
    assert response.status_code == 400
    assert set(response.json()) == {"error"}


def test_sdk_tools(scripted: tuple[FakeService, Any]) -> None:
    service, client = scripted
    service.events = [block("", "", [CALL]), Finished(result(text="", tool_calls=(CALL,)))]
    first = client.chat(model="mini", messages=ASKED, tools=[WEATHER])
    (call,) = first.message.tool_calls
    assert (call.function.name, call.function.arguments) == ("weather", {"city": "Köln"})
    service.events = FakeService().events
    said = [*ASKED, first.message, {"role": "tool", "tool_name": "weather", "content": "rain"}]
    assert client.chat(model="mini", messages=said, tools=[WEATHER]).message.content == "Hello there"


def test_log_probabilities(scripted: tuple[FakeService, Any]) -> None:
    service, client = scripted
    whole = result(text="fig", logprobs=logprobs("fig"))
    service.events = [block("fig", logprobs=logprobs("fig")), Finished(whole)]
    told = client.chat("mini", messages=ASKED, logprobs=True, top_logprobs=2)
    assert service.requests[-1].options["logprobs"] == 2
    assert "".join(token.token for token in told.logprobs) == "fig"
    assert told.logprobs[0].top_logprobs[0].token == logprobs("fig")[0].top[0][1]
    lines = list(client.chat("mini", messages=ASKED, logprobs=True, stream=True))
    assert service.requests[-1].options["logprobs"] == 0
    assert lines[0].logprobs == told.logprobs
    assert lines[-1].logprobs is None
    raw = client.generate("mini", "Hi", raw=True, logprobs=True, top_logprobs=1)
    assert service.requests[-1].options["logprobs"] == 1
    assert raw.logprobs == told.logprobs
    service.events = FakeService().events
    assert client.generate("mini", "Hi").logprobs is None


def test_log_probabilities_that_cannot_be(client: TestClient) -> None:
    def refused(path: str, **fields: Any) -> str:
        response = client.post(path, json={"model": "mini", **fields})
        assert response.status_code == 400
        return str(response.json()["error"])

    assert "needs logprobs: true" in refused("/api/chat", messages=ASKED, top_logprobs=2)
    assert "20" in refused("/api/chat", messages=ASKED, logprobs=True, top_logprobs=21)
    assert "suffix" in refused("/api/generate", prompt="a", suffix="b", logprobs=True)
    said = refused("/api/generate", prompt="a", suffix="b", options={"repeat_penalty": 1.1})
    assert said.startswith("options: penalties do not go with suffix")


def test_what_clients_of_before_send_is_taken(client: TestClient, service: FakeService) -> None:
    ask(client, "/api/generate", prompt="Hi", context=[], options={"num_predict": -2})
    assert "max_new_tokens" not in service.requests[-1].options
