"""An answer that is being written: what can be done with it stays possible while it grows."""

from typing import Any

from server.fake import FakeService, block, result

from gesso.engine.events import Finished
from studio.conftest import OpenPage, expect, ready


def begin(page: Any, service: FakeService, text: str) -> Any:
    """Asks for an answer of which this is there; more comes from the test."""
    service.events = [block(text)]
    page.get_by_label("Your message").fill("x")
    page.get_by_label("Your message").press("Enter")
    answer = page.locator(".turn.assistant").last
    expect(answer.locator(".answer")).not_to_be_empty()
    return answer


def grow(page: Any, service: FakeService, text: str, shown: str) -> None:
    """Sends more of it, and waits until that is shown."""
    service.tickets[-1].send(block(text))
    page.locator(".turn.assistant").last.get_by_text(shown).wait_for()


def test_buttons_can_be_pressed_while_it_grows(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    stop = begin(page, service, "one").get_by_role("button", name="Stop")
    stop.hover()
    page.mouse.down()
    grow(page, service, " two", "one two")
    page.mouse.up()
    page.get_by_text("Stopped: the answer ends here, unfinished.").wait_for()
    assert service.tickets[-1].cancelled.wait(10)


def test_what_is_selected_and_scrolled_stays(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    answer = begin(page, service, f"first\n\n```\n{'wide ' * 100}\n")
    answer.locator("p").first.evaluate("part => getSelection().selectAllChildren(part)")
    answer.locator("pre").evaluate("part => { part.scrollLeft = 40; }")
    grow(page, service, "more\n```\n\nlast", "last")
    assert page.evaluate("getSelection().toString()") == "first"
    assert answer.locator("pre").evaluate("part => part.scrollLeft") == 40

    answer.locator("p").last.evaluate("({ firstChild: text }) => getSelection().setBaseAndExtent(text, 0, text, 4)")
    grow(page, service, " words", "last words")
    assert page.evaluate("getSelection().toString()") == "last"
    service.tickets[-1].send(Finished(result()))
    answer.get_by_role("button", name="Retry, other seed").wait_for()
    assert page.evaluate("getSelection().toString()") == "last"


def test_code_that_has_grown_is_copied_whole(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    answer = begin(page, service, "```python\nx = 1  # one\n")
    grow(page, service, "y = 'two'\n```\n", "'two'")
    answer.get_by_role("button", name="Copy").click()
    answer.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("window.copied") == "x = 1  # one\ny = 'two'"


def test_reasoning_stands_before_what_is_there_already(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    page = ready(open_page(fake_url))
    answer = begin(page, service, "- one\n- two\n")
    service.tickets[-1].send(block("", "hm"))
    answer.get_by_text("Reasoning").click()
    grow(page, service, "- three\n\n| a |\n|---|\n| 1 |\n", "three")
    assert answer.locator(".reasoning").evaluate("part => part.open")
    assert answer.locator("li").all_inner_texts() == ["one", "two", "three"]
    service.tickets[-1].send(block("| 2 |\n"))
    service.tickets[-1].send(Finished(result()))
    answer.get_by_role("button", name="Retry, same seed").wait_for()
    assert answer.locator("td").all_inner_texts() == ["1", "2"]
    assert [part.strip() for part in answer.locator(":scope > .actions button").all_inner_texts()] == [
        "Retry, same seed", "Retry, other seed", "Canvas", "Request", "Save trace",
    ]  # fmt: skip
