"""Whatever a person, a model, a file or the server says is text on the page, wherever it stands."""

import json
from typing import Any

from server.conftest import running
from server.fake import FakeService, block, result

from gesso.engine.events import Finished
from gesso.errors import OptionError
from gesso.text.output import ToolCall
from studio.conftest import OpenPage, ask, drawn, expect, ready
from studio.harm import EVIL, harmless
from studio.test_canvas import canvas_of
from studio.test_logic import call


def test_messages_answers_thoughts_calls_and_warnings(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    call = ToolCall("f", json.dumps({"x": EVIL}))
    service.events = [
        block(EVIL, EVIL, (call,)), Finished(result(warnings=(EVIL,), tool_calls=(call,))),
    ]  # fmt: skip
    page = ready(open_page(fake_url))
    answer = ask(page, EVIL)
    expect(page.locator(".turn.user .said")).to_have_text(EVIL, use_inner_text=True)
    expect(answer.locator(".answer")).to_have_text(EVIL, use_inner_text=True)
    assert answer.locator(".reasoning .said").text_content() == EVIL
    assert EVIL.replace('"', '\\"') in answer.locator(".call").inner_text()
    expect(answer.locator(".warning")).to_contain_text(EVIL, use_inner_text=True)
    page.get_by_role("button", name="Edit", exact=True).click()
    expect(page.get_by_label("Your message").first).to_have_value(EVIL)
    harmless(page)


MARKDOWN = (
    "# {}", "- {}", "1. {}", "> {}", "**{}**", "`{}`", "```html\n{}\n```", "```python\nx = '{}'\n```",
    "| a |\n|---|\n| {} |",
    "[{}](https://example.org)", "[x](javascript:window.hacked=1)", "![{}](https://example.org/x.png)",
    "[x](data:text/html,<p>hacked</p>)", "<https://example.org>{}", "_{}_", "~~{}~~", "* * *", "  - {}\n    - {}",
)  # fmt: skip


def test_markdown_makes_no_html_of_a_text(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    text = "\n\n".join(MARKDOWN)
    service.events = [block(text.replace("{}", EVIL)), Finished(result())]
    page = ready(open_page(fake_url))
    answer = ask(page, "x").locator(".answer")
    assert answer.text_content().count("<script>window.hacked=1</script>") == text.count("{}")
    for tag in (
        "h3",
        "ul ul",
        "ol",
        "blockquote",
        "strong",
        "p code",
        "pre code .code-string",
        "table td",
        "em",
        "del",
        "hr",
    ):
        assert answer.locator(tag).count() >= 1, tag
    links = answer.locator("a").evaluate_all("links => links.map(link => link.href)")
    assert len(links) == 3
    assert all(address.startswith("https://example.org") for address in links)
    harmless(page)


def drawn_of(page: Any, text: str) -> str:
    """The HTML of a line of Markdown."""
    code = """({ inline }, text) => {
        const part = document.createElement("p");
        part.append(...inline(text));
        return part.innerHTML;
    }"""
    return str(call(page, "chat/inline.js", code, text))


def test_addresses_end_where_their_sentence_does(open_page: OpenPage, fake_url: str) -> None:
    page = open_page(fake_url)
    link = '(text) => text.replace(/<a href="([^"]*)"[^>]*>([^<]*)<.a>/g, \'[$2]{$1}\')'
    wiki = "https://example.org/Foo_(bar)"
    for text, shown in (
        ("See https://example.org/a.", "See [https://example.org/a]{https://example.org/a}."),
        (f"({wiki}), so", f"([{wiki}]{{{wiki}}}), so"),
        (f"[it]({wiki}).", f"[it]{{{wiki}}}."),
        ("https://example.org/?a=1&b=2!", "[https://example.org/?a=1&amp;b=2]{https://example.org/?a=1&amp;b=2}!"),
        ("**https://example.org/**", "<strong>[https://example.org/]{https://example.org/}</strong>"),
        ("https://...", "https://..."),
    ):
        assert page.evaluate(link, drawn_of(page, text)) == shown


def test_marks_of_both_kinds_and_marks_that_are_meant(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    page = open_page(fake_url)
    for text, shown in (
        ("***a b*** c", "<strong><em>a b</em></strong> c"),
        ("**a** *b*", "<strong>a</strong> <em>b</em>"),
        (r"2 \* 3 \* 4, a\_b, \$5", "2 * 3 * 4, a_b, $5"),
        (r"`\*` C:\new", r"<code>\*</code> C:\new"),
    ):
        assert drawn_of(page, text) == shown
    service.events = [block("| a \\| b | c |\n|---|---|\n| 1 | `x\\|y` |\n"), Finished(result())]
    answer = ask(ready(page), "x")
    assert answer.locator("th").all_inner_texts() == ["a | b", "c"]
    assert answer.locator("td").all_inner_texts() == ["1", "x|y"]


def test_tokens_their_history_and_what_is_held(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    tokens = [(30, EVIL, 0.01, True), (1, "<eos>", 0.01, True)]
    service.events = [canvas_of(tokens), block(EVIL), canvas_of(tokens, canvas=1), Finished(result())]
    page = ready(open_page(fake_url))
    ask(page, "x")
    expect(page.locator("#cell-0")).to_have_text(EVIL, use_inner_text=True)
    expect(page.locator(".before")).to_have_text(EVIL, use_inner_text=True)
    page.locator("#cell-0").click()
    drawn(page)
    expect(page.locator(".history")).to_contain_text(EVIL, use_inner_text=True)
    expect(page.locator("#hold-instead")).to_have_value(EVIL)
    page.locator("#cell-1").hover()
    page.locator(".history").get_by_text("<eos>").wait_for()
    harmless(page)


def test_a_trace_a_link_and_a_request(open_page: OpenPage, service: FakeService, fake_url: str, tmp_path: Any) -> None:
    frame = {
        "seconds": 0.1, "event": "draft", "canvas": 0, "step": 1, "max_denoising_steps": 9, "temperature": 0.5,
        "tokens": [30], "accepted": [True], "entropy": [0.1], "pieces": [EVIL],
    }  # fmt: skip
    end = {"text": EVIL, "denoising_steps": [1], "seed": EVIL, "finish_reason": EVIL}
    rows = [
        {"gesso_trace": 1, "model": EVIL, "prompt": EVIL, "special": []}, frame,
        {"seconds": 1, "event": "finished", "result": end},
    ]  # fmt: skip
    path = tmp_path / "<img src=x>.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    page = ready(open_page(f"{fake_url}/#prompt={EVIL}&system={EVIL}&set.stop={EVIL}&model={EVIL}"))
    expect(page.get_by_label("Your message")).to_have_value(EVIL)
    page.locator("#trace-file").set_input_files(path)
    page.get_by_role("heading", name="Canvas of <img src=x>.jsonl").wait_for()
    drawn(page)
    expect(page.locator("#cell-0")).to_have_text(EVIL, use_inner_text=True)
    page.get_by_role("button", name="Request as code").click()
    assert page.locator("#request-dialog").inner_text().count("window.hacked=1") >= 4
    harmless(page)


def test_names_of_models_and_errors_of_the_server(open_page: OpenPage, service: FakeService) -> None:
    with running(service, served_model_name=EVIL) as url:
        page = ready(open_page(url, expected=("Failed to load resource",)))
        expect(page.get_by_label("Model").locator("option").first).to_have_text(EVIL, use_inner_text=True)
        service.error = OptionError(EVIL, option="seed")
        ask(page, "x")
        expect(page.locator("#alert")).to_contain_text(EVIL, use_inner_text=True)
        expect(page.locator("#option-seed-error")).to_contain_text(EVIL, use_inner_text=True)
        expect(page.locator(".turn.assistant")).to_contain_text(EVIL, use_inner_text=True)
        harmless(page)


def test_lists_quotes_and_tables_run_as_their_texts_do(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    arabic, english = "\u0643\u0644\u0645\u0629", "word."
    for right, first, then in ((True, arabic, english), (False, english, arabic)):
        text = (
            f"- {first}\n- {then}\n\n1. {first}\n\n> {first}\n>\n> {then}\n\n| {first} | {then} |\n|---|---|\n| 1 | 2 |"
        )
        service.events = [block(text), Finished(result())]
        answer = ask(ready(open_page(fake_url)), "x").locator(".answer")
        padding = "part => ['Left', 'Right'].map((side) => getComputedStyle(part)[`padding${side}`])"
        for part in ("ul", "ol", "blockquote"):
            left, other = answer.locator(part).evaluate(padding)
            assert (left == "0px", other == "0px") == (right, not right), part
        edges = answer.locator("li").evaluate_all(
            """items => items.map((item) => {
                const range = document.createRange();
                range.selectNodeContents(item);
                const [text, box] = [range, item].map((part) => part.getBoundingClientRect());
                return box.right - text.right < text.left - box.left;
            })"""
        )
        assert edges == [right] * 3  # beside the signs of the items
        heads = answer.locator("th").evaluate_all("heads => heads.map((head) => head.getBoundingClientRect().left)")
        assert (heads[0] > heads[1]) == right
