"""Filling and editing: what is proposed is seen before it is taken, and nothing outside the selection ever changes."""

import json
from typing import Any

from studio.conftest import OpenPage, expect, ready
from studio.harm import EVIL, harmless
from studio.test_logic import call


def editor(page: Any) -> Any:
    ready(page)
    page.get_by_role("button", name="Fill and edit").click()
    return page.get_by_label("Text", exact=True)


def select(text: Any, start: int, end: int) -> None:
    text.evaluate("(area, [start, end]) => { area.focus(); area.setSelectionRange(start, end); }", [start, end])


def shown(page: Any, *tags: str) -> str:
    """The text that the proposal shows, without elements of these tags."""
    return str(
        page.locator(".difference").evaluate(
            """(element, tags) => [...element.childNodes].filter((node) => !tags.includes(node.nodeName.toLowerCase()))
                .map((node) => node.textContent).join("").replaceAll("\\u21b5\\n", "\\n")""",
            list(tags),
        )
    )


def test_holes_are_filled_and_the_rest_stays(open_page: OpenPage, mini_url: str) -> None:
    page = open_page(f"{mini_url}/#set.seed=1&set.stop=x&set.max_tokens=4")
    text = editor(page)
    before, after = f"The sum of 3 and 4 is {EVIL} ", ".\n\nAnd so on."
    text.fill(f"{before}seven{after}")
    select(text, len(before), len(before) + 5)
    page.get_by_role("button", name="Make a hole").click()
    holed = f"{before}{{{{ }}}}{after}"
    expect(text).to_have_value(holed)
    page.get_by_role("button", name="Fill the holes").click()
    page.get_by_role("heading", name="Proposal").wait_for()
    expect(page.locator(".editor [role=status]")).to_contain_text("no field for: stop", use_inner_text=True)
    assert (shown(page, "ins"), text.input_value()) == (holed, holed)
    now = shown(page, "del")
    assert now.startswith(before)
    assert now.endswith(after)
    page.get_by_text("Hole 1: what else could stand there").click()
    page.get_by_role("button", name="Take it").click()
    expect(text).to_have_value(now)
    page.get_by_role("button", name="Undo").click()
    expect(text).to_have_value(holed)
    harmless(page)


def test_a_hole_after_a_change_cuts_nothing_away(open_page: OpenPage, fake_url: str) -> None:
    page = open_page(fake_url)
    old, now = "The blue kettle is old.", "A red pan is old."
    answer = json.dumps({"text": now, "changed": True})
    page.route("**/v1/edit", lambda route: route.fulfill(status=200, content_type="application/json", body=answer))
    text = editor(page)
    text.fill(old)
    select(text, 4, 15)
    page.get_by_label("Instruction").fill("Another thing.")
    page.get_by_role("button", name="Edit what is selected").click()
    page.get_by_role("button", name="Take it").click()
    hole, undo = (page.get_by_role("button", name=name) for name in ("Make a hole", "Undo"))
    for at in (now, old):
        expect(text).to_have_value(at)
        hole.click()
        expect(text).to_have_value(f"{at}{{{{ }}}}")
        undo.click()
        expect(text).to_have_value(at)
        if at == now:
            undo.click()
    expect(undo).to_be_disabled()


PROGRAM = "def add_seven(x):\n    return x + 7\n\ndef other(x):\n    return x\n"


def test_an_edit_changes_what_is_selected_alone(open_page: OpenPage, mini_url: str) -> None:
    page = open_page(f"{mini_url}/#set.seed=1")
    text = editor(page)
    text.fill(PROGRAM)
    start = PROGRAM.index("return x + 7")
    select(text, start, start + len("return x + 7"))
    page.get_by_label("Instruction").fill("Change 7 to 12.")
    page.get_by_role("button", name="Edit what is selected").click()
    page.get_by_role("heading", name="Proposal").wait_for()
    now = shown(page, "del")
    assert now != PROGRAM
    assert now.startswith(PROGRAM[:start])
    assert now.endswith(PROGRAM[start + len("return x + 7") :])
    page.get_by_role("button", name="Leave it").click()
    expect(page.locator(".difference")).to_have_count(0)
    expect(text).to_have_value(PROGRAM)


def test_a_refused_request_is_told_and_the_text_stays(open_page: OpenPage, mini_url: str) -> None:
    page = open_page(mini_url, expected=("Failed to load resource",))
    text = editor(page)
    text.fill("no hole here")
    page.get_by_role("button", name="Fill the holes").click()
    page.locator("#alert").get_by_text("hole").wait_for()
    expect(text).to_have_value("no hole here")


def test_while_the_model_writes_the_page_says_so_and_asks_nothing_else(open_page: OpenPage, mini_url: str) -> None:
    page = open_page(mini_url, expected=("Failed to load resource",))
    page.route("**/v1/fill", lambda route: None)  # never answered
    text = editor(page)
    text.fill("a {{ }} b")
    asker = page.get_by_role("button", name="Fill the holes")
    asker.click()
    page.get_by_text("The model writes: ").wait_for()
    expect(asker).to_be_disabled()
    expect(page.get_by_role("button", name="Edit what is selected")).to_be_disabled()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped: the text is as it was.").wait_for()
    expect(asker).to_be_enabled()
    expect(page.get_by_text("The model writes: ")).to_have_count(0)
    expect(text).to_have_value("a {{ }} b")


def test_differences_and_selections(open_page: OpenPage, fake_url: str) -> None:
    page = open_page(fake_url)
    pairs = [
        ("", ""),
        ("a", ""),
        ("", "a b"),
        ("a b c", "a x c"),
        ("\u00e9t\u00e9 1\n2", "\u00e9t\u00e9 1\n3\n2"),
        ("x" * 9, "y" * 9),
    ]
    pairs.append(("word " * 3000, "other " * 3000))
    for old, now in pairs:
        parts = call(page, "edit/diff.js", "({ differences }, old, now) => differences(old, now)", old, now)
        assert "".join(part["text"] for part in parts if part["kind"] != "new") == old
        assert "".join(part["text"] for part in parts if part["kind"] != "gone") == now
    parts = call(page, "edit/diff.js", "({ differences }) => differences('a b c', 'a x c')")
    assert [(part["kind"], part["text"]) for part in parts] == [
        ("same", "a "),
        ("gone", "b"),
        ("new", "x"),
        ("same", " c"),
    ]

    text = "one\ntwo\none\n"
    code = """({ editRequest }, text, start, end) => {
        const { body, lines } = editRequest({ model: "m", text, instruction: "i", start, end, settings: {} });
        return [body.match ?? null, body.lines ?? null, lines];
    }"""
    assert call(page, "edit/requests.js", code, text, 4, 7) == ["two", None, False]
    assert call(page, "edit/requests.js", code, text, 8, 11) == [None, [3, 3], True]
    assert call(page, "edit/requests.js", code, text, 0, 0) == [None, None, False]
    assert call(page, "edit/requests.js", code, text, 0, len(text)) == [None, None, False]


def test_undo_takes_nothing_with_it_that_was_typed_since(open_page: OpenPage, fake_url: str) -> None:
    page = open_page(fake_url)
    text = editor(page)
    text.fill("one two")
    select(text, 0, 3)
    hole, undo = (page.get_by_role("button", name=name) for name in ("Make a hole", "Undo"))
    hole.click()
    holed = text.input_value()
    text.fill(f"{holed} and more")
    undo.click()
    expect(text).to_have_value(f"{holed} and more")
    expect(page.locator(".editor [role=status]")).to_contain_text("Undo would lose that", use_inner_text=True)
    text.fill(holed)
    undo.click()
    expect(text).to_have_value("one two")
    expect(undo).to_be_disabled()


def test_what_is_missing_is_said_where_it_belongs(open_page: OpenPage, fake_url: str) -> None:
    page = open_page(fake_url)
    text, note = editor(page), page.locator(".editor [role=status]")
    page.get_by_role("button", name="Fill the holes").click()
    expect(note).to_contain_text("There is no text to fill.", use_inner_text=True)
    text.fill("something")
    page.get_by_role("button", name="Edit what is selected").click()
    expect(note).to_contain_text("Say in the instruction what is to change.", use_inner_text=True)
    expect(page.locator("#edit-instruction")).to_be_focused()
