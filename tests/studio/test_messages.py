"""What a message may carry: images, tools and their results, the last answer as a start; and previews of pages."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine.seeing import png
from server.conftest import running
from server.fake import FakeService, block, result

from gesso.api import load
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.engine.events import Finished
from gesso.text.output import ToolCall
from studio.conftest import OpenPage, ask, expect, ready
from studio.harm import EVIL


@pytest.fixture(scope="module")
def seeing_url(seeing_folder: Path) -> Iterator[str]:
    with running(AsyncEngine(load(seeing_folder, "cpu"), Limits(prefill_chunk=32)), max_images=2) as url:
        yield url


def image(name: str = "a.png", kind: str = "image/png") -> Any:
    return {"name": name, "mimeType": kind, "buffer": png(1)}


def test_images_go_to_a_model_that_sees(open_page: OpenPage, seeing_url: str) -> None:
    page = ready(open_page(f"{seeing_url}/#set.max_tokens=8&set.seed=1&set.mm_processor_kwargs.max_soft_tokens=70"))
    page.locator("#picture-file").set_input_files([image(EVIL), image("b.png")])
    expect(page.locator("#pictures img")).to_have_count(2)
    page.get_by_role("button", name=f"Take {EVIL} away").click()
    page.locator("#picture-file").set_input_files([image("c.png"), image("d.png")])
    page.locator("#alert", has_text="A message may have 2 images.").wait_for()
    page.get_by_role("button", name="Request as code").click()
    expect(page.locator("#request-dialog")).to_contain_text("data:image/png;base64", use_inner_text=True)
    page.get_by_role("button", name="Close").last.click()
    ask(page, "what?")
    for place, name in enumerate(["b.png", "c.png"]):
        expect(page.locator(".turn.user img").nth(place)).to_have_attribute("alt", name)
    expect(page.locator("#pictures")).to_be_hidden()
    page.locator("#picture-file").set_input_files([image("x.txt", "text/plain")])
    page.locator("#alert", has_text="x.txt is no image.").wait_for()
    body = "document.querySelector('.turn.user .said').textContent"
    assert page.evaluate(body) == "what?"


def test_a_model_without_eyes_refuses_images_in_one_line(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    page = ready(open_page(fake_url))
    page.get_by_role("button", name="Add an image").click()
    page.locator("#alert", has_text="mini takes no images: its checkpoint has no vision tower.").wait_for()
    page.get_by_role("button", name="Close").click()
    drop = """() => {
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File(["x"], "x.png", { type: "image/png" }));
        const drop = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
        document.getElementById("prompt").dispatchEvent(drop);
    }"""
    page.evaluate(drop)
    page.locator("#alert", has_text="takes no images").wait_for()
    expect(page.locator("#pictures img")).to_have_count(0)
    assert service.requests == []


PASTE = """([kind, text]) => {
    const clipboardData = new DataTransfer();
    if (text) clipboardData.setData("text", text);
    clipboardData.items.add(new File(["x"], "x.png", { type: kind }));
    const paste = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
    return document.getElementById("prompt").dispatchEvent(paste);
}"""


def test_text_that_is_pasted_goes_before_its_picture(open_page: OpenPage, seeing_url: str, fake_url: str) -> None:
    """As from a spreadsheet or a word processor, which copy both."""
    page = ready(open_page(fake_url))
    assert page.evaluate(PASTE, ["image/png", "a\tb\n1\t2"]), "the browser puts the text in"
    expect(page.locator("#alert")).to_be_hidden()
    page = ready(open_page(seeing_url))
    assert page.evaluate(PASTE, ["image/png", "a\tb\n1\t2"])
    for number, names in enumerate(("", "/home/me/x.png"), 1):  # a picture; a file of a file manager
        assert not page.evaluate(PASTE, ["image/png", names])
        expect(page.locator("#pictures img")).to_have_count(number)


def test_a_follow_up_starts_from_the_last_answer(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    expect(page.get_by_label("Start from the last answer")).to_be_hidden()
    ask(page, "one")
    page.get_by_label("Start from the last answer").check()
    page.locator("#strength").fill("0.55")
    page.locator("#strength-shown", has_text="55 %").wait_for()
    ask(page, "two")
    options = service.requests[-1].options
    assert (options["prediction"], options["strength"]) == ("Hello there", 0.55)
    page.get_by_role("button", name="Retry, same seed").last.click()
    page.get_by_text("2 of 2").wait_for()
    page.locator('[data-state="running"]').wait_for(state="detached")
    assert service.requests[-1].options == {**options, "seed": 9}
    page.get_by_label("Start from the last answer").uncheck()
    ask(page, "three")
    assert service.requests[-1].options == {}


TOOL = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}


def test_tools_are_called_and_their_results_given(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    calls = (ToolCall("weather", json.dumps({"city": EVIL})), ToolCall("weather", '{"city": "Oslo"}'))
    service.events = [block("", "", calls), Finished(result(text="", tool_calls=calls))]
    page = ready(open_page(fake_url))
    page.locator("#settings > summary").click()
    tools = page.get_by_label("Tools of the chat")
    tools.fill('{"name": 1}')
    page.get_by_label("Your message").fill("kept")
    page.locator("#send").click()
    page.locator("#alert", has_text="The tools must be a JSON list").wait_for()
    tools.fill(json.dumps([TOOL]))
    answer = ask(page, "weather?")
    assert service.requests[-1].options["tools"] == [{"type": "function", "function": TOOL}]
    assert EVIL in json.loads(answer.locator(".call code").first.inner_text())["city"]
    for number, told in ((1, "rain"), (2, EVIL)):
        answer.get_by_label(f"Result of weather, call {number}").fill(told)
    service.events = [block("It rains."), Finished(result())]
    answer.get_by_role("button", name="Give the results").click()
    page.get_by_text("It rains.").wait_for()
    page.locator('[data-state="running"]').wait_for(state="detached")
    *_, made, first, second = service.requests[-1].prompt
    assert [call["function"]["name"] for call in made["tool_calls"]] == ["weather", "weather"]
    assert [(message["role"], message["content"]) for message in (first, second)] == [("tool", "rain"), ("tool", EVIL)]
    expect(page.get_by_role("button", name="Give the results")).to_have_count(0)
    assert page.evaluate("window.hacked") is None


def test_a_result_that_is_typed_stays_when_other_answers_are_looked_at(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    calls = (ToolCall("weather", '{"city": "Oslo"}'),)
    service.events = [block("", "", calls), Finished(result(text="", tool_calls=calls))]
    page = ready(open_page(fake_url))
    ask(page, "weather?").get_by_role("button", name="Retry, other seed").click()
    page.get_by_text("2 of 2").wait_for()
    page.locator('[data-state="running"]').wait_for(state="detached")
    returned = page.get_by_label("Result of weather, call 1")
    returned.fill("rain")
    page.get_by_role("button", name="Earlier answer").click()
    expect(returned).to_have_value("")
    page.get_by_role("button", name="Later answer").click()
    expect(returned).to_have_value("rain")


def test_a_wrong_setting_leaves_the_conversation_as_it_was(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    calls = (ToolCall("weather", '{"city": "Oslo"}'),)
    service.events = [block("", "", calls), Finished(result(text="", tool_calls=calls))]
    page = ready(open_page(fake_url))
    page.locator("#settings > summary").click()
    page.get_by_label("Tools of the chat").fill(json.dumps([TOOL]))
    answer = ask(page, "weather?")
    wrong = page.locator("#alert", has_text="top_p must be a number")
    top_p = page.get_by_label("top p")
    top_p.fill("0")
    answer.get_by_label("Result of weather, call 1").fill("rain")
    give = answer.get_by_role("button", name="Give the result")
    give.click()
    wrong.wait_for()
    assert len(service.requests) == 1
    top_p.fill("")
    service.events = [block("It rains."), Finished(result())]
    give.click()
    page.get_by_text("It rains.").wait_for()
    page.locator('[data-state="running"]').wait_for(state="detached")
    assert [message["role"] for message in service.requests[-1].prompt] == ["user", "assistant", "tool"]

    top_p.fill("0")
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Your message").first.fill("sun?")
    page.get_by_label("Your message").first.press("Enter")
    wrong.wait_for()
    page.locator(".turn").get_by_role("button", name="Cancel").click()
    top_p.fill("")
    ask(page, "and now?")
    said = [message["content"] for message in service.requests[-1].prompt if message["role"] == "user"]
    assert said == ["weather?", "and now?"]
    assert len(service.requests) == 3


PAGE = """Here it is:

```html
<style>p { color: rgb(1, 2, 3) }</style>
<p id="shown">rendered</p>
<script>
document.getElementById("shown").title = "ran";
try { parent.document.title = "taken"; } catch { document.body.dataset.parent = "closed"; }
fetch("/v1/models").catch(() => { document.body.dataset.network = "closed"; });
</script>
```
"""


def test_a_page_is_shown_in_a_frame_that_reaches_nothing(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    service.events = [block(PAGE), Finished(result())]
    page = ready(open_page(fake_url, expected=("violates the following Content Security Policy", "Fetch API cannot")))
    ask(page, "a page, please")
    expect(page.locator("iframe")).to_have_count(0)
    page.get_by_text("Preview of the page that stands in the canvas").click()
    frame = page.frame_locator("iframe")
    shown = frame.locator("#shown")
    shown.wait_for()
    frame.locator('body[data-network="closed"]').wait_for()
    expect(shown).to_have_attribute("title", "ran")
    assert shown.evaluate("part => getComputedStyle(part).color") == "rgb(1, 2, 3)"
    expect(frame.locator("body")).to_have_attribute("data-parent", "closed")
    assert page.title() == "gesso studio"
    expect(page.locator("iframe")).to_have_attribute("sandbox", "allow-scripts")
    expect(page.locator(".answer code")).to_contain_text("<script>", use_inner_text=True)
    service.events = [block("no page"), Finished(result())]
    ask(page, "again")
    page.locator("iframe").wait_for(state="hidden")


CALLING = """```html
<!doctype html>
<p id="shown">rendered</p>
<script>
const names = ["RTCPeerConnection", "webkitRTCPeerConnection"];
document.body.dataset.left = names.filter((name) => name in window).join();
if (window.RTCPeerConnection) {
  const peer = new RTCPeerConnection({ iceServers: [{ urls: "stun:127.0.0.1:PORT" }] });
  peer.createDataChannel("x");
  peer.createOffer().then((offer) => peer.setLocalDescription(offer));
}
</script>
```
"""


def test_a_page_calls_nobody_by_webrtc(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(3)
        service.events = [block(CALLING.replace("PORT", str(listener.getsockname()[1]))), Finished(result())]
        page = ready(open_page(fake_url))
        ask(page, "a page, please")
        page.get_by_text("Preview of the page that stands in the canvas").click()
        frame = page.frame_locator("iframe")
        frame.locator("#shown").wait_for()
        with pytest.raises(TimeoutError):
            listener.recv(2000)
        expect(frame.locator("body")).to_have_attribute("data-left", "")


def test_what_is_typed_while_the_page_loads_stays(open_page: OpenPage, fake_url: str) -> None:
    page = ready(open_page(f"{fake_url}/#prompt=of%20the%20link"))
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    page.route("**/studio.js", hold)
    page.reload(wait_until="commit")
    message = page.get_by_label("Your message")
    expect(page.get_by_role("button", name="Send")).to_be_disabled()
    message.fill("typed")
    while not held:
        page.wait_for_timeout(10)
    held[0].continue_()
    ready(page)
    expect(message).to_have_value("typed")
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    other = ready(open_page(f"{fake_url}/#prompt=of%20the%20link"))
    expect(other.get_by_label("Your message")).to_have_value("of the link")
