"""Structure: what the page says of a constraint and of a text while they are typed, and the answer as a tree."""

import json
from typing import Any

from server.fake import FakeService, block, result

from gesso.engine.events import Finished
from studio.conftest import OpenPage, expect, ready
from studio.harm import EVIL, harmless
from studio.test_canvas import canvas_of

SCHEMA = {"type": "object", "properties": {"price": {"type": "integer"}}, "required": ["price"]}


def structure(page: Any) -> Any:
    ready(page)
    page.get_by_role("button", name="Structure").click()
    page.locator("#constraint-verdict", has_text="Can be used").wait_for()
    return page


def verdict(page: Any, of: str, text: str, look: str) -> None:
    page.locator(f'#{of}-verdict[data-verdict="{look}"]', has_text=text).wait_for()


def test_verdicts_follow_what_is_typed(open_page: OpenPage, fake_url: str) -> None:
    page = structure(open_page(fake_url))
    constraint, text = page.get_by_label("Constraint", exact=True), page.get_by_label("Answer, or any text")
    constraint.fill(json.dumps(SCHEMA))
    text.fill('{"price": "36"}')
    verdict(page, "text", "Not valid. character 10", "bad")
    text.fill('{"price": 36}')
    verdict(page, "text", "Valid.", "good")
    constraint.fill('{"type": ')
    verdict(page, "constraint", "The schema is no JSON", "bad")
    verdict(page, "text", "", "unknown")
    constraint.fill('{"type": "nothing"}')
    verdict(page, "constraint", "type", "bad")
    constraint.fill('{"type": "integer", "colour": 1}')
    verdict(page, "constraint", "Not held to, because not known: #/colour", "good")
    for kind, given, good in (
        ("regex", "[0-9]+", "36"),
        ("grammar", 'root ::= "a" "b"', "ab"),
        ("choice", "x\ny", "y"),
    ):
        page.get_by_label("The answer is held to a").select_option(kind)
        constraint.fill(given)
        text.fill(good)
        verdict(page, "text", "Valid.", "good")
        text.fill(f"{good}!")
        verdict(page, "text", "Not valid.", "bad")


def test_an_answer_is_asked_for_judged_and_shown_as_a_tree(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    value = {EVIL: [1, True, None, EVIL, {}], "price": 36}
    written = json.dumps(value)
    flags = {"forced": (True, False)}
    service.events = [
        canvas_of([(30, EVIL, 0.1, True), (31, "b", 0.2, True)], **flags), block(written), Finished(result()),
    ]  # fmt: skip
    page = structure(open_page(fake_url))
    page.get_by_label("Constraint", exact=True).fill(json.dumps(SCHEMA))
    page.get_by_role("button", name="Ask").click()
    verdict(page, "text", "Not valid.", "bad")
    assert service.requests[0].options["json_schema"] == SCHEMA
    expect(page.locator("#structure-text")).to_have_value(written)
    tree = page.locator(".tree")
    assert tree.locator(".tree-name").all_inner_texts() == [f"{EVIL}: ", "0: ", "1: ", "2: ", "3: ", "4: ", "price: "]
    assert json.loads(tree.locator(".tree-string").inner_text()) == EVIL
    tree.locator("summary").first.click()
    expect(tree.get_by_text("price")).to_be_hidden()
    assert "forced" in page.locator("#structure-cell-0").get_attribute("class")
    page.get_by_role("button", name="Request as code").click()
    expect(page.locator("#request-dialog")).to_contain_text("structured_outputs", use_inner_text=True)
    harmless(page)


def test_a_server_that_cannot_judge_says_so(open_page: OpenPage, fake_url: str) -> None:
    page = structure(open_page(fake_url, expected=("Failed to load resource",)))
    told = '{"error": {"message": "64 constraints are being compiled already", "code": "queue_full"}}'
    page.route("**/v1/explain", lambda route: route.fulfill(status=429, body=told, content_type="application/json"))
    page.get_by_label("Answer, or any text").fill("1")
    verdict(page, "constraint", "64 constraints are being compiled already", "unknown")
    page.unroute("**/v1/explain")
    page.get_by_label("Answer, or any text").fill("2")
    verdict(page, "constraint", "Can be used", "good")


def test_a_stopped_answer_is_not_called_valid(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    service.events = [block('{"price": 36}')]
    page = structure(open_page(fake_url))
    page.get_by_label("Constraint", exact=True).fill(json.dumps(SCHEMA))
    page.get_by_role("button", name="Ask").click()
    text = page.get_by_label("Answer, or any text")
    expect(text).to_have_value('{"price": 36}')
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped: the answer ends here, unfinished.").wait_for()
    verdict(page, "constraint", "Can be used", "good")
    verdict(page, "text", "", "unknown")
    text.fill('{"price": 37}')  # a person's text is whole
    verdict(page, "text", "Valid.", "good")
    expect(page.get_by_text("Stopped:")).to_be_hidden()


def test_a_request_that_fails_leaves_the_text_that_was_to_be_judged(open_page: OpenPage, fake_url: str) -> None:
    page = structure(open_page(fake_url, expected=("Failed to load resource",)))
    text = page.get_by_label("Answer, or any text")
    text.fill("typed for an hour")
    verdict(page, "text", "Not valid.", "bad")
    page.route("**/v1/chat/completions", lambda route: route.fulfill(status=503, body="{}"))
    page.get_by_role("button", name="Ask").click()
    page.locator("#alert", has_text="the server answered 503").wait_for()
    expect(text).to_have_value("typed for an hour")


def test_each_kind_keeps_the_constraint_that_was_typed(open_page: OpenPage, fake_url: str) -> None:
    page = structure(open_page(fake_url))
    constraint, kind = page.get_by_label("Constraint", exact=True), page.get_by_label("The answer is held to a")
    typed = json.dumps(SCHEMA)
    constraint.fill(typed)
    kind.select_option("choice")
    expect(constraint).to_have_value("yes\nno\nperhaps")
    constraint.fill("maybe")
    kind.select_option("json")
    expect(constraint).to_have_value(typed)
    kind.select_option("choice")
    expect(constraint).to_have_value("maybe")
    verdict(page, "constraint", "Can be used", "good")


def test_deep_json_is_judged_and_drawn_down_to_a_depth(open_page: OpenPage, fake_url: str) -> None:
    page = structure(open_page(fake_url))
    text = page.get_by_label("Answer, or any text")
    for depth in (2_000, 50_000):
        text.fill("1")
        expect(page.locator(".tree")).to_have_count(0)
        text.fill("[" * depth + "]" * depth)
        verdict(page, "text", "Not valid.", "bad")
        expect(page.locator(".tree")).to_contain_text("and deeper")


def test_the_tree_shows_numbers_as_they_are_written(open_page: OpenPage, fake_url: str) -> None:
    page = structure(open_page(fake_url))
    page.get_by_label("Answer, or any text").fill('{"a": 12345678901234567890, "b": [1.0, 1e3, -0], "c": true}')
    numbers = page.locator(".tree .tree-number").all_inner_texts()
    assert numbers == ["12345678901234567890", "1.0", "1e3", "-0"]
    verdict(page, "text", "Not valid.", "bad")
