"""Conversations: several turns, stop, retry, edit, with the bundled model; and what is said when something fails."""

from dataclasses import replace
from typing import Any

import pytest
from server.conftest import running
from server.fake import FakeService, block, frame, result

from gesso.engine.events import Finished
from gesso.errors import QueueFullError
from gesso.models.card import ModelCard, Skill
from studio.conftest import OpenPage, ask, expect, ready

QUESTION = "What is 481 + 296?"


def answers(page: Any) -> list[str]:
    return list(page.locator(".turn.assistant .answer").all_inner_texts())


def test_an_answer_of_the_model_with_its_canvas(open_page: OpenPage, mini_url: str) -> None:
    page = ready(open_page(mini_url))
    answer = ask(page, QUESTION)
    expect(answer).to_contain_text("777", use_inner_text=True)
    expect(answer).to_contain_text("saved", use_inner_text=True)
    expect(page.locator(".cell[id]")).to_have_count(32)
    figures = page.locator(".figures").inner_text()
    for name in ("Step", "Temperature", "Mean entropy", "Accepted", "Tokens/s", "Passes"):
        assert name in figures
    expect(page.get_by_label("Your message")).to_have_value("")


def test_examples_stand_there_until_something_is_said(open_page: OpenPage, service: FakeService) -> None:
    skills = [Skill("sums", text, 1, 1, 1, 1, 1, 1, "", whole) for text, whole in ((QUESTION, True), ("a file", False))]
    card = ModelCard((*skills,), limits="It knows sums.", wordings=(r"What is \d+ \+ \d+\?",))
    with running(service, card=card) as url:
        page = ready(open_page(url))
        examples = page.get_by_role("region", name="Examples")
        assert examples.get_by_role("button").all_inner_texts() == [QUESTION]
        expect(examples).to_contain_text("It knows sums.")
        examples.get_by_role("button", name=QUESTION).click()
        expect(page.get_by_label("Your message")).to_have_value(QUESTION)
        page.get_by_label("Your message").press("Enter")
        expect(page.get_by_text("Hello there")).to_be_visible()
        expect(examples).to_be_hidden()
        expect(page.locator(".turn .warning")).to_have_count(0)
        told = ask(page, "What is 481 - 296?").locator(".warning")
        expect(told).to_have_text(
            "mini was not trained on this wording, so its answer is a guess: /v1/models has examples"
        )


def test_a_new_conversation_keeps_the_settings_and_can_be_taken_back(open_page: OpenPage, service: FakeService) -> None:
    card = ModelCard((Skill("sums", QUESTION, 1, 1, 1, 1, 1, 1, "", True),), wordings=(r".*",))
    with running(service, card=card) as url:
        page = ready(open_page(f"{url}/#set.seed=3"))
        new = page.get_by_role("button", name="New conversation")
        back = page.get_by_role("button", name="Back to the last conversation")
        examples = page.get_by_role("region", name="Examples")
        expect(new).to_be_hidden()
        ask(page, "one")
        new.click()
        expect(page.locator(".turn")).to_have_count(0)
        expect(examples).to_be_visible()
        expect(page.get_by_label("Start from the last answer")).to_be_hidden()
        back.click()
        assert page.locator(".turn.user .said").all_inner_texts() == ["one"]
        expect(examples).to_be_hidden()
        new.click()
        ask(page, "two")
        assert [message["content"] for message in service.requests[-1].prompt] == ["two"]
        assert service.requests[-1].options["seed"] == 3
        expect(new).to_be_visible()
        expect(back).to_be_hidden()


def test_a_conversation_outlives_a_reload_and_another_page(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    page = ready(open_page(fake_url))
    service.events = [frame(1), *service.events]
    ask(page, "one")
    page.get_by_role("button", name="Retry, other seed").click()
    page.get_by_text("2 of 2").wait_for()
    page.locator('[data-state="running"]').wait_for(state="detached")
    for leave in (page.reload, lambda: (page.goto("about:blank"), page.go_back())):
        leave()
        ready(page)
        assert page.locator(".turn.user .said").all_inner_texts() == ["one"]
        assert answers(page) == ["Hello there"]
        expect(page.get_by_text("2 of 2")).to_be_visible()
        expect(page.get_by_role("region", name="Examples")).to_be_hidden()
    expect(page.get_by_role("button", name="Save trace")).to_be_hidden()
    page.get_by_role("button", name="Canvas").click()
    expect(page.get_by_text("were let go to save memory")).to_be_visible()
    ask(page, "two")
    assert [message["content"] for message in service.requests[-1].prompt] == ["one", "Hello there", "two"]
    page.get_by_role("button", name="New conversation").click()
    page.reload()
    expect(ready(page).locator(".turn")).to_have_count(0)


def test_an_answer_that_a_reload_cut_off_was_stopped(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    service.events = [block("Hello")]
    page.get_by_label("Your message").fill("one")
    page.get_by_label("Your message").press("Enter")
    page.get_by_text("Hello").wait_for()
    page.reload()
    expect(ready(page).get_by_text("Stopped: the answer ends here, unfinished.")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()


def test_several_turns_retry_and_edit(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    for text in ("one", "two"):
        ask(page, text)
    said = [message["content"] for message in service.requests[-1].prompt]
    assert said == ["one", "Hello there", "two"]

    page.get_by_role("button", name="Retry, same seed").last.click()
    page.get_by_text("2 of 2").wait_for()
    page.locator('[data-state="running"]').wait_for(state="detached")
    assert [message["content"] for message in service.requests[-1].prompt] == said
    assert service.requests[-1].options["seed"] == 9
    page.get_by_role("button", name="Retry, other seed").last.click()
    page.get_by_text("3 of 3").wait_for()
    page.locator('[data-state="running"]').wait_for(state="detached")
    assert "seed" not in service.requests[-1].options
    page.get_by_role("button", name="Earlier answer").click()
    page.get_by_text("2 of 3").wait_for()

    page.get_by_role("button", name="Edit", exact=True).first.click()
    page.get_by_text("2 later messages will go.").wait_for()
    page.get_by_label("Your message").first.fill("uno")
    page.get_by_label("Your message").first.press("Enter")
    page.locator(".turn").nth(2).wait_for(state="detached")
    page.locator('[data-state="running"]').wait_for(state="detached")
    assert [message["content"] for message in service.requests[-1].prompt] == ["uno"]
    assert page.locator(".turn.user .said").all_inner_texts() == ["uno"]


def finished(page: Any, count: int) -> None:
    """Waits until the conversation has so many turns, none of which is being written."""
    expect(page.locator(".turn")).to_have_count(count)
    page.locator('[data-state="running"]').wait_for(state="detached")


def test_another_answer_in_the_middle_says_first_what_will_go(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    early = frame(1)
    service.events = [replace(early, canvas_tokens=early.tokens), block("one"), Finished(result())]
    page = ready(open_page(fake_url))
    for text in ("a", "b", "c"):
        ask(page, text)
    told = page.get_by_text("2 later messages will go.")
    answer = page.locator(".turn.assistant").nth(1)
    answer.get_by_role("button", name="Retry, other seed").click()
    expect(told).to_be_visible()
    expect(answer.get_by_role("button", name="Retry")).to_be_focused()
    answer.get_by_role("button", name="Cancel").click()
    expect(told).to_be_hidden()
    finished(page, 6)
    assert len(service.requests) == 3

    answer.get_by_role("button", name="Canvas").click()
    page.locator("#cell-0").click()
    page.get_by_role("button", name="Go on from step 1").click()
    expect(told).to_be_visible()
    finished(page, 6)
    answer.get_by_role("button", name="Go on").click()
    finished(page, 4)
    expect(answer.get_by_text("2 of 2")).to_be_visible()
    page.get_by_role("button", name="Retry, same seed").last.click()  # nothing comes after it
    expect(answer.get_by_text("3 of 3")).to_be_visible()


def test_stop_and_the_message_stay_in_view_below_a_growing_answer(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    page = ready(open_page(fake_url))
    stop = page.locator("#stop")
    service.events = [block("long\n\n" * 60)]
    page.get_by_label("Your message").fill("first")
    page.get_by_label("Your message").press("Enter")
    expect(page.get_by_text("long", exact=True)).to_have_count(60)
    expect(stop).to_be_in_viewport(ratio=1)
    service.tickets[-1].send(block("more\n\n" * 60))
    expect(page.get_by_text("more", exact=True)).to_have_count(60)
    expect(stop).to_be_in_viewport(ratio=1)
    page.evaluate("scrollTo(0, 0)")  # to read from the beginning on
    service.tickets[-1].send(block("most\n\n" * 60))
    expect(page.get_by_text("most", exact=True)).to_have_count(60)
    assert page.evaluate("scrollY") == 0
    page.locator("#composer").scroll_into_view_if_needed()
    service.tickets[-1].send(Finished(result()))
    expect(page.get_by_role("button", name="Send")).to_be_in_viewport(ratio=1)
    expect(page.get_by_label("Start from the last answer")).to_be_in_viewport(ratio=1)


def test_what_is_typed_in_an_earlier_message_stays(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    ask(page, "one")
    page.get_by_role("button", name="Edit", exact=True).click()
    edited = page.locator(".turn textarea")
    edited.fill("eins")
    service.events = [block("the beginning")]
    page.get_by_label("Your message").last.fill("two")
    page.locator("#send").click()
    page.get_by_text("the beginning").wait_for()
    expect(edited).to_have_value("eins")
    edited.press("Enter")
    page.locator("#alert", has_text="An answer is being written: stop it first.").wait_for()
    expect(edited).to_have_value("eins")
    page.locator("#stop").click()
    page.get_by_text("Stopped: the answer ends here").wait_for()
    expect(edited).to_have_value("eins")
    service.events = [block("a whole one"), Finished(result())]
    edited.press("Enter")
    expect(edited).to_have_count(0)
    finished(page, 2)
    assert page.locator(".turn.user .said").all_inner_texts() == ["eins"]


def test_stop_ends_the_request_and_keeps_what_is_there(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    service.events = [frame(1), block("the beginning")]
    page = ready(open_page(fake_url))
    page.get_by_label("Your message").fill("go on for ever")
    page.get_by_label("Your message").press("Enter")
    page.get_by_text("the beginning").wait_for()
    page.locator("#stop").click()
    page.get_by_text("Stopped: the answer ends here").wait_for()
    assert service.tickets[0].cancelled.wait(30)
    assert "the beginning" in answers(page)[0]
    service.events = [block("a whole one"), Finished(result())]
    expect(ask(page, "again")).to_contain_text("a whole one", use_inner_text=True)


def test_reasoning_is_folded_and_calls_shown(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    service.events = [block("answer", "a thought"), Finished(result())]
    page = ready(open_page(fake_url))
    answer = ask(page, "think")
    expect(answer.get_by_text("a thought")).to_be_hidden()
    answer.get_by_text("Reasoning").click()
    expect(answer.get_by_text("a thought")).to_be_visible()
    ask(page, "more")
    expect(page.get_by_text("a thought").first).to_be_visible()
    expect(page.get_by_text("a thought").last).to_be_hidden()


FAILED = ("Failed to load resource",)


def test_a_full_queue_says_so_and_a_second_try_answers(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    page = ready(open_page(fake_url, expected=FAILED))
    service.error = QueueFullError("64 requests wait already", 2.0)
    ask(page, "keep me")
    alert = page.locator("#alert")
    expect(alert).to_contain_text("64 requests wait already. Try again in 2 s.", use_inner_text=True)
    assert page.locator(".turn.user").inner_text().count("keep me") == 1
    service.error = None
    alert.get_by_role("button", name="Try again").click()
    page.locator('.turn.assistant[data-state="done"]').wait_for()
    expect(page.locator(".turn")).to_have_count(2)


def test_a_server_that_is_gone_loses_nothing(open_page: OpenPage) -> None:
    service = FakeService()
    with running(service) as url:
        page = ready(open_page(url, expected=("net::ERR",)))
        ask(page, "before")
    answer = ask(page, "after")
    expect(answer).to_contain_text("The connection to the server was cut", use_inner_text=True)
    assert page.locator(".turn.user .said").all_inner_texts() == ["before", "after"]
    assert "Hello there" in answers(page)[0]


def test_a_connection_that_is_cut_and_a_server_that_begins_anew(open_page: OpenPage) -> None:
    """What came stays, and the same page goes on with the server that is there then."""
    service = FakeService()
    service.events = [frame(1), block("the beginning")]
    with running(service) as url:
        page = ready(open_page(url, expected=("net::ERR", *FAILED)))
        page.get_by_label("Your message").fill("go on")
        page.get_by_label("Your message").press("Enter")
        page.get_by_text("the beginning").wait_for()
    page.locator('.turn.assistant[data-state="failed"]').wait_for()
    assert "the beginning" in answers(page)[0]
    expect(page.locator("#alert")).to_be_visible()
    with running(FakeService()) as other:
        page.route("**/*", lambda route: route.continue_(url=route.request.url.replace(url, other)))
        page.locator("#alert").get_by_role("button", name="Try again").click()
        page.locator('.turn.assistant[data-state="done"]').wait_for()
        assert "Hello there" in answers(page)[0]
        expect(page.locator(".turn.assistant")).to_contain_text("2 of 2", use_inner_text=True)
        page.unroute_all(behavior="wait")


def test_a_fence_may_name_any_language(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    names = ("constructor", "__proto__", "toString", "python")
    service.events = [block("\n\n".join(f"```{name}\nreturn 1\n```" for name in names)), Finished(result())]
    page = ready(open_page(fake_url))
    code = ask(page, "code, please").locator("pre code")
    assert code.all_inner_texts() == ["return 1"] * len(names)
    expect(code.locator(".code-keyword")).to_have_count(1)
    ask(page, "more, please")
    assert len(service.requests) == 2


def test_an_answer_that_cannot_be_read_leaves_the_chat_free(open_page: OpenPage, fake_url: str) -> None:
    page = ready(open_page(fake_url, expected=("JSON",)))
    broken = {"status": 200, "content_type": "text/event-stream", "body": "data: {\n\n"}
    page.route("**/v1/chat/completions", lambda route: route.fulfill(**broken))
    expect(ask(page, "one")).to_have_attribute("data-state", "failed")
    page.unroute("**/v1/chat/completions")
    expect(ask(page, "two")).to_contain_text("Hello there", use_inner_text=True)


PASTE = """lines => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text", "line\\n".repeat(lines));
    const paste = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
    return document.getElementById("prompt").dispatchEvent(paste);
}"""


def test_a_text_that_is_too_long_is_told_and_nothing_is_lost(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    page = ready(open_page(fake_url))
    page.get_by_label("Your message").fill("kept")
    assert page.evaluate(PASTE, 10) is True, "the browser itself pastes what is short"
    assert page.evaluate(PASTE, 1_000_000) is False
    page.get_by_text("A text of 5,000,000 characters was not pasted: this field takes 1,000,000.").wait_for()
    expect(page.get_by_label("Your message")).to_have_value("kept")
    sent = "import('/studio/api/http.js').then(m => m.encoded({ x: 'x'.repeat(5e6) })).catch(error => error.message)"
    assert page.evaluate(sent) == "This request has 5.0 MB; the server takes 4 MiB. Make it shorter."
    page.get_by_label("Your message").fill("")
    assert page.evaluate(PASTE, 10_000) is False
    page.locator("#send").click()
    page.get_by_text("and 30,000 more characters").wait_for()
    page.locator('.turn.assistant[data-state="done"]').wait_for()
    assert service.requests[0].prompt[0]["content"] == "line\n" * 10_000


def test_a_key_is_asked_for_and_kept_out_of_the_address(open_page: OpenPage, service: FakeService) -> None:
    with running(service, api_keys=("a-secret",)) as url:
        page = open_page(url, expected=FAILED)
        dialog = page.locator("#key-dialog")
        dialog.get_by_text("The server asks for a key.").wait_for()
        for key, told in (("wrong", "The server does not know this key."), ("a-secret", None)):
            dialog.get_by_label("Key of the server").fill(key)
            dialog.get_by_role("button", name="Use").click()
            if told:
                dialog.get_by_text(told).wait_for()
        expect(ask(ready(page), "hi")).to_contain_text("Hello there", use_inner_text=True)
        page.get_by_role("button", name="Link").click()
        page.get_by_role("button", name="Request as code").click()
        code = page.locator("#request-dialog").inner_text()
        assert "GESSO_API_KEY" in code
        stored = page.evaluate(
            "JSON.stringify([location.href, {...localStorage}, {...sessionStorage}, document.cookie])"
        )
        assert "a-secret" not in code + stored + page.content()


def test_a_key_may_be_refused_left_out_and_given_after_all(open_page: OpenPage, service: FakeService) -> None:
    with running(service, api_keys=("a-secret",)) as url:
        page = open_page(url, expected=FAILED)
        dialog = page.locator("#key-dialog")
        enter = page.locator("#alert", has_text="The server asks for a key.").get_by_role(
            "button", name="Enter the key"
        )
        dialog.get_by_role("button", name="Cancel").click()
        enter.click()
        for key in ("a-secret\u200b", "\u201ca-secret\u201d", "a secret", "\u043a\u043b\u044e\u0447"):
            dialog.get_by_label("Key of the server").fill(key)
            dialog.get_by_role("button", name="Use").click()
            dialog.get_by_text("A key has no such characters.").wait_for()
        page.keyboard.press("Escape")
        message = page.get_by_label("Your message")
        message.fill("hi")
        message.press("Enter")  # what is asked without a key asks for one again
        dialog.get_by_text("The server asks for a key.").wait_for()
        page.keyboard.press("Escape")
        expect(message).to_have_value("hi")
        enter.click()
        dialog.get_by_text("The server asks for a key.").wait_for()
        dialog.get_by_label("Key of the server").fill("a-secret")
        dialog.get_by_role("button", name="Use").click()
        expect(ask(ready(page), "hi")).to_contain_text("Hello there", use_inner_text=True)
        expect(page.locator("#alert")).to_be_hidden()


def test_two_pages_do_not_disturb_each_other(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    first, second = ready(open_page(fake_url)), ready(open_page(fake_url))
    ask(first, "one")
    ask(second, "two")
    assert [page.locator(".turn.user .said").all_inner_texts() for page in (first, second)] == [["one"], ["two"]]


@pytest.mark.parametrize("secure", [True, False])
def test_copy_says_how_it_went(open_page: OpenPage, service: FakeService, fake_url: str, secure: bool) -> None:
    """Pages that came over plain HTTP have no clipboard; the older way copies there."""
    service.events = [block("```python\nreturn 1\n```"), Finished(result())]
    page = ready(open_page(fake_url))
    if not secure:
        page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    answer = ask(page, "code, please")
    copy = answer.get_by_role("button", name="Copy")
    copy.click()
    said = answer.locator(".code-head button")
    expect(said).to_have_text("Copied")
    expect(said).to_have_text("Copy")
    message = page.get_by_label("Your message")
    message.press("ControlOrMeta+v")
    expect(message).to_have_value("return 1")


def test_what_went_wrong_stays_in_view(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    page = ready(open_page(f"{fake_url}/#set.temperature=9"))
    service.events = [block("long\n\n" * 60), Finished(result())]
    page.locator("#settings").evaluate("settings => { settings.open = true; }")
    page.get_by_label("temperature", exact=True).fill("1")
    ask(page, "first")
    page.get_by_label("temperature", exact=True).fill("9")
    page.locator("#settings").evaluate("settings => { settings.open = false; }")
    message = page.get_by_label("Your message")
    message.scroll_into_view_if_needed()
    message.fill("second")
    message.press("Enter")
    expect(page.locator("#alert")).to_be_in_viewport()
    expect(page.get_by_label("temperature", exact=True)).to_be_focused()
