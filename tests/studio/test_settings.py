"""Settings come from the server's table; a link holds them; a request can be taken elsewhere as code."""

import contextlib
import io
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from server.fake import FakeService

from studio.conftest import OpenPage, ask, expect, ready


def settings(page: Any) -> None:
    page.locator("#settings > summary").click()


def test_every_setting_has_its_bounds_unit_default_and_help(open_page: OpenPage, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    settings(page)
    bound = page.get_by_label("entropy bound (nats)")
    expect(bound).to_have_attribute("placeholder", "0.1")
    expect(page.locator("#option-entropy_bound-help")).to_contain_text("Joint uncertainty", use_inner_text=True)
    expect(page.locator("#option-entropy_bound-help")).to_contain_text(
        "at least 0; of the sampler entropy_bound", use_inner_text=True
    )
    expect(page.locator("#option-top_p-help")).to_contain_text("above 0, at most 1", use_inner_text=True)
    assert page.get_by_label("mode", exact=True).locator("option").all_inner_texts() == [
        "default: canvas",
        "canvas",
        "ar",
        "auto",
    ]
    expect(page.get_by_label("canvas length (tokens)")).to_have_attribute("placeholder", "the model's")


def test_what_is_set_is_sent_and_the_rest_is_the_servers(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    page = ready(open_page(fake_url))
    settings(page)
    page.get_by_label("System prompt").fill("Be brief.")
    page.get_by_label("seed").fill("5")
    page.get_by_label("top p").fill("0.5")
    page.get_by_label("entropy bound (nats)").fill("0.02")
    page.get_by_label("verify (rounds)").fill("auto")
    page.get_by_label("stop at end").select_option("on")
    page.get_by_label("stop", exact=True).fill("one\ntwo")
    page.get_by_label("logit bias").fill('{"5": -1}')
    page.get_by_label("thinking", exact=True).select_option("on")
    ask(page, "x")
    (request,) = service.requests
    assert request.prompt[0] == {"role": "system", "content": "Be brief."}
    given = dict(request.options)
    assert given.pop("thinking_share") > 0
    assert given == {
        "seed": 5, "top_p": 0.5, "entropy_bound": 0.02, "verify": "auto", "stop_at_end": True, "stop": ("one", "two"),
        "logit_bias": {5: -1.0}, "thinking": True,
    }  # fmt: skip


WRONG = (
    ("top p", "0", "top_p must be a number, above 0, at most 1"),
    ("top p", "x", "top_p must be a number"),
    ("seed", "1.5", "seed must be a whole number, at least 0"),
    ("verify (rounds)", "9", "verify must be auto or a whole number"),
    ("logit bias", "{", "logit_bias must be JSON"),
)


def test_a_wrong_setting_is_told_at_its_field_and_nothing_is_sent(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    page = ready(open_page(fake_url))
    settings(page)
    message = page.get_by_label("Your message")
    message.fill("kept")
    for label, text, told in WRONG:
        field = page.get_by_label(label, exact=label == "seed")
        field.fill(text)
        page.locator(".error", has_text=told).wait_for()
        expect(field).to_have_attribute("aria-invalid", "true")
        message.press("Enter")
        page.locator("#alert", has_text=told).wait_for()
        expect(message).to_have_value("kept")
        field.fill("")
        expect(page.locator(".error", has_text=told)).to_have_count(0)
    assert service.requests == []


def test_a_preset_sets_and_unsets(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    settings(page)
    page.get_by_label("seed").fill("5")
    page.get_by_label("top p").fill("0.5")
    typed = {"seed": 5, "top_p": 0.5}
    for preset, options in (
        ("Token by token", {"mode": "ar"}),
        ("Likeliest tokens", {"temperature": 0}),
        ("The model's own", {}),
    ):
        page.get_by_label("Preset").select_option(preset)
        ask(page, "x")
        assert service.requests[-1].options == {**typed, **options}, preset
    page.get_by_label("temperature", exact=True).fill("0.5")
    page.get_by_label("Preset").select_option("The model's own")
    expect(page.get_by_label("temperature", exact=True)).to_have_value("")


def test_a_link_holds_prompt_and_settings(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    settings(page)
    page.get_by_label("Your message").fill("a & b = c # d")
    page.get_by_label("System prompt").fill("Be brief.")
    page.get_by_label("seed").fill("5")
    page.get_by_label("Model").select_option("mini:sudoku")
    page.get_by_role("button", name="Link").click()
    assert urlsplit(page.url).query == ""
    assert parse_qs(urlsplit(page.url).fragment) == {
        "prompt": ["a & b = c # d"], "system": ["Be brief."], "model": ["mini:sudoku"], "set.seed": ["5"],
    }  # fmt: skip
    other = ready(open_page(page.url))
    ask(other, other.get_by_label("Your message").input_value())
    (request,) = service.requests
    assert [message["content"] for message in request.prompt] == ["Be brief.", "a & b = c # d"]
    assert (request.options, request.adapter) == ({"seed": 5}, "sudoku")


def test_a_link_that_is_opened_in_the_same_tab_is_taken(open_page: OpenPage, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    settings(page)
    page.get_by_label("seed").fill("5")
    page.get_by_label("Your message").fill("mine")
    page.evaluate("location.hash = '#prompt'")  # the link that skips to the message
    page.evaluate("location.hash = '#prompt=theirs&model=mini%3Asudoku&set.top_p=0.5'")
    expect(page.get_by_label("Your message")).to_have_value("theirs")
    expect(page.get_by_label("Model")).to_have_value("mini:sudoku")
    expect(page.get_by_label("seed")).to_have_value("")
    expect(page.get_by_label("top p")).to_have_value("0.5")
    page.go_back()
    page.wait_for_function("location.hash === '#prompt'")
    expect(page.get_by_label("Your message")).to_have_value("theirs")


def test_going_back_to_a_link_leaves_what_was_changed_since(open_page: OpenPage, fake_url: str) -> None:
    page = ready(open_page(f"{fake_url}/#prompt=first&set.top_p=0.5&set.seed=1"))
    settings(page)
    page.evaluate("location.hash = '#elsewhere'")
    page.get_by_label("Your message").fill("typed since")
    page.get_by_label("seed").fill("2")
    page.go_back()
    page.locator("#announcements", has_text="link opened").wait_for()
    expect(page.get_by_label("Your message")).to_have_value("typed since")
    expect(page.get_by_label("seed")).to_have_value("2")
    expect(page.get_by_label("top p")).to_have_value("0.5")


def test_a_key_that_is_asked_for_later_leaves_what_is_chosen(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    page = ready(open_page(f"{fake_url}/#set.seed=5&model=mini", expected=("Failed to load resource",)))
    settings(page)
    page.locator("#option-seed").fill("6")
    page.get_by_label("top p").fill("0.5")
    page.get_by_label("Model").select_option("mini:sudoku")
    body = json.dumps({"error": {"message": "a key, please", "code": "invalid_api_key"}})
    page.route(
        "**/v1/chat/completions", lambda route: route.fulfill(status=401, content_type="application/json", body=body)
    )
    ask(page, "x")
    page.unroute("**/v1/chat/completions")
    page.locator("#option-seed").evaluate("field => field.setAttribute('data-before', '')")
    page.get_by_label("Key of the server").fill("a-secret")
    page.locator("#key-dialog").get_by_role("button", name="Use").click()
    page.locator("#option-seed[data-before]").wait_for(state="detached")  # the form is made anew
    ask(page, "y")
    (request,) = service.requests
    assert (request.options, request.adapter) == ({"seed": 6, "top_p": 0.5}, "sudoku")


QUESTION = "What is 'é' or 481 + 296?\n\"\U0001f600\" $HOME `x` \\n"


def test_the_request_runs_as_python_and_as_curl(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    openai = pytest.importorskip("openai")
    page = ready(open_page(f"{fake_url}/#set.seed=7&set.diffusion.entropy_bound=0.05&set.diffusion.stop_at_end=on"))
    page.get_by_label("Your message").fill(QUESTION)
    page.get_by_role("button", name="Request as code").click()
    curl, python = page.locator("#request-dialog pre").evaluate_all("parts => parts.map(part => part.textContent)")
    page.get_by_role("button", name="Close").click()
    ask(page, QUESTION)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(python, {"openai": openai})  # noqa: S102
    assert printed.getvalue() == "Hello there\n"
    if shutil.which("curl"):
        done = subprocess.run(["bash", "-c", curl], capture_output=True, text=True, check=True, timeout=60)
        assert "Hello there" in done.stdout
        assert not re.search("error", done.stdout)
    first, *others = service.requests
    for other in others:
        assert (other.prompt, other.options) == (first.prompt, first.options)


@contextlib.contextmanager
def restarted_with(page: Any, name: str) -> Iterator[None]:
    """The page's server as if it had been started anew with another model."""
    gone = {"message": "There is no model mini.", "code": "model_not_found", "param": "model"}

    def answer(route: Any) -> None:
        if route.request.post_data_json["model"] == name:
            route.fulfill(status=503, json={"error": {"message": f"{name} was asked"}})
        else:
            route.fulfill(status=404, json={"error": gone})

    page.route("**/v1/models", lambda route: route.fulfill(json={"data": [{"id": name, "special_token_ids": []}]}))
    page.route("**/v1/chat/completions", answer)
    yield
    page.unroute_all()


def test_a_server_that_has_another_model_now_is_asked_what_it_has(open_page: OpenPage, fake_url: str) -> None:
    page = ready(open_page(fake_url, expected=("Failed to load resource",)))
    alert = page.locator("#alert")
    with restarted_with(page, "other"):
        ask(page, "x")
        expect(alert).to_contain_text("There is no model mini. Chosen now: other.")
        expect(page.get_by_label("Model")).to_have_value("other")
        ask(page, "y")
        expect(alert).to_contain_text("other was asked")


def test_after_a_cut_connection_the_models_are_asked_for_again(open_page: OpenPage, fake_url: str) -> None:
    page = ready(open_page(fake_url, expected=("Failed to load resource",)))
    page.get_by_role("button", name="Structure").click()
    page.route("**/v1/chat/completions", lambda route: route.abort())
    page.get_by_role("button", name="Ask").click()
    page.locator("#alert", has_text="was cut").wait_for()
    with restarted_with(page, "other"):
        page.get_by_role("button", name="Try again").click()
        page.locator("#alert", has_text="other was asked").wait_for()


def test_an_answer_that_is_no_json_is_told(open_page: OpenPage, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    page.route("**/props", lambda route: route.fulfill(body="<!doctype html><p>Sign in", content_type="text/html"))
    page.reload()
    alert = page.locator("#alert", has_text="What was answered is no JSON.")
    alert.wait_for()
    page.unroute_all()
    alert.get_by_role("button", name="Try again").click()
    ready(page)


def test_what_is_typed_and_set_outlives_a_reload_and_another_page(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    page = ready(open_page(f"{fake_url}/#set.seed=3&prompt=of%20the%20link"))
    settings(page)
    page.get_by_label("System prompt").fill("Be brief.")
    page.get_by_label("seed").fill("")
    page.get_by_label("top p").fill("0.5")
    page.get_by_label("Your message").fill("typed")
    for leave in (page.reload, lambda: (page.goto("about:blank"), page.go_back())):
        leave()
        expect(ready(page).get_by_label("Your message")).to_have_value("typed")
    ask(page, "one")
    assert service.requests[-1].prompt[0] == {"role": "system", "content": "Be brief."}
    assert service.requests[-1].options["top_p"] == 0.5
    assert "seed" not in service.requests[-1].options
    page.reload()
    expect(ready(page).get_by_label("Your message")).to_have_value("")

    page.goto("about:blank")  # a link is for the first time, and so is another one
    page.goto(f"{fake_url}/#set.seed=4")
    ready(page)
    ask(page, "two")
    assert service.requests[-1].options["seed"] == 4
    assert "top_p" not in service.requests[-1].options
    assert service.requests[-1].prompt[0]["content"] == "one"


def test_what_a_tab_kept_is_left_alone_while_the_server_is_away(open_page: OpenPage, fake_url: str) -> None:
    page = ready(open_page(f"{fake_url}/#set.seed=3", expected=("Failed to load resource",)))
    settings(page)
    page.get_by_label("seed").fill("5")
    page.route("**/v1/options", lambda route: route.abort())
    page.reload()
    page.locator("#alert", has_text="was cut").wait_for()
    page.unroute_all()
    page.reload()
    expect(ready(page).locator("#option-seed")).to_have_value("5")
