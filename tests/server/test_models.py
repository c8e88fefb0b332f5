"""What the server tells of a model: examples and limits, and what of a prompt it was not trained on."""

from dataclasses import replace
from typing import Any

import httpx
import pytest

from gesso.models.card import ModelCard, Skill
from server.conftest import running
from server.fake import FakeService

WORDING = r"What is \d+ \+ \d+\?"
SKILLS = tuple(
    Skill("sums", text, 1, 1, 1, 1, 1, 1, "", whole) for text, whole in (("What is 1 + 1?", True), ("a file", False))
)
CARD = ModelCard(SKILLS, limits="It knows sums.", wordings=(WORDING,))


def asked(url: str, content: Any, **more: Any) -> httpx.Response:
    body = {"model": "mini", "messages": [{"role": "user", "content": content}], **more}
    return httpx.post(f"{url}/v1/chat/completions", json=body)


def test_a_model_is_listed_with_prompts_to_try_and_its_limits(service: FakeService) -> None:
    with running(service, card=CARD) as url:
        listed, *adapters = httpx.get(f"{url}/v1/models").json()["data"]
        assert httpx.get(f"{url}/v1/models/mini").json() == listed
    assert (listed["examples"], listed["limits"]) == (["What is 1 + 1?"], "It knows sums.")
    assert all((adapter["examples"], adapter["limits"]) == ([], "") for adapter in adapters)


def test_nothing_is_said_of_a_model_that_nobody_measured(service: FakeService) -> None:
    with running(service) as url:
        listed = httpx.get(f"{url}/v1/models/mini").json()
        assert (listed["examples"], listed["limits"]) == ([], "")
        assert "warnings" not in asked(url, "grelt").json()["choices"][0]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("What is 481 + 296?", ""),
        ([{"type": "text", "text": "What is 481 + 296?"}], ""),
        ([{"type": "text", "text": "What is 481 "}, {"type": "text", "text": "+ 296?"}], ""),
        ("What is 481 - 296?", "was not trained on this wording"),
        ("What is grelt?", "has no tokens for these words: grelt"),
    ],
)
def test_an_answer_says_what_of_its_prompt_was_not_trained_on(service: FakeService, content: Any, told: str) -> None:
    warnings = [f"mini {told}, so its answer is a guess: /v1/models has examples"] if told else []
    with running(service, card=CARD) as url:
        choices = asked(url, content, n=2).json()["choices"]
        assert [choice.get("warnings", []) for choice in choices] == [warnings, warnings]
        last = asked(url, content, stream=True).text.split("\n\n")[-3]
        assert bool(told) == (f'"warnings":["mini {told}' in last)


def test_the_last_question_of_a_conversation_is_judged(service: FakeService) -> None:
    messages = [{"role": role, "content": text} for role, text in (("user", "What is 481 + 296?"), ("assistant", "7"))]
    hints = {
        "grelt": ("has no tokens", "has examples"),
        "What is 1 + 1?": ("was trained on single", "a new conversation"),
    }
    for question, (told, hint) in hints.items():
        with running(service, card=CARD) as url:
            asked = {"model": "mini", "messages": [*messages, {"role": "user", "content": question}]}
            (choice,) = httpx.post(f"{url}/v1/chat/completions", json=asked).json()["choices"]
        (warning,) = choice["warnings"]
        assert warning.startswith(f"mini {told}")
        assert warning.endswith(hint)


@pytest.mark.parametrize("role", ["user", "system"])
def test_an_answer_says_that_names_of_participants_are_not_told(service: FakeService, role: str) -> None:
    messages = [{"role": role, "content": "Hi", "name": "Ann"}, {"role": "user", "content": "Hi"}]
    told = ["mini is not told the names of participants: its chat template has no place for them"]
    with running(service) as url:
        (choice,) = httpx.post(f"{url}/v1/chat/completions", json={"model": "mini", "messages": messages}).json()[
            "choices"
        ]
    assert choice["warnings"] == told


def test_an_answer_says_that_its_model_was_not_trained_to_think(service: FakeService) -> None:
    card = replace(CARD, wordings=())
    body = {"model": "mini", "messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": "low"}
    for given, told in ((card, True), (replace(card, thinking=True), False), (ModelCard(), False)):
        with running(service, card=given) as url:
            (choice,) = httpx.post(f"{url}/v1/chat/completions", json=body).json()["choices"]
        assert choice.get("warnings", []) == told * ["mini was not trained to think, so its answer may be empty"]
