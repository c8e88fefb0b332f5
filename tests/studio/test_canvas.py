"""The canvas: every step of it, what is told of a position, and going on with a token held."""

import json
from pathlib import Path
from typing import Any

from server.fake import FakeService, block, frame, result

from gesso.engine.events import DenoisingFrame, Finished
from gesso.engine.trace import read_trace, replay
from studio.conftest import OpenPage, ask, drawn, expect, ready, saved_file
from studio.harm import EVIL

QUESTION = "What is 481 + 296?"


def canvas_of(tokens: list[tuple[int, str, float, bool]], step: int = 1, **more: Any) -> DenoisingFrame:
    ids, pieces, entropy, accepted = zip(*tokens, strict=True)
    fields: dict[str, Any] = {"canvas": 0, "max_denoising_steps": 48, "temperature": 0.7, "canvas_tokens": ids}
    return DenoisingFrame(step=step, tokens=ids, pieces=pieces, entropy=entropy, accepted=accepted, **(fields | more))


def classes(page: Any, place: int) -> set[str]:
    return set(page.locator(f"#cell-{place}").get_attribute("class").split())


def step_to(page: Any, index: int) -> None:
    page.get_by_label("Step", exact=True).evaluate(
        "(slider, index) => { slider.value = index; slider.dispatchEvent(new Event('input')); }", index
    )
    page.locator(f'input[type="range"][aria-valuetext^="{index + 1} of"]').wait_for()
    drawn(page)


def test_certainty_and_what_a_step_did(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    first = [(30, "a", 0.01, True), (31, "b", 0.3, True), (32, "c", 1.0, False), (33, "d", 3.0, False)]
    then = [(30, "a", 0.01, True), (31, "b", 0.3, False), (40, "C", 1.0, True), (1, "<eos>", 3.0, False)]
    flags = {"pinned": (True, False, False, False), "forced": (False, False, True, False)}
    service.events = [canvas_of(first), canvas_of(then, 2, **flags), block("abC"), Finished(result())]
    page = ready(open_page(fake_url))
    ask(page, "x")
    step_to(page, 1)
    assert classes(page, 0) == {"cell", "sure", "accepted", "pinned"}
    assert classes(page, 1) == {"cell", "likely", "renoised"}
    assert classes(page, 2) == {"cell", "open", "accepted", "changed", "forced"}
    assert classes(page, 3) == {"cell", "noise", "redrawn", "changed", "special"}
    expect(page.locator("#cell-3")).to_have_text("\u00b7", use_inner_text=True)
    step_to(page, 0)
    assert classes(page, 1) == {"cell", "likely", "accepted"}
    expect(page.locator("#cell-3")).to_have_text("d", use_inner_text=True)
    expect(page.locator(".figures")).to_contain_text("1 of 48", use_inner_text=True)


def test_every_step_can_be_played_again(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    steps = [canvas_of([(30 + step, str(step), 0.0, True)], step) for step in range(1, 6)]
    service.events = [*steps, block("5"), Finished(result())]
    page = ready(open_page(fake_url))
    ask(page, "x")
    cell = page.locator("#cell-0")
    expect(cell).to_have_text("5", use_inner_text=True)
    for _ in range(9):
        page.get_by_role("button", name="Step back").click()
    page.get_by_text("1 of 48").wait_for()
    drawn(page)
    expect(cell).to_have_text("1", use_inner_text=True)
    page.get_by_role("button", name="Step forward").click()
    page.get_by_text("2 of 48").wait_for()
    page.get_by_label("Speed").select_option("4")
    page.get_by_role("button", name="Play").click()
    page.get_by_text("5 of 48").wait_for()
    page.get_by_role("button", name="Play").wait_for()
    page.get_by_label("Step", exact=True).press("Home")
    page.get_by_text("1 of 48").wait_for()


def test_what_is_played_until_it_catches_up_is_followed(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    service.events = [canvas_of([(30, "a", 0.0, True)], step) for step in (1, 2)]
    page = ready(open_page(fake_url))
    page.get_by_label("Your message").fill("x")
    page.get_by_label("Your message").press("Enter")
    page.get_by_text("2 of 48").wait_for()
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Play").wait_for()
    service.tickets[-1].send(canvas_of([(30, "c", 0.0, True)], 3))
    page.get_by_text("3 of 48").wait_for()


def test_the_history_of_a_position_by_pointer_and_by_keyboard(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    events = [
        canvas_of([(30, "x", 2.0, False), (50, "k", 0.1, True)], 1),
        canvas_of([(31, "y", 1.0, False), (50, "k", 0.1, True)], 2),
        canvas_of([(31, "y", 0.01, True), (50, "k", 0.1, True)], 3),
    ]
    service.events = [*events, block("yk"), Finished(result())]
    page = ready(open_page(fake_url))
    ask(page, "x")
    history = page.locator(".history")
    page.locator("#cell-0").hover()
    history.get_by_text("Position 1 of canvas 1: this token since step 2").wait_for()
    rows = [row.split() for row in history.locator("tbody tr").all_inner_texts()]
    assert rows == [
        ["3", "y", "0.010", "accepted"],
        ["2", "y", "1.000", "drawn", "anew"],
        ["1", "x", "2.000", "drawn", "anew"],
    ]
    page.get_by_role("listbox").focus()
    page.keyboard.press("End")
    history.get_by_text("Position 2 of canvas 1: this token since step 1").wait_for()
    expect(page.get_by_role("listbox")).to_have_attribute("aria-activedescendant", "cell-1")
    expect(page.locator("#announcements")).to_contain_text("position 2: k, likely, accepted", use_inner_text=True)
    page.keyboard.press("Enter")
    page.get_by_text("1 token is held.").wait_for()
    expect(page.locator("#announcements")).to_have_text("position 2 is held", use_inner_text=True)
    expect(page.locator("#cell-1")).to_have_attribute("aria-selected", "true")
    page.keyboard.press(" ")
    page.get_by_text("1 token is held.").wait_for(state="hidden")
    expect(page.locator("#announcements")).to_have_text("position 2 is free again", use_inner_text=True)


def test_going_on_from_a_step_with_a_token_held(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    early = [(30, "a", 0.01, True), (31, "b", 0.9, False)]
    service.events = [
        canvas_of(early, 1, canvas_tokens=(30, 77)), canvas_of(early, 2), block("ab", tokens=(30, 31)),
        canvas_of(early, 1, canvas=1, canvas_tokens=(41, 42)), block("ab"), Finished(result()),
    ]  # fmt: skip
    page = ready(open_page(fake_url))
    ask(page, "x")
    step_to(page, 0)
    page.locator("#cell-1").click()
    page.get_by_role("button", name="Go on from step 1").click()
    page.get_by_text("2 of 2").wait_for()
    page.locator('[data-state="running"]').wait_for(state="detached")
    given = service.requests[-1].options
    assert (given["canvas"], given["start_canvas"], given["start_step"]) == ([None, 31], [30, 31], 1)
    assert given["seed"] == 9

    step_to(page, 2)
    page.locator("#cell-0").click()
    page.get_by_label("At position 1 hold").fill("Hi")
    page.get_by_role("button", name="Change").click()
    page.locator("#cell-0", has_text="H").wait_for()
    page.get_by_role("button", name="Go on from step 1").click()
    page.get_by_text("3 of 3").wait_for()
    page.locator('[data-state="running"]').wait_for(state="detached")
    held = service.engine.tokenizer.encode("Hi")[:2]
    given = service.requests[-1].options
    assert given["canvas"] == [30, 31, *held, None][:4]
    assert given["start_canvas"] == [30, 31, *held, 42][:4]


def test_what_is_held_goes_with_its_answer(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    service.events = [canvas_of([(30, "a", 0.01, True)]), block("a"), Finished(result())]
    page = ready(open_page(fake_url))
    ask(page, "x")
    page.locator("#cell-0").click()
    page.get_by_text("1 token is held.").wait_for()
    service.events = [block("an answer without a canvas"), Finished(result())]
    ask(page, "y")
    expect(page.locator(".holding")).to_be_hidden()


def test_a_stopped_answer_says_why_it_cannot_be_gone_on_with(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    service.events = [canvas_of([(30, "a", 0.01, True)]), block("the beginning")]
    page = ready(open_page(fake_url))
    page.get_by_label("Your message").fill("go on for ever")
    page.get_by_label("Your message").press("Enter")
    page.get_by_text("the beginning").wait_for()
    page.locator("#stop").click()
    page.get_by_text("Stopped: the answer ends here").wait_for()
    page.locator("#cell-0").click()
    page.get_by_text("It cannot be gone on from here: the answer did not come to its end").wait_for()
    expect(page.get_by_role("button", name="Go on from step 1")).to_be_disabled()


def test_the_model_goes_on_with_what_is_held(open_page: OpenPage, mini_url: str) -> None:
    page = ready(open_page(mini_url))
    page.locator("#settings summary").first.click()
    page.locator("#option-seed").fill("7")
    ask(page, QUESTION)
    step_to(page, 0)
    page.locator("#cell-0").click()
    page.get_by_label("At position 1 hold").fill("9")
    page.get_by_role("button", name="Change").click()
    page.locator("#cell-0", has_text="9").wait_for()
    page.get_by_role("button", name="Go on from step 1").click()
    page.get_by_text("2 of 2").wait_for()
    page.locator('[data-state="running"]').wait_for(state="detached")
    answer = page.locator(".turn.assistant .answer").inner_text()
    assert answer.startswith("9")
    drawn(page)
    expect(page.locator("#cell-0.pinned")).to_have_count(1)
    step_to(page, 0)
    expect(page.locator(".figures")).to_contain_text("2 of", use_inner_text=True)


def header_with(trace: str, request: Any) -> bytes:
    """A trace with another request in its header."""
    head, rest = trace.split("\n", 1)
    return f"{json.dumps(json.loads(head) | {'request': request})}\n{rest}".encode()


def test_a_trace_is_saved_and_opened_again(open_page: OpenPage, mini_url: str, tmp_path: Any) -> None:
    page = ready(open_page(mini_url))
    answer = ask(page, QUESTION)
    with saved_file(page) as saved:
        answer.get_by_role("button", name="Save trace").click()
    path = tmp_path / "trace.jsonl"
    path.write_text(saved[0], encoding="utf-8")
    trace = read_trace(path)
    assert (trace.model, trace.prompt) == ("mini", QUESTION)
    last = trace.events[-1][1]
    assert isinstance(last, Finished)
    assert last.result.text == "777"
    assert last.result.completion_tokens == len(last.result.token_ids)
    frames = [event for _, event in trace.events if isinstance(event, DenoisingFrame)]
    assert len(frames[0].canvas_tokens) == 32

    other = ready(open_page(mini_url))
    other.locator("#trace-file").set_input_files(path)
    other.get_by_role("heading", name="Canvas of trace.jsonl").wait_for()
    other.get_by_text(f"{frames[-1].step} of 12").wait_for()  # its settings
    expect(other.locator(".cell[id]")).to_have_count(32)
    other.locator("#cell-0").click()
    expect(other.get_by_role("button", name="Go on from step")).to_be_enabled()

    for broken, told in (
        (b"{}", "this is no gesso trace"),
        (b"\x00", "line 1 of this file"),
        (header_with(saved[0], {}), "line 1 of this trace is not whole"),
        (header_with(saved[0], {"messages": "hi"}), "line 1 of this trace is not whole"),
        (saved[0].encode()[:-300], "line"),
    ):
        path.write_bytes(broken)
        other.locator("#trace-file").set_input_files(path)
        other.locator("#alert").get_by_text(told).wait_for()
        other.locator("#alert").get_by_role("button", name="Close").click()


def test_a_trace_and_an_answer_do_not_take_the_canvas_from_each_other(
    open_page: OpenPage, service: FakeService, fake_url: str, tmp_path: Path
) -> None:
    draft = {
        "seconds": 0.1, "event": "draft", "canvas": 0, "step": 1, "max_denoising_steps": 9, "temperature": 0.5,
        "tokens": [30], "accepted": [True], "entropy": [0.1], "pieces": ["a"],
    }  # fmt: skip
    end = {"seconds": 1, "event": "finished", "result": {"text": "a", "denoising_steps": [1], "seed": 1}}
    path = tmp_path / "trace.jsonl"
    header = {"gesso_trace": 1, "model": "m", "prompt": "p", "special": []}
    path.write_text("\n".join(map(json.dumps, (header, draft, end))), encoding="utf-8")
    page = ready(open_page(fake_url))
    heading = page.locator("#canvas-heading")
    page.locator("#trace-file").set_input_files(path)
    expect(heading).to_have_text("Canvas of trace.jsonl")
    ask(page, "x")
    expect(heading).to_have_text("Canvas")

    service.events = [frame(1), block("the beginning")]
    page.get_by_label("Your message").fill("go on for ever")
    page.get_by_label("Your message").press("Enter")
    page.get_by_text("the beginning").wait_for()
    page.locator("#trace-file").set_input_files(path)
    page.locator("#alert", has_text="trace.jsonl: an answer is being written: stop it first").wait_for()
    expect(heading).to_have_text("Canvas")
    page.locator("#stop").click()
    page.get_by_text("Stopped: the answer ends here").wait_for()
    page.locator("#trace-file").set_input_files(path)
    expect(heading).to_have_text("Canvas of trace.jsonl")


def test_the_canvas_of_another_answer_stays_while_one_is_written(
    open_page: OpenPage, service: FakeService, fake_url: str
) -> None:
    first, second = ([(token, piece, 0.01, True)] for token, piece in ((30, "a"), (31, "b")))
    service.events = [canvas_of(first), block("a"), Finished(result())]
    page = ready(open_page(fake_url))
    ask(page, "x")
    service.events = [canvas_of(second), block("b")]
    page.get_by_label("Your message").fill("y")
    page.get_by_label("Your message").press("Enter")
    cell = page.locator("#cell-0")
    expect(cell).to_have_text("b")
    shown = page.get_by_role("button", name="Canvas")
    shown.first.click()
    expect(cell).to_have_text("a")
    for event in (canvas_of(second, 2), block(" and the end")):
        service.tickets[-1].send(event)
    page.get_by_text("and the end").wait_for()
    drawn(page)
    expect(cell).to_have_text("a")
    shown.last.click()
    expect(cell).to_have_text("b")
    shown.first.click()
    service.tickets[-1].send(Finished(result()))
    page.locator('[data-state="running"]').wait_for(state="detached")
    drawn(page)
    expect(cell).to_have_text("a")


def test_characters_of_several_tokens_stay_whole(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    family = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
    hebrew, japanese = " \u05e9\u05dc\u05d5\u05dd", "\u65e5\u672c"
    texts = ["\U0001f469", "\u200d", "\U0001f469\u200d", "\U0001f467 e", "\u0301", hebrew, japanese, "\n"]
    tokens = [(30 + place, text, 0.01, True) for place, text in enumerate(texts)]
    service.events = [canvas_of(tokens), block("".join(texts)), Finished(result())]
    page = ready(open_page(fake_url))
    ask(page, "x")
    shown = [page.locator(f"#cell-{place}").evaluate("cell => cell.textContent") for place in range(len(texts))]
    assert shown == [family, "", "", " e\u0301", "", hebrew, japanese, "\u21b5\n"]


def test_steps_that_were_let_go_are_told(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    service.events = [frame(1), block("x"), Finished(result())]
    ask(page, "x")
    found = page.evaluate(
        """() => import("/studio/chat/conversation.js").then(async ({ Conversation }) => {
            const { Recording } = await import("/studio/run/recording.js");
            const conversation = new Conversation();
            for (let n = 0; n < 4; n++) {
                const recording = new Recording({ model: "m", prompt: "p", special: [] });
                recording.addFrame({ canvas: 0, step: 1, tokens: Array(100).fill(5) }, 0);
                conversation.begin(conversation.ask("x"), recording);
            }
            conversation.shrink(250);
            return conversation.recordings.map((recording) => [recording.size, recording.forgotten]);
        })"""
    )
    assert found == [[0, True], [0, True], [100, False], [100, False]]


def test_a_replay_is_shown_by_the_same_canvas(open_page: OpenPage, tmp_path: Path) -> None:
    first = canvas_of([(30, "a", 0.01, True), (31, EVIL, 1.0, False)])
    then = canvas_of([(30, "a", 0.01, True), (40, "C", 0.3, True)], 2)
    events = (first, then, block("aC"), Finished(result(text="aC")))
    path = tmp_path / "page.html"
    replay(events, prompt=EVIL).save(path)
    page = open_page(path.as_uri())
    page.get_by_text("2 of 48").wait_for()
    assert classes(page, 1) == {"cell", "likely", "accepted", "changed"}
    page.get_by_role("button", name="Step back").click()
    page.get_by_text("1 of 48").wait_for()
    drawn(page)
    expect(page.locator("#cell-1")).to_have_text(EVIL, use_inner_text=True)
    page.locator("#cell-1").click()
    page.locator(".history").get_by_text("Position 2 of canvas 1: this token since step 1").wait_for()
    expect(page.locator(".holding")).to_be_hidden()
    expect(page.locator("#prompt")).to_have_text(EVIL, use_inner_text=True)
    page.get_by_role("button", name="Play").click()
    page.get_by_text("2 of 48").wait_for()
    assert page.evaluate("window.hacked") is None
    expect(page.locator("img, b")).to_have_count(0)


def test_a_notebook_shows_the_same_in_a_frame(open_page: OpenPage, tmp_path: Path) -> None:
    shown = replay([canvas_of([(30, EVIL, 0.01, True)]), block(EVIL), Finished(result(text=EVIL))])
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><title>notebook</title>{shown._repr_html_()}", encoding="utf-8")
    page = open_page(path.as_uri())
    cell = page.frame_locator("iframe").locator("#cell-0")
    cell.wait_for()
    expect(cell).to_have_text(EVIL, use_inner_text=True)
    assert page.evaluate("window.hacked") is None
