"""What is asked for comes into sight: a canvas below a long text, the canvas of a narrow page, texts of charts."""

from collections.abc import Sequence
from typing import Any

import pytest
from server.fake import FakeService, block, result

from gesso.engine.events import Event, Finished
from studio.conftest import OpenPage, ask, drawn, expect, ready
from studio.test_canvas import canvas_of, step_to

TOKENS = [(30 + number, " word", 0.3, number % 2 == 0) for number in range(64)]
NARROW = {"width": 390, "height": 844}
CANVASES = 12


def long_answer() -> Sequence[Event]:
    parts = [(canvas_of(TOKENS, canvas=number), block(" word" * 64, canvas=number)) for number in range(CANVASES)]
    return [*(event for part in parts for event in part), Finished(result())]


def seen(page: Any) -> Any:
    """Whether the first cell stands in the box of the canvas."""
    return page.evaluate("""() => {
        const box = document.querySelector(".canvas").getBoundingClientRect();
        const cell = document.querySelector("#cell-0").getBoundingClientRect();
        return cell.top >= box.top && cell.bottom <= box.bottom;
    }""")


@pytest.mark.parametrize("viewport", [NARROW, {"width": 1280, "height": 720}])
def test_the_canvas_stays_in_sight_below_a_text_that_grows(
    open_page: OpenPage, service: FakeService, fake_url: str, viewport: dict[str, int]
) -> None:
    service.events = [*long_answer()]
    page = ready(open_page(fake_url, viewport=viewport))
    ask(page, "x")
    box = page.locator(".canvas")
    assert box.evaluate("box => box.scrollHeight > 2 * box.clientHeight")
    assert seen(page)
    for index in (CANVASES // 2, 0, CANVASES - 1):
        step_to(page, index)
        assert seen(page), index
    box.evaluate("box => { box.scrollTop = 0; }")  # to read from the beginning on
    step_to(page, CANVASES - 2)
    assert box.evaluate("box => box.scrollTop") == 0
    service.events = [canvas_of(TOKENS), block("a"), Finished(result())]
    ask(page, "another one")
    assert seen(page)


def test_the_canvas_of_an_answer_comes_into_sight(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    service.events = [canvas_of(TOKENS), block("long\n\n" * 40), Finished(result())]
    page = ready(open_page(fake_url, viewport=NARROW))
    answer = ask(page, "x")
    page.evaluate("scrollTo(0, 0)")
    cell = page.locator("#cell-0")
    expect(cell).not_to_be_in_viewport()
    answer.get_by_role("button", name="Canvas").evaluate("button => button.click()")
    drawn(page)
    expect(cell).to_be_in_viewport()


@pytest.mark.parametrize("viewport", [NARROW, {"width": 360, "height": 640}])
def test_on_a_phone_the_canvas_of_a_later_message_is_seen_while_it_resolves(
    open_page: OpenPage, service: FakeService, fake_url: str, viewport: dict[str, int]
) -> None:
    page = ready(open_page(fake_url, viewport=viewport, has_touch=True, is_mobile=True))
    service.events = [canvas_of(TOKENS), block("first\n\n" * 20), Finished(result())]
    ask(page, "one")
    service.events = [canvas_of(TOKENS)]
    message = page.get_by_label("Your message")
    message.fill("two")
    message.press("Enter")
    running = page.locator('.turn.assistant[data-state="running"]')
    running.wait_for()
    box, slider, stop = page.locator(".canvas"), page.locator(".player"), page.locator("#stop")
    for part in (box, slider, stop):
        expect(part).to_be_in_viewport(ratio=0.95)
    expect(stop).to_be_focused()  # the keyboard, which would cover the canvas, goes with the focus of the message
    for number in range(1, 4):
        service.tickets[-1].send(block("word " * 64, canvas=number - 1))
        service.tickets[-1].send(canvas_of(TOKENS, canvas=number))
        page.locator(".figures", has_text=f"Canvas{number + 1}").wait_for()
        drawn(page)
        for part in (box, slider, stop):
            expect(part).to_be_in_viewport(ratio=0.95)
        assert seen(page)
    page.evaluate("scrollTo(0, 0)")  # to read from the beginning on
    service.tickets[-1].send(block("\n\nmore" * 20, canvas=3))
    service.tickets[-1].send(canvas_of(TOKENS, canvas=4))
    expect(running.get_by_text("more", exact=True)).to_have_count(20)
    drawn(page)
    assert page.evaluate("scrollY") == 0
    service.tickets[-1].send(Finished(result()))
    running.wait_for(state="detached")
    drawn(page)
    assert page.evaluate("scrollY") == 0


def test_texts_of_charts_can_be_read_on_a_narrow_page(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    service.events = [*long_answer()]
    page = ready(open_page(fake_url, viewport=NARROW))
    page.get_by_role("button", name="Compare", exact=True).click()
    page.locator("#view-compare").get_by_role("button", name="Compare").click()
    page.get_by_role("region", name="Differences").wait_for()
    measure = """texts => texts.map((text) => {
        const [own, chart] = [text, text.ownerSVGElement].map((part) => part.getBoundingClientRect());
        return [parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a, chart.right - own.right];
    })"""
    for view in ("compare", "state"):
        if view == "state":
            page.get_by_role("button", name="Server", exact=True).click()
        texts = page.locator(f"#view-{view} .chart text")
        texts.first.wait_for()
        for pixels, room in texts.evaluate_all(measure):
            assert pixels >= 9
            assert room >= 0


def test_the_ring_of_a_field_leaves_its_label(open_page: OpenPage, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    gap = """field => {
        const label = field.labels[0].getBoundingClientRect();
        const { outlineWidth, outlineOffset } = getComputedStyle(field);
        return field.getBoundingClientRect().top - parseFloat(outlineWidth) - parseFloat(outlineOffset) - label.bottom;
    }"""
    page.locator("#settings > summary").click()
    for view, name in (("Chat", "Your message"), ("Chat", "System prompt"), ("Fill and edit", "Text")):
        page.get_by_role("button", name=view, exact=True).click()
        field = page.get_by_label(name).last
        field.focus()
        assert field.evaluate(gap) >= 0, name
