"""The page for everyone: by keyboard alone, on any width, in both themes, by axe's rules."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from server.fake import FakeService, block, result

from gesso.engine.events import Finished
from studio.conftest import OpenPage, ask, expect, ready
from studio.test_canvas import canvas_of

AXE = Path(os.environ.get("GESSO_AXE", ""))
LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
WIDE = f"| a | b |\n|---|---|\n| {LONG} | {LONG} |"
TEXT = f"# Title\n\n{LONG}\n\n```python\n{'x = 1; ' * 40}\n```\n\n{WIDE}\n\n\u05e9\u05dc\u05d5\u05dd"


def full(page: Any, service: FakeService) -> Any:
    """A page on which everything is open."""
    tokens = [
        (30 + n, text, n / 9, n % 2 == 0) for n, text in enumerate([LONG, " a", "\n", "\u65e5\u672c\u8a9e", " b"])
    ]
    flags = {"pinned": (False, True) + (False,) * 3, "forced": (False,) * 4 + (True,)}
    service.events = [canvas_of(tokens), canvas_of(tokens, 2, **flags), block(TEXT, "thoughts"), Finished(result())]
    ask(ready(page), f"{LONG} " * 3)
    page.locator("#settings > summary").click()
    page.locator(".legend summary").click()
    page.locator("#cell-1").click()
    page.locator(".history table").wait_for()
    return page


def open_structure(page: Any) -> None:
    page.get_by_role("button", name="Structure").click()
    page.get_by_role("button", name="Ask").click()
    page.locator("#text-verdict", has_text="Not valid.").wait_for()
    page.get_by_label("Answer, or any text").fill(json.dumps({LONG: [LONG, {"a": 1}]}))
    page.locator(".tree").wait_for()
    page.locator("#text-verdict", has_text="Not valid.").wait_for()


def open_compare(page: Any) -> None:
    page.get_by_role("button", name="Compare", exact=True).click()
    view = page.locator("#view-compare")
    view.get_by_role("button", name="Compare").click()
    view.get_by_role("region", name="Differences").wait_for()


def open_state(page: Any) -> None:
    page.get_by_role("button", name="Server", exact=True).click()
    page.locator(".cards div").first.wait_for()


VIEWS = (lambda page: None, open_structure, open_compare, open_state)


def test_nothing_is_cut_at_any_width(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    page = full(open_page(fake_url), service)
    for number, prepare in enumerate(VIEWS):
        prepare(page)
        for width in (360, 768, 1280, 3840):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") == width, number
            outside = page.evaluate(
                """() => [...document.querySelectorAll("button, input, select, textarea, .cell, h1, h2, dd, figure")]
                    .filter((element) => element.checkVisibility() && !element.closest(".skip"))
                    .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
                    .map((element) => element.outerHTML.slice(0, 80))"""
            )
            assert outside == [], (number, width)


def test_a_conversation_by_keyboard_alone(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    tokens = [(30, "a", 0.01, True), (31, "b", 0.9, False)]
    service.events = [canvas_of(tokens), canvas_of(tokens, 2), block("ab"), Finished(result())]
    page = ready(open_page(fake_url))
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("hello")
    page.keyboard.press("Enter")
    page.locator('.turn.assistant[data-state="done"]').wait_for()

    def tab_to(selector: str) -> None:
        for _ in range(80):
            page.keyboard.press("Tab")
            if page.evaluate("selector => document.activeElement.matches(selector)", selector):
                ring = (
                    "getComputedStyle(document.activeElement.closest('.canvas') ?? document.activeElement).outlineStyle"
                )
                assert page.evaluate(ring) == "solid", selector
                return
        pytest.fail(f"no way by Tab to {selector}")

    tab_to("[role=listbox]")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    tab_to("#hold-instead")
    tab_to("button.primary:not(#send)")
    page.keyboard.press("Enter")
    page.get_by_text("2 of 2").wait_for()
    assert service.requests[-1].options["canvas"] == [None, 31]


def test_the_skip_link_leads_into_every_view_and_leaves_the_address(fake_url: str, open_page: OpenPage) -> None:
    page = ready(open_page(f"{fake_url}/#prompt=theirs"))
    for view in ("Chat", "Structure"):
        page.get_by_role("button", name=view, exact=True).click()
        page.locator(".skip").focus()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.tagName") == "MAIN"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('main') !== null")
        assert page.evaluate("location.hash") == "#prompt=theirs"


def test_themes_are_told_by_the_system_or_chosen(open_page: OpenPage, fake_url: str) -> None:
    page = ready(open_page(fake_url, color_scheme="dark"))
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    page.get_by_label("Theme").select_option("light")
    assert page.evaluate(colour) == "rgb(255, 255, 255)" != dark
    page.reload()
    expect(ready(page).get_by_label("Theme")).to_have_value("light")
    assert page.evaluate(colour) == "rgb(255, 255, 255)"
    page.get_by_label("Theme").select_option("auto")
    assert page.evaluate(colour) == dark


CONTROLS = {"button", "checkbox", "combobox", "listbox", "slider", "textbox"}


def names_of_controls(page: Any) -> list[tuple[str, str]]:
    """Role and name of every control, as the browser itself tells them to a screen reader."""
    nodes = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    told = [(node["role"]["value"].lower(), node["name"]["value"]) for node in nodes if "name" in node]
    return [
        ("combobox" if "combobox" in role else role, name)
        for role, name in told
        if role in CONTROLS | {"comboboxselect"}
    ]


def test_every_control_has_a_name_on_a_narrow_page(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    page = full(open_page(fake_url, viewport={"width": 360, "height": 900}), service)
    for prepare in VIEWS:
        prepare(page)
        controls = names_of_controls(page)
        assert [role for role, name in controls if not name] == []
        assert {("combobox", "Model"), ("combobox", "Theme")} <= set(controls)


def test_forced_colours_leave_what_the_canvas_says(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    tokens = [(30, "a", 0.01, True), (31, "b", 0.1, False), (32, "c", 0.9, False), (33, "d", 2.0, False)]
    service.events = [canvas_of(tokens), block("abcd"), Finished(result())]
    page = ready(open_page(fake_url, forced_colors="active"))
    ask(page, "x")
    style = "(part, name) => getComputedStyle(part)[name]"
    ground = page.evaluate("""() => {
        const part = document.body.appendChild(document.createElement("p"));
        part.style.color = "Canvas";
        return getComputedStyle(part).color;
    }""")
    cells = [page.locator(f"#cell-{number}") for number in range(4)]
    unlined = [cell.evaluate(style, "borderBottomColor") == ground for cell in cells]
    assert unlined == [False, True, True, True]
    assert all(cell.evaluate(style, "borderTopColor") == ground for cell in cells)
    assert len({cell.evaluate(style, "textDecoration") for cell in cells}) == 4
    lined = page.locator("nav button").evaluate_all(
        "(buttons, ground) => buttons.filter((one) => getComputedStyle(one).borderBottomColor !== ground)"
        ".map((one) => one.textContent)",
        ground,
    )
    assert lined == ["Chat"]


@pytest.mark.skipif(not AXE.is_file(), reason="GESSO_AXE names no axe.min.js; make studio-test fetches it")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_page: OpenPage, service: FakeService, fake_url: str, scheme: str) -> None:
    page = full(open_page(fake_url, color_scheme=scheme, bypass_csp=True), service)
    page.evaluate(AXE.read_text(encoding="utf-8"))

    def open_request(page: Any) -> None:
        page.get_by_role("button", name="Chat").click()
        page.locator("#request").click()

    places = ("document", "'#view-structure'", "'#view-compare'", "'#view-state'", "'#request-dialog'")
    for prepare, place in zip((*VIEWS, open_request), places, strict=True):
        prepare(page)
        found = page.evaluate(f"axe.run({place})")["violations"]
        assert [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found] == []
