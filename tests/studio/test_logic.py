"""Parts of the page that draw nothing, run as they are, in the browser."""

import json
from typing import Any

from studio.conftest import OpenPage


def call(page: Any, module: str, code: str, *arguments: Any) -> Any:
    """What `code`, a function of a module and of the arguments, returns."""
    return page.evaluate(
        f"arguments => import('/studio/{module}').then(module => ({code})(module, ...arguments))", list(arguments)
    )


def test_events_come_in_any_pieces(open_page: OpenPage, fake_url: str) -> None:
    page = open_page(fake_url)
    text = ": hi\n\n"
    text += 'event: diffusion.draft\ndata: {"a":\ndata: 1}\n\ndata: \u00e9\r\n\r\ndata:x\n\nevent: none\n\ndata: cut'
    code = """({ EventParser }, text, size) => {
        const parser = new EventParser();
        const events = [];
        for (let at = 0; at < text.length; at += size) events.push(...parser.push(text.slice(at, at + size)));
        return events;
    }"""
    whole = [
        {"event": "diffusion.draft", "data": '{"a":\n1}'}, {"event": "", "data": "\u00e9"}, {"event": "", "data": "x"},
    ]  # fmt: skip
    for size in (1, 2, 3, 7, 1000):
        assert call(page, "api/events.js", code, text, size) == whole, size


def test_values_become_python(open_page: OpenPage, fake_url: str) -> None:
    page = open_page(fake_url)
    values = [None, True, -1.5, "\u2028'\"\\\n\U0001f600", [], {}, {"a": [1, {"b": None}]}, ["x" * 60, "y" * 60]]
    for value in values:
        written = call(page, "api/body.js", "({ asLiteral }, value) => asLiteral(value, 0)", value)
        assert eval(written) == value


def test_a_trace_comes_back_as_it_was(open_page: OpenPage, fake_url: str) -> None:
    page = open_page(fake_url)
    code = """({ traceOf, recordingOf }, text) => traceOf(recordingOf(text))"""
    draft = {
        "seconds": 0.5, "event": "draft", "canvas": 0, "step": 1, "max_denoising_steps": 9, "temperature": 0.5,
        "tokens": [5, 6], "pieces": ["a", "\u2028"], "accepted": [True, False], "entropy": [0.1, 2.0],
        "canvas_tokens": [5, 9], "pinned": [True, False], "forced": [],
    }  # fmt: skip
    block = {
        "seconds": 0.6, "event": "block", "canvas": 0, "tokens": [5, 6], "text": "a\u2028", "reasoning": "hm",
        "denoising_steps": 1, "converged": True, "tool_calls": [], "logprobs": [],
    }  # fmt: skip
    result = {
        "text": "a\u2028", "reasoning": "hm", "token_ids": [5, 6], "finish_reason": "stop", "prompt_tokens": 3,
        "completion_tokens": 2, "denoising_steps": [1], "converged": [True], "seed": 7, "seconds_to_first_block": 0.6,
        "seconds": 0.7, "tool_calls": [{"name": "f", "arguments": "{}"}], "warnings": ["odd"], "cached_tokens": 1,
        "reasoning_tokens": 1, "mode": "canvas", "decision": "", "verify_rounds": [], "rejected_tokens": 0,
    }  # fmt: skip
    head = {"gesso_trace": 1, "model": "m", "prompt": "p", "special": [1, 2], "request": None}
    rows = [head, draft, block, {"seconds": 0.7, "event": "finished", "result": result}]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    again = call(page, "run/trace.js", code, text)
    assert [json.loads(line) for line in again.split("\n")[:-1]] == rows


def test_why_an_answer_cannot_be_gone_on_with(open_page: OpenPage, fake_url: str) -> None:
    page = open_page(fake_url)
    code = """({ obstacle }, frames, blocks, body, result) =>
        obstacle({ frames, blocks, body, result, reasoning: "" }, frames.length - 1)"""
    frame = {"canvas": 0, "blocks": 0, "step": 2, "max_denoising_steps": 9, "tokens": [5, 6], "canvas_tokens": [5, 6]}
    second = {**frame, "canvas": 1, "blocks": 1}

    def why(frames: list[Any], blocks: tuple[Any, ...] = (), body: Any = "default", ended: bool = True) -> str:
        result = {"seed": 0} if ended else None
        given = {} if body == "default" else body
        return str(call(page, "run/continuation.js", code, frames, list(blocks), given, result))

    assert why([frame]) == ""
    assert "request" in why([frame], body=None)
    assert "its seed is not known" in why([frame], ended=False)
    assert "next step starts from" in why([{**frame, "canvas_tokens": []}])
    assert "no steps are left" in why([{**frame, "step": 9}])
    assert "verification" in why([frame, {**frame, "step": 11, "max_denoising_steps": 18}])
    assert "widths" in why([frame], body={"diffusion": {"canvas_width": "need"}})
    assert why([frame, second], ({"tokens": [5, 6]},)) == ""
    assert "not full" in why([frame, second], ({"tokens": [5]},))


def test_a_turn_that_failed_is_left_out_of_later_requests(open_page: OpenPage, fake_url: str) -> None:
    page = open_page(fake_url)
    code = """({ Conversation }, states) => {
        const conversation = new Conversation();
        states.forEach((state, number) => {
            const turn = conversation.ask(`question ${number}`);
            conversation.begin(turn, { text: `answer ${number}`, frames: [], size: 0 }).state = state;
        });
        return conversation.before(conversation.turns.length, "brief");
    }"""
    told = call(page, "chat/conversation.js", code, ["done", "failed", "failed", "stopped"])
    assert [message["content"] for message in told] == ["brief", "question 0", "answer 0", "question 3", "answer 3"]


def test_a_link_holds_the_tools(open_page: OpenPage, fake_url: str) -> None:
    page = open_page(fake_url)
    shared = {"prompt": "a & b", "system": "", "tools": '[{"name": "x"}]', "model": "mini", "settings": {"seed": "3"}}
    code = "({ linkTo, sharedIn }, shared) => sharedIn(linkTo('http://x/', shared).split('#')[1])"
    assert call(page, "settings/link.js", code, shared) == shared


def test_passes_that_show_nothing_count_with_the_last_frame(open_page: OpenPage, fake_url: str) -> None:
    page = open_page(fake_url)
    code = """({ figuresAt }) => {
        const frame = (canvas, step, blocks) => ({ canvas, step, blocks, max_denoising_steps: 9, temperature: 1,
            tokens: [5, 6], entropy: [0, 0], accepted: [true, true], seconds: 1 });
        const block = (steps) => ({ tokens: [5, 6], denoising_steps: steps });
        const frames = [frame(0, 1, 0), frame(0, 2, 0), frame(1, 1, 1)];
        const recording = { special: new Set(), frames, blocks: [block(3), block(2)] };
        const whole = recording.frames.map((_, index) => figuresAt(recording, index).passes);
        recording.blocks.pop();
        return [whole, figuresAt(recording, 2).passes];
    }"""
    assert call(page, "run/figures.js", code) == [[1, 3, 5], 4]
