"""Answers that are written token by token: they have no canvas, and the page says so."""

from dataclasses import replace

from server.fake import FakeService, block, result

from gesso.engine.events import Finished
from studio.conftest import OpenPage, ask, expect, ready, saved_file
from studio.test_canvas import canvas_of

WHY = "Token by token there is no canvas: each token is written once, from left to right."


def test_the_page_says_why_there_is_no_canvas(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    service.events = [block("one")]
    page = ready(open_page(fake_url))
    page.get_by_label("Your message").fill("x")
    page.get_by_label("Your message").press("Enter")
    panel = page.locator("#canvas .canvas-panel")
    expect(panel).to_contain_text(WHY)  # while it is written, too
    service.tickets[0].send(Finished(result()))
    answer = page.locator('.turn.assistant[data-state="done"]')
    expect(answer).to_contain_text("3 tokens \u00b7 token by token")
    expect(answer).not_to_contain_text("canvas", ignore_case=False)
    for part in (".canvas", ".player", ".history", ".figures", ".legend"):
        expect(panel.locator(part)).to_be_hidden()

    service.events = [canvas_of([(30, "a", 0.1, True)]), block("a"), Finished(result())]
    page.locator("#settings > summary").click()
    page.get_by_label("Preset").select_option("Canvases")
    expect(ask(page, "y")).to_contain_text("canvases")
    assert service.requests[-1].options["mode"] == "canvas"
    expect(panel.get_by_text(WHY)).to_be_hidden()
    expect(panel.locator(".canvas")).to_be_visible()


def test_compare_begins_with_a_canvas_whatever_the_model_does_by_itself(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    service.engine.defaults = replace(service.engine.defaults, mode="ar")
    page = ready(open_page(fake_url))
    page.get_by_role("button", name="Compare", exact=True).click()
    view = page.locator("#view-compare")
    view.get_by_role("button", name="Compare").click()
    view.get_by_role("region", name="Differences").wait_for()
    assert [request.options["mode"] for request in service.requests] == ["canvas", "ar"]


def test_a_trace_without_a_canvas_is_not_opened(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    canvas = [canvas_of([(30, "a", 0.1, True)]), block("a"), Finished(result())]
    traces = []
    for events in ([block("one"), Finished(result())], canvas):
        service.events = events
        answer = ask(page, "x")
        with saved_file(page) as saved:
            answer.get_by_role("button", name="Save trace").click()
        traces.append({"name": "trace.jsonl", "mimeType": "application/jsonl", "buffer": saved[0].encode()})
    alert = page.get_by_role("alert")
    page.locator("#trace-file").set_input_files(traces[0])
    expect(alert).to_contain_text("trace.jsonl: this answer was written token by token")
    expect(page.locator("#canvas-heading")).to_have_text("Canvas")
    page.locator("#trace-file").set_input_files(traces[1])
    expect(page.locator("#canvas-heading")).to_have_text("Canvas of trace.jsonl")
    expect(alert).to_be_hidden()
