"""The focus stays near where what has it is drawn anew or goes: it would begin at the top of the page again."""

from typing import Any

from server.fake import FakeService, block, frame, result

from gesso.engine.events import Finished
from gesso.errors import QueueFullError
from studio.conftest import OpenPage, ask, drawn, expect, ready
from studio.test_canvas import canvas_of
from studio.test_chat import FAILED, finished

ANSWER = 1
"""The turn of the first answer."""


def press(page: Any, name: str, turn: int = ANSWER) -> None:
    """Presses a button of a turn as one does who has no mouse."""
    page.locator(".turn").nth(turn).get_by_role("button", name=name).press("Enter")


def test_answers_are_looked_through_with_one_key(open_page: OpenPage, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    answer = ask(page, "x")
    for count in (2, 3):
        press(page, "Retry, other seed")
        expect(answer).to_contain_text(f"{count} of {count}")
        finished(page, 2)
    answer.get_by_role("button", name="Earlier answer").focus()
    page.keyboard.press("Enter")
    expect(answer).to_contain_text("2 of 3")
    expect(answer.get_by_role("button", name="Earlier answer")).to_be_focused()
    page.keyboard.press("Enter")
    expect(answer).to_contain_text("1 of 3")
    expect(answer).to_be_focused()  # there is no earlier one
    page.keyboard.press("Tab")
    expect(answer.get_by_role("button", name="Later answer")).to_be_focused()


def test_what_is_left_gives_the_focus_to_what_opened_it(open_page: OpenPage, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    for text in ("a", "b"):
        ask(page, text)
    edit = page.locator(".turn").first.get_by_role("button", name="Edit")
    edit.press("Enter")
    page.keyboard.press("Escape")
    expect(edit).to_be_focused()
    press(page, "Retry, same seed")
    press(page, "Cancel")
    expect(page.locator(".turn").nth(ANSWER).get_by_role("button", name="Retry, same seed")).to_be_focused()
    edit.press("Enter")
    page.keyboard.type("c")
    page.keyboard.press("Enter")
    finished(page, 2)
    expect(edit).to_be_focused()


def test_an_answer_that_grows_keeps_the_focus(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    service.events = [block("one")]
    page = ready(open_page(fake_url))
    page.get_by_label("Your message").fill("x")
    page.get_by_label("Your message").press("Enter")
    answer = page.locator(".turn.assistant")
    expect(answer).to_contain_text("one")
    stop = answer.get_by_role("button", name="Stop")
    stop.focus()
    service.tickets[0].send(block(" two"))
    expect(answer).to_contain_text("one two")
    expect(stop).to_be_focused()
    service.tickets[0].send(Finished(result()))
    finished(page, 2)
    expect(answer).to_be_focused()


def test_stop_gives_the_focus_back(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    service.events = [block("one")]
    page = ready(open_page(fake_url))
    for view, send in (("Chat", "Send"), ("Structure", "Ask"), ("Compare", "Compare")):
        page.get_by_role("button", name=view, exact=True).first.click()
        place = page.locator("main")
        if view == "Chat":
            page.get_by_label("Your message").fill("x")
        place.get_by_role("button", name=send, exact=True).press("Enter")
        stop = page.locator("#stop") if view == "Chat" else place.get_by_role("button", name="Stop")
        stop.press("Enter")
        expect(place.get_by_role("button", name=send, exact=True)).to_be_focused()


def test_the_canvas_has_the_focus_where_nothing_is_held_any_more(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    service.events = [canvas_of([(30, "a", 0.1, True), (31, "b", 0.1, True)]), block("ab"), Finished(result())]
    page = ready(open_page(fake_url))
    ask(page, "x")
    canvas = page.get_by_role("listbox", name="Canvas")
    canvas.focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Let go").press("Enter")
    drawn(page)
    expect(canvas).to_be_focused()


def test_one_step_is_nothing_to_play(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    service.events = [frame(1), block("a"), Finished(result())]
    page = ready(open_page(fake_url))
    ask(page, "x")
    expect(page.get_by_role("button", name="Play")).to_be_disabled()
    service.events = [frame(1), frame(2), block("a"), Finished(result())]
    ask(page, "y")
    expect(page.get_by_role("button", name="Play")).to_be_enabled()


def test_a_message_that_goes_gives_the_focus_back(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    page = ready(open_page(fake_url, expected=FAILED))
    service.error = QueueFullError("64 requests wait already")
    prompt = page.get_by_label("Your message")
    prompt.fill("x")
    prompt.press("Enter")
    alert = page.get_by_role("alert")
    alert.get_by_role("button", name="Close").press("Enter")
    expect(alert).to_be_hidden()
    expect(prompt).to_be_focused()
    prompt.fill("x")
    prompt.press("Enter")
    expect(alert).to_be_visible()  # the request has been refused: what follows is for the next
    service.error = None
    alert.get_by_role("button", name="Try again").press("Enter")
    finished(page, 4)
    expect(alert).to_be_hidden()
    expect(prompt).to_be_focused()
