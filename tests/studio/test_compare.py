"""Comparing two answers to one message with one seed."""

from typing import Any

from server.fake import FakeService, block, result

from gesso.engine.events import Finished
from studio.conftest import OpenPage, expect, ready
from studio.harm import EVIL, harmless
from studio.test_canvas import canvas_of
from studio.test_logic import call


def compare(page: Any) -> Any:
    ready(page)
    page.get_by_role("button", name="Compare", exact=True).click()
    return page.locator("#view-compare")


def rows(view: Any) -> dict[str, list[str]]:
    found = view.get_by_role("region", name="Differences").locator("tbody tr").all()
    return {row.locator("th").inner_text(): row.locator("td").all_inner_texts() for row in found}


def test_canvas_against_token_by_token_with_the_model(open_page: OpenPage, mini_url: str) -> None:
    view = compare(open_page(mini_url))
    view.get_by_label("Seed of both").fill("7")
    view.get_by_role("button", name="Compare").click()
    view.get_by_role("region", name="Differences").wait_for()
    found = rows(view)
    assert found["Answer"][2] == "the same tokens"
    assert found["Tokens"] == ["4", "4", "\u00b10 (1.00\u00d7)"]
    assert found["Passes of the model"][1] == "4"
    assert found["Canvases"] == ["1", "none", ""]
    assert found["diffusion.mode"] == ["the server's own", '"ar"', ""]
    expect(view.locator(".difference")).to_have_text("777", use_inner_text=True)
    expect(view.locator("figure")).to_have_count(4)
    assert "from" in view.get_by_role("img", name="Mean entropy by step").get_attribute("aria-label")
    expect(view.get_by_role("group", name="Right").get_by_text("Token by token there is no canvas")).to_be_visible()
    expect(view.locator("[id^=left-cell-]")).to_have_count(32)


def test_both_sides_have_a_model_settings_and_one_seed(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    tokens = [(30, EVIL, 0.1, True), (31, "b", 0.2, False)]
    service.events = [canvas_of(tokens), block(EVIL), canvas_of(tokens, canvas=1), block("b"), Finished(result())]
    page = open_page(f"{fake_url}/#set.seed=5&set.top_p=0.5&system=Be%20brief.")
    view = compare(page)
    right = view.get_by_role("group", name="Right")
    right.get_by_label("Model").select_option("mini:sudoku")
    right.get_by_text("Settings of this side").click()
    right.get_by_label("Preset").select_option("Likeliest tokens")
    right.get_by_label("top p").fill("0.9")
    view.get_by_role("button", name="Compare").click()
    view.get_by_role("region", name="Differences").wait_for()
    first, second = service.requests
    assert (first.adapter, second.adapter) == (None, "sudoku")
    assert first.options == {"seed": 5, "top_p": 0.5}
    assert second.options == {"seed": 5, "top_p": 0.9, "temperature": 0}
    assert first.prompt == second.prompt
    assert first.prompt[0]["content"] == "Be brief."
    found = rows(view)
    assert found["model"] == ['"mini"', '"mini:sudoku"', ""]
    assert found["top_p"] == ["0.5", "0.9", ""]
    expect(view.locator(".difference")).to_contain_text(EVIL, use_inner_text=True)
    right.get_by_label("top p").fill("9")
    view.get_by_role("button", name="Compare").click()
    page.locator("#alert", has_text="top_p must be a number").wait_for()
    assert len(service.requests) == 2
    harmless(page)


def test_a_comparison_can_be_stopped(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    service.events = [canvas_of([(30, "a", 0.1, True)]), block("the beginning")]
    page = open_page(fake_url)
    view = compare(page)
    view.get_by_role("button", name="Compare").click()
    view.get_by_text("the beginning").wait_for()
    view.get_by_role("button", name="Stop").click()
    view.get_by_role("button", name="Compare").wait_for()
    assert service.tickets[0].cancelled.wait(30)
    assert len(service.requests) == 1
    expect(view.get_by_role("region", name="Differences")).to_have_count(0)
    left = view.get_by_role("group", name="Left")
    expect(left.get_by_text("Stopped: the answer ends here, unfinished.")).to_be_visible()
    expect(view.get_by_role("group", name="Right").locator(".warning")).to_be_hidden()
    service.events = [block("whole"), Finished(result())]
    view.get_by_role("button", name="Compare").click()
    view.get_by_role("region", name="Differences").wait_for()
    expect(left.locator(".warning")).to_be_hidden()


def test_a_refusal_is_told_at_the_side_that_it_is_of(open_page: OpenPage, fake_url: str) -> None:
    page = open_page(fake_url, expected=("Failed to load resource",))
    view = compare(page)
    right, alert = view.get_by_role("group", name="Right"), page.locator("#alert")
    details, top_p = right.locator("details").filter(has_text="Settings of this side"), right.get_by_label("top p")
    details.locator("summary").click()
    top_p.fill("9")
    details.locator("summary").click()
    view.get_by_role("button", name="Compare").click()
    expect(alert).to_contain_text("Right: top_p must be a number")
    expect(details).to_have_attribute("open", "")
    expect(top_p).to_be_focused()
    top_p.fill("0.5")
    details.locator("summary").click()
    told = {"error": {"message": "top_p is not for this model", "param": "top_p"}}

    def answer(route: Any) -> None:
        if route.request.post_data_json.get("top_p"):
            route.fulfill(status=400, json=told)
        else:
            route.continue_()

    page.route("**/v1/chat/completions", answer)
    view.get_by_role("button", name="Compare").click()
    expect(alert).to_contain_text("Right: top_p is not for this model")
    expect(details).to_have_attribute("open", "")
    expect(top_p).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#option-top_p")).not_to_have_attribute("aria-invalid", "true")
    expect(page.locator("#settings")).not_to_have_attribute("open", "")
    page.unroute_all()
    view.get_by_role("button", name="Compare").click()
    view.get_by_role("region", name="Differences").wait_for()
    expect(top_p).not_to_have_attribute("aria-invalid", "true")


def test_where_two_answers_part(open_page: OpenPage, fake_url: str) -> None:
    page = open_page(fake_url)
    code = """({ firstDifference }, one, other) =>
        firstDifference({ blocks: [{ tokens: one }] }, { blocks: other.map((tokens) => ({ tokens })) })"""
    for one, other, place in (([1, 2], [[1], [2]], None), ([1, 2], [[1, 3]], 1), ([1], [[1], [2]], 1), ([], [], None)):
        assert call(page, "compare/differences.js", code, one, other) == place
