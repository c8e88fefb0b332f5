"""Training data from JSON-lines files: what a line becomes, what is refused, and the order of it all."""

import json
import math
import os
import pickle
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gesso.errors import DataError, OptionError
from gesso.models.hf_config import read_config
from gesso.models.hub import resolve
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train import file_data
from gesso.train.batch import Conversation
from gesso.train.data_config import FileDataConfig
from gesso.train.file_data import WINDOW, FileData, epoch_order
from gesso.train.file_scan import hash_share
from gesso.train.recipe import Data

ROOT = Path(__file__).parents[2]
MINI = resolve("mini")
TOKENIZER = Tokenizer.from_folder(MINI)
TEMPLATE = ChatTemplate.from_folder(MINI)
CANVAS = 8
MODEL = replace(read_config(json.loads((MINI / "config.json").read_text(encoding="utf-8"))), canvas_length=CANVAS)
BOS, EOS, TURN_END, RESULT = (TOKENIZER.special[t] for t in ("<bos>", "<eos>", "<turn|>", "<|tool_response>"))

OPEN, CLOSE = "<|channel>thought\n", "<channel|>"
EMPTY = OPEN + CLOSE
HI = "<bos><|turn>user\nhi<turn|>\n<|turn>model\n"
HI_THINKING = "<bos><|turn>system\n<|think|>\n<turn|>\n<|turn>user\nhi<turn|>\n<|turn>model\n"

# It differs from the bundled template where released ones do: a call that is not answered ends in <|tool_response>,
# results are written with their call, a thought is opened after them, and tool turns show their thoughts.
RELEASED = """
{{- bos_token -}}
{{- '<|turn>system\n<|think|>\n<turn|>\n' if enable_thinking -}}
{%- set state = namespace(last='') -%}
{%- for m in messages -%}
    {%- if m.role == 'user' -%}
        {{- '<|turn>user\n' + m.content + '<turn|>\n' -}}
    {%- elif m.role == 'tool' -%}
        {{- 'response:f{value:' + m.content + '}<tool_response|>' -}}
    {%- else -%}
        {{- '<|turn>model\n' if state.last != 'tool' -}}
        {{- '<|channel>thought\n' + m.reasoning + '\n<channel|>' if m.reasoning and m.tool_calls -}}
        {{- m.content -}}
        {{- '<|tool_call>call:f{}<tool_call|><|tool_response>' if m.tool_calls else '<turn|>\n' -}}
    {%- endif -%}
    {%- set state.last = m.role -%}
{%- endfor -%}
{%- if add_generation_prompt and state.last != 'tool' -%}
    {{- '<|turn>model\n' -}}
    {{- '<|channel>thought\n<channel|>' if not enable_thinking -}}
{%- elif add_generation_prompt and enable_thinking -%}
    {{- '<|channel>thought\n' -}}
{%- endif -%}
"""

Line = Mapping[str, Any] | str | bytes
Make = Callable[..., FileData]


def write(path: Path, lines: Sequence[Line], end: bytes = b"\n") -> Path:
    raw = [line if isinstance(line, bytes) else as_text(line).encode() for line in lines]
    path.write_bytes(b"".join(line + end for line in raw))
    return path


def as_text(line: Mapping[str, Any] | str) -> str:
    return line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)


def open_data(
    files: Sequence[Path],
    template: ChatTemplate | None = TEMPLATE,
    held_out_files: Sequence[Path] = (),
    **config: Any,
) -> FileData:
    settings = FileDataConfig(**({"max_length": 400} | config))
    return FileData(files, TOKENIZER, template, MODEL, (EOS, TURN_END, RESULT), settings, held_out_files)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """`make(line, line, ..., **config)`: the data of one file."""
    return lambda *lines, **config: open_data([write(tmp_path / "data.jsonl", lines)], **config)


def training(data: FileData) -> list[Conversation]:
    """What there is to train on, in the order of the files."""
    return data._read(data._train)


def pairs(data: FileData) -> list[tuple[str, str]]:
    """Prompt and answer of each example, in the order of the files."""
    return [both(c) for c in training(data)]


def both(conversation: Conversation) -> tuple[str, str]:
    return TOKENIZER.decode(conversation.prompt), TOKENIZER.decode(conversation.answer)


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any, **rest: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **rest}


def chat(*messages: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"messages": list(messages), **rest}


def call(arguments: Any = None) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments or {}}}


CALLING = assistant(None, tool_calls=[call()])
ANSWERED = {"role": "tool", "tool_call_id": "c1", "content": "5"}


def texts(count: int) -> list[dict[str, str]]:
    return [{"text": f"line {i}"} for i in range(count)]


def numbers(conversations: Sequence[Conversation]) -> list[int]:
    """Which of `texts` these are."""
    return [int(TOKENIZER.decode(c.answer[:-1]).split()[1]) for c in conversations]


# Chats


def test_every_assistant_turn_is_an_example(make: Make) -> None:
    data = make(chat(user("hi"), assistant(" ho "), user("more"), assistant("ok")))
    first, second = pairs(data)
    assert first == (HI + EMPTY, "ho<turn|>")
    assert second == (HI + "ho<turn|>\n<|turn>user\nmore<turn|>\n<|turn>model\n" + EMPTY, "ok<turn|>")
    assert training(data)[0].ends


def test_the_prompt_is_what_the_engine_renders_and_the_answer_what_history_shows(make: Make) -> None:
    assert TEMPLATE is not None
    messages = [{"role": "system", "content": "Be brief."}, user("hi"), assistant("<b>ho</b>"), user("x"), CALLING]
    tools = [{"type": "function", "function": {"name": "f", "description": "", "parameters": {"type": "object"}}}]
    found = pairs(make(chat(*messages, tools=tools)))
    assert [prompt for prompt, _ in found] == [TEMPLATE.render(messages[:i], tools=tools) for i in (2, 4)]
    assert found[0][1] == "<b>ho</b><turn|>", "a < that thought and content share is not taken for the thought's"


def test_a_turn_of_weight_0_is_context_only(make: Make) -> None:
    quiet = {"role": "model", "content": "ho", "weight": 0}
    found = pairs(make(chat(assistant("hello", weight=0), user("hi"), quiet, user("x"), assistant("y", weight=1))))
    assert [answer for _, answer in found] == ["y<turn|>"]
    assert "hello<turn|>" in found[0][0]
    assert "ho<turn|>" in found[0][0]


def test_content_may_be_text_parts(make: Make) -> None:
    parts = [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]
    assert pairs(make(chat(user(parts), assistant(parts)))) == [(HI + EMPTY, "hi<turn|>")]


def test_nulls_count_as_left_out(make: Make) -> None:
    line = {"messages": [user("hi"), assistant("ho", tool_calls=None, reasoning=None)], "text": None, "tools": None}
    assert pairs(make(line)) == [(HI + EMPTY, "ho<turn|>")]


def test_a_call_ends_where_its_result_begins_and_the_turn_goes_on(make: Make) -> None:
    calling = assistant("Wait.", tool_calls=[call({"a": 1, "b": "x"})])
    first, second = pairs(make(chat(user("hi"), calling, ANSWERED, assistant("five"))))
    called = 'Wait.<|tool_call>call:f{a:1,b:<|"|>x<|"|>}<tool_call|><|tool_response>'
    assert first == (HI + EMPTY, called)
    assert second == (HI + called + 'response:f{value:<|"|>5<|"|>}<tool_response|>', "five<turn|>")


def test_a_call_without_a_result_ends_as_the_template_ends_it(make: Make) -> None:
    assert pairs(make(chat(user("hi"), CALLING)))[0][1] == "<|tool_call>call:f{}<tool_call|><turn|>"
    released = make(chat(user("hi"), CALLING), template=ChatTemplate(RELEASED, {"bos_token": "<bos>"}))
    assert pairs(released)[0][1] == "<|tool_call>call:f{}<tool_call|><|tool_response>"


def test_content_that_a_template_writes_after_the_result_is_not_lost(make: Make) -> None:
    source = (
        "{% for m in messages %}{% if m.role == 'user' %}hi{% elif m.role != 'tool' %}call"
        "{{ '<|tool_response>5<tool_response|>' if (loop.nextitem or m).role == 'tool' }}"
        "{{ m.content }}{{ '<|tool_response>' if loop.last else '<turn|>' }}{% endif %}{% endfor %}"
    )
    line = chat(user("hi"), assistant(" wait", tool_calls=[call()]), ANSWERED)
    assert pairs(make(line, template=ChatTemplate(source, {}))) == [("hi", "call wait<|tool_response>")]


def test_ids_beyond_the_vocabulary_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data.jsonl", [GOOD])
    with pytest.raises(DataError, match=r"line 1: token id \d+ is outside the vocabulary of 300"):
        FileData([path], TOKENIZER, TEMPLATE, replace(MODEL, vocab_size=300), (EOS,), FileDataConfig(50))


@pytest.mark.parametrize(
    "written",
    [
        {"function": {"name": "f", "arguments": '{"a": [1]}'}},
        {"name": "f", "arguments": {"a": [1]}},
        {"type": "function", "id": None, "function": {"name": "f", "arguments": {"a": [1]}}},
    ],
)
def test_calls_may_be_flat_or_nested_and_their_arguments_json_text(make: Make, written: dict[str, Any]) -> None:
    data = make(chat(user("hi"), assistant(None, tool_calls=[written])))
    assert pairs(data)[0][1] == "<|tool_call>call:f{a:[1]}<tool_call|><turn|>"


def test_a_result_may_be_an_object(make: Make) -> None:
    result = {"role": "tool", "name": "f", "content": {"degrees": 5}}
    data = make(chat(user("hi"), CALLING, result, assistant("ok")))
    assert pairs(data)[1][0].endswith("<|tool_response>response:f{degrees:5}<tool_response|>")


# Thinking

THOUGHTS = [
    assistant("ho", reasoning="hm"),
    assistant("ho", reasoning_content="\nhm\n"),
    assistant(f"{OPEN}hm{CLOSE}ho"),
    assistant(f"\n{OPEN}hm\n{CLOSE}\nho", reasoning=""),
]


@pytest.mark.parametrize("message", THOUGHTS)
def test_thoughts_are_kept_wherever_they_are_given(make: Make, message: dict[str, Any]) -> None:
    assert pairs(make(chat(user("hi"), message))) == [(HI_THINKING, f"{OPEN}hm\n{CLOSE}ho<turn|>")]


@pytest.mark.parametrize("message", [*THOUGHTS, assistant(f"h{EMPTY}o"), assistant(f"{OPEN}a{CLOSE}{OPEN}b{CLOSE}ho")])
def test_thoughts_are_stripped_from_answers_and_history(make: Make, message: dict[str, Any]) -> None:
    data = make(chat(user("hi"), message, user("x"), message), thinking="strip")
    first, second = pairs(data)
    assert first == (HI + EMPTY, "ho<turn|>")
    assert second == (f"{HI}ho<turn|>\n<|turn>user\nx<turn|>\n<|turn>model\n{EMPTY}", "ho<turn|>")


def test_turns_without_thoughts_are_asked_for_without(make: Make) -> None:
    data = make(chat(user("hi"), assistant("ho", reasoning="hm"), user("x"), assistant(f"{EMPTY}y", reasoning=" ")))
    (thinking, _), (plain, answer) = pairs(data)
    assert thinking == HI_THINKING
    assert plain == f"{HI}ho<turn|>\n<|turn>user\nx<turn|>\n<|turn>model\n{EMPTY}"
    assert answer == "y<turn|>"


def test_thoughts_of_calls_and_after_results(make: Make) -> None:
    calling = assistant("", tool_calls=[call()], reasoning="look")
    line = chat(user("hi"), calling, ANSWERED, assistant("five", reasoning="so"))
    called = "<|tool_call>call:f{}<tool_call|><|tool_response>"
    first, second = pairs(make(line))
    assert first == (HI_THINKING, f"{OPEN}look\n{CLOSE}{called}")
    assert second[0] == HI_THINKING + called + 'response:f{value:<|"|>5<|"|>}<tool_response|>'
    assert second[1] == f"{OPEN}so\n{CLOSE}five<turn|>"
    released = make(line, template=ChatTemplate(RELEASED, {"bos_token": "<bos>"}))
    first, second = pairs(released)
    assert first == (HI_THINKING, f"{OPEN}look\n{CLOSE}{called}"), "shown by the template, and yet not twice"
    opened = f"{HI_THINKING}{OPEN}look\n{CLOSE}{called}response:f{{value:5}}<tool_response|>{OPEN}"
    assert second == (opened, f"so\n{CLOSE}five<turn|>"), "a thought that the prompt opens is not opened again"


@pytest.mark.parametrize(
    ("tail", "what"),
    [
        ("{{ '<|channel>thought\n<channel|>' if add_generation_prompt }}", "leaves no room for its reasoning"),
        ("{{ 'Answer:' if add_generation_prompt }}", "does not write it where its generation prompt ends"),
    ],
)
def test_templates_that_do_not_fit_are_refused(make: Make, tail: str, what: str) -> None:
    body = "{% for m in messages %}{{ m.role }}: {{ m.content }}<turn|>{% endfor %}"
    opening = "{{ 'assistant: ' if add_generation_prompt }}"
    template = ChatTemplate(body + opening + tail, {})
    with pytest.raises(DataError, match=f"line 1: message 2: the chat template {what}"):
        make(chat(user("hi"), assistant("ho", reasoning="hm")), template=template)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", "ends it with no token that stops"),
        ("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}<turn|>", "ends it with no token"),
        ("{% for m in messages %}{{ m.content if m.role == 'user' }}<turn|>{% endfor %}", "writes nothing of it"),
        ("{{ raise_exception('no such chats') }}", "refuses these messages: no such chats"),
        (
            "{{ messages | map(attribute='content') | join }}{{ OPEN if add_generation_prompt else '<turn|>' }}",
            "asks for reasoning that it does not have",
        ),
    ],
)
def test_templates_that_write_no_answer_are_refused(make: Make, source: str, what: str) -> None:
    with pytest.raises(DataError, match=f"line 1: .*{what}"):
        make(chat(user("hi"), assistant("ho")), template=ChatTemplate(source, {"OPEN": OPEN}))


ALTERNATING = """
{%- for m in messages -%}
    {%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception('roles must alternate') }}{%- endif -%}
    {{ m.role + ': ' + m.content + '<turn|>' }}
{%- endfor -%}
{{ 'assistant: ' if add_generation_prompt }}
"""


@pytest.mark.parametrize("after", [0, 2])
def test_the_message_that_a_template_refuses_is_named(make: Make, after: int) -> None:
    said = [user("a"), assistant("b", weight=0), user("c"), user("d"), assistant("e")]
    with pytest.raises(DataError, match=r"line 1: message 4: the chat template refuses .*: roles must alternate"):
        make(chat(*said, *[user("f"), assistant("g")][:after]), template=ChatTemplate(ALTERNATING, {}))
    with pytest.raises(DataError, match=r"line 1: message 3: the chat template refuses .*: a tool message needs"):
        make(chat(user("a"), CALLING, ANSWERED | {"tool_call_id": "c9"}, assistant("e")))
    asked = "{% if add_generation_prompt %}{{ raise_exception('no answers here') }}{% endif %}"
    with pytest.raises(DataError, match=r"line 1: the example of message 2: the chat template .*: no answers"):
        make(chat(user("a"), assistant("b")), template=ChatTemplate(asked, {}))
    with pytest.raises(DataError, match="line 1: the example of message 2: the text is no valid Unicode"):
        make(json.dumps(chat(user("\ud800"), assistant("b"))))
    with pytest.raises(DataError, match="line 1: message 2: the text is no valid Unicode"):
        make(json.dumps(chat(user("a"), assistant("\ud800"))))


# Pairs and text


def test_a_pair_is_a_chat_of_two_messages(make: Make) -> None:
    assert pairs(make({"prompt": "hi", "completion": "ho"})) == [(HI + EMPTY, "ho<turn|>")]
    thinking = make({"prompt": "hi", "completion": f"{OPEN}hm{CLOSE}ho"})
    assert pairs(thinking) == [(HI_THINKING, f"{OPEN}hm\n{CLOSE}ho<turn|>")]


@pytest.mark.parametrize("how", [{"raw_pairs": True}, {"template": None}])
def test_raw_pairs_are_taken_as_they_are(make: Make, how: dict[str, Any]) -> None:
    lines = [
        {"prompt": " 1 + 1 =", "completion": " 2\n"},
        {"prompt": "<bos>a", "completion": "b<turn|>"},
        {"prompt": "a", "completion": f"{OPEN}c{CLOSE}b<eos>"},
    ]
    assert pairs(make(*lines, **how)) == [
        ("<bos> 1 + 1 =", " 2\n<eos>"),
        ("<bos>a", "b<turn|>"),
        ("<bos>a", f"{OPEN}c{CLOSE}b<eos>"),
    ]


@pytest.mark.parametrize("how", [{}, {"raw_pairs": True}])
def test_a_pair_may_change_a_source(make: Make, how: dict[str, Any]) -> None:
    pair = {"prompt": "Change 4 to 7.", "completion": "return 7"}
    data = make(pair | {"source": "return 4"}, pair, **how)
    changed, plain = training(data)
    assert data.report.changes == 1
    assert not plain.source
    assert (changed.prompt, changed.answer) == (plain.prompt, plain.answer)
    (old,) = training(make(pair | {"completion": "return 4"}, **how))
    assert changed.source == old.answer


def test_a_raw_completion_must_not_go_on_after_its_end(make: Make) -> None:
    with pytest.raises(DataError, match=r"line 1: the completion goes on after <turn\|>"):
        make({"prompt": "a", "completion": "b<turn|>c"}, raw_pairs=True)


def test_text_that_fits_is_one_piece(make: Make) -> None:
    for template in (TEMPLATE, None):
        data = make({"text": "Zürich <b>\n"}, {"text": "<bos>a"}, {"text": "<bos>b<eos>"}, template=template)
        assert pairs(data) == [("<bos>", "Zürich <b>\n<eos>"), ("<bos>", "a<eos>"), ("<bos>", "b<eos>")]
        assert all(c.ends for c in data.batch(0, 3, CANVAS))


@given(count=st.integers(1, 70), limit=st.integers(CANVAS + 2, 40))
@example(count=16, limit=17)
@example(count=17, limit=18)
@example(count=32, limit=18)
def test_long_text_is_cut_into_full_canvases(tmp_path_factory: pytest.TempPathFactory, count: int, limit: int) -> None:
    path = write(tmp_path_factory.getbasetemp() / f"text-{os.getpid()}.jsonl", [{"text": "7" * count}])
    ids = TOKENIZER.encode("7" * count)
    assert len(ids) == count
    pieces = open_data([path], max_length=limit)
    found = training(pieces)
    assert [token for c in found for token in c.answer] == [*ids, EOS]
    assert all(c.prompt == [BOS] and len(c.prompt) + len(c.answer) <= limit for c in found)
    assert [c.ends for c in found] == [False] * (len(found) - 1) + [True]
    assert all(len(c.answer) % CANVAS == 0 for c in found[:-1])
    assert len(found[-1].answer) > 1, "no piece is an eos alone"
    assert len({len(c.answer) for c in found[:-1]}) <= 1
    assert pieces.report.too_long == 0


def test_text_that_cannot_be_cut_is_the_options_fault(make: Make) -> None:
    assert make({"text": "b d"}, max_length=CANVAS + 1).report.examples == 1
    with pytest.raises(OptionError, match=f"max_length {CANVAS + 1} is too short to cut text: {CANVAS + 2} holds"):
        make({"text": "line 1 " * 20}, max_length=CANVAS + 1)


# Files


LINES: list[Line] = [
    {"text": "Ä日"},
    json.dumps({"text": "Ö\u2028"}),
    {"text": "🎨"},
    *({"text": c} for c in "abcdefgh"),
]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n \t\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_blank_lines_and_a_byte_order_mark(tmp_path: Path, end: bytes, mark: bytes) -> None:
    path = write(tmp_path / "data.jsonl", LINES, end)
    plain = write(tmp_path / "plain.jsonl", LINES)
    path.write_bytes(mark + path.read_bytes().removesuffix(end))
    data, same = open_data([path], held_out=0.4), open_data([plain], held_out=0.4)
    assert data.report == same.report
    assert data.report.lines == len(LINES)
    found = [*training(data), *data.evaluation()]
    assert found == [*training(same), *same.evaluation()], "the split looks at the line, not at its end"
    assert {both(c)[1] for c in found} == {f"{text}<eos>" for text in ("Ä日", "Ö\u2028", "🎨", *"abcdefgh")}


GOOD = {"text": "good"}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "no JSON .*column 2.*; every line holds one JSON object"),
        ("[1]", "must be a JSON object, not a list"),
        ("5", "must be a JSON object, not a number"),
        ("[" * 100_000, "nested too deeply to be read"),
        ('{"text": ' + "1" * 5000 + "}", "a number of thousands of digits"),
        (b'{"text": "\xff"}', r"no UTF-8 \(byte 11\)"),
        ('{"text": "x", "text": "y"}', "the key 'text' stands twice in one object"),
        ('{"messages": [{"role": "user", "content": "x", "role": "user"}]}', "the key 'role' stands twice"),
        ({"text": "x", "label": 1}, "the key 'label' may change what is learned, and is not supported; known: mess"),
        ({"prompt": "x", "completion": "y", "System": "z"}, "the key 'System' may change what is learned"),
        (chat(user("x"), assistant("y"), tool=[{"name": "f"}]), r"unknown key 'tool': did you mean tools\?"),
        ({"prompt": "x", "chosen": "y", "rejected": "z"}, "chosen belongs to a pair of a better and a worse answer"),
        (
            {"input": {"messages": [user("x")]}, "preferred_output": [assistant("y")]},
            "preferred_output belongs to a pair of a better",
        ),
        ({}, "holds messages .* or text; this one holds nothing"),
        ({"text": None}, "this one holds nothing"),
        ({"prompt": "x"}, "this one holds prompt"),
        ({"messages": [], "text": "x"}, "this one holds messages, text"),
        ({"prompt": "x", "completion": "y", "text": "z"}, "this one holds prompt, completion, text"),
        ({"text": "x", "tools": []}, "this one holds text, tools"),
        ({"text": 5}, "text must be a string, not a number"),
        ({"text": " \n"}, "text is empty"),
        ({"text": "<bos>"}, "the text has no tokens"),
        ('{"text": "\\ud800"}', "no valid Unicode"),
        ({"text": "<|image|>"}, "the text holds the token of an image"),
        (chat(user("<|image|>"), assistant("y")), "the text holds the token of an image"),
        (chat(user("x"), assistant("<|image|>")), "the text holds the token of an image"),
        ({"prompt": "x", "completion": "<|image|>"}, "the text holds the token of an image"),
        ({"prompt": ["x"], "completion": "y"}, "prompt must be a string, not a list"),
        ({"prompt": ["x"], "completion": [assistant("y")]}, "message 1: must be an object, not a string"),
        ({"prompt": [user("x")], "completion": [user("y")]}, "no assistant message to train on"),
        ({"prompt": "", "completion": "y"}, "prompt is empty"),
        ({"prompt": "x", "completion": " "}, "completion is empty"),
        ({"prompt": "x", "completion": EMPTY}, "message 2: the assistant's content is empty"),
        ({"messages": {}}, "messages must be a list, and not empty"),
        ({"messages": []}, "messages must be a list, and not empty"),
        (chat(user("x"), assistant("y"), tools={}), "tools must be a list of objects"),
        (chat(user("x"), assistant("y"), tools=["f"]), "tools must be a list of objects"),
        (chat(user("x"), assistant("y"), tools="["), "tools must be a list of objects, and this text is no JSON"),
        (chat(user("x"), assistant("y"), tools='{"name": "f"}'), "tools must be a list of objects"),
        (chat(user("x"), assistant("y"), tools=[{"x": 1}]), "tool 1: a tool needs a function with a name"),
        (chat(user("x"), assistant("y"), tools=[{"function": "f"}]), "tool 1: a tool needs a function with a name"),
        ({"messages": ["x"]}, "message 1: must be an object, not a string"),
        ({"messages": [{"content": "x"}]}, "message 1: unknown role None; known: system"),
        (chat(user("x"), {"role": "bot", "content": "y"}), "message 2: unknown role 'bot'; known: system"),
        (chat({"role": ["user"], "content": "y"}), "message 1: unknown role"),
        (chat(user("x") | {"weight": 1}, assistant("y")), "message 1: the key 'weight' may change what is"),
        (chat(user("x"), assistant("y", refusal="no")), "message 2: the key 'refusal' may change .*known: role, cont"),
        (chat(user("x"), {"role": "assistant", "contents": "y"}), r"'contents': did you mean content\?"),
        (chat(user("x") | {"name": 5}, assistant("y")), "message 1: name must be a string, not a number"),
        (chat(user("x"), assistant("y", name=" ")), "message 2: name is empty"),
        (chat(user("x"), assistant("y"), parallel_tool_calls="no"), "parallel_tool_calls must be true or false"),
        ({"text": "x", "parallel_tool_calls": True}, "this one holds text, parallel_tool_calls"),
        (chat(user("x")), "no assistant message to train on"),
        (chat(user("x"), assistant("y", weight=0)), "no assistant message to train on"),
        (chat(assistant("y")), "message 1: nothing stands before"),
        (chat(user("x"), assistant("y", weight=0.5)), "message 2: weight must be 0 or 1, got 0.5"),
        (chat(user(5), assistant("y")), "message 1: content must be a string or a list of parts, not a number"),
        (chat(user(None), assistant("y")), "message 1: content is missing"),
        (chat(user({"text": "x"}), assistant("y")), "message 1: content must be .*, not an object"),
        (chat(user(["x"]), assistant("y")), "message 1: content holds a part of type None"),
        (chat(user([{"type": "image"}]), assistant("y")), "message 1: an image names no file"),
        (chat(user([{"type": "image", "path": "a.png"}]), assistant("y")), "message 1: .* this model reads text only"),
        (chat(user([{"type": "video"}]), assistant("y")), "of type 'video'; only text and images are supported"),
        (chat(user("x"), assistant([{"type": "image", "path": "a"}])), "of type 'image'; only text is supported"),
        (chat(user([{"type": "image", "file": "a.png"}]), assistant("y")), "unknown key 'file'; known: type, path"),
        (chat(user([{"type": "text"}]), assistant("y")), "content holds a text part without text"),
        (chat(user([{"type": "text", "text": "x", "cache": 1}]), assistant("y")), "unknown key 'cache'"),
        (chat(user("x"), assistant(None)), "message 2: content is missing"),
        (chat(user("x"), assistant("")), "message 2: the assistant's content is empty"),
        (chat(user("x"), assistant("", reasoning="hm")), "message 2: the assistant's content is empty"),
        (chat(user("x"), assistant(True)), "message 2: content must be .*, not a boolean"),
        (chat(user("x"), assistant("y", reasoning=[])), "message 2: reasoning must be a string, not a list"),
        (chat(user("x"), assistant("y", reasoning="a", reasoning_content="b")), "reasoning is given twice"),
        (chat(user("x"), assistant(f"{OPEN}a{CLOSE}y", reasoning="b")), "reasoning is given twice"),
        (chat(user("x"), assistant(f"y{OPEN}a{CLOSE}")), "message 2: reasoning must be whole"),
        (chat(user("x"), assistant(f"{OPEN}a")), "message 2: reasoning must be whole"),
        (chat(user("x"), assistant("y<turn|>z")), r"message 2: it goes on after <turn\|>, which ends an answer"),
        (chat(user("x"), assistant("y<turn|>")), r"message 2: it goes on after <turn\|>"),
        (chat(user("x"), assistant("y", reasoning="a<eos>b")), "message 2: its reasoning goes on after <eos>"),
        (chat(user("x"), {"role": "system", "content": "s"}, assistant("y")), "unexpected message role: system"),
        (chat(user("x"), ANSWERED, assistant("y")), "a tool message needs the name"),
        (chat(user("x"), CALLING, ANSWERED | {"name": 5}, assistant("y")), "message 3: name must be a string"),
        (chat(user("x"), assistant(None, tool_calls={})), "message 2: tool_calls must be a list, not an object"),
        (chat(user("x"), assistant(None, tool_calls=["f"])), "a tool call must be an object, not a string"),
        (chat(user("x"), assistant(None, tool_calls=[{"function": "f"}])), "function must be an object, not a string"),
        (chat(user("x"), assistant(None, tool_calls=[{"id": "c"}])), "a tool call needs a name"),
        (chat(user("x"), assistant(None, tool_calls=[{"name": "f", "index": 0}])), "unknown key 'index'"),
        (chat(user("x"), assistant(None, tool_calls=[{"function": {"name": "f", "x": 0}}])), "unknown key 'x'"),
        (chat(user("x"), assistant(None, tool_calls=[{"type": "code", "name": "f"}])), "type 'code' is not supported"),
        (chat(user("x"), assistant(None, tool_calls=[call("{")])), "a tool call's arguments are no JSON"),
        (
            chat(user("x"), assistant(None, tool_calls=[call('{"a": 1, "a": 2}')])),
            "message 2: a tool call's arguments: the key 'a' stands twice in one object",
        ),
        (
            chat(user("x"), assistant("y"), tools='[{"name": "f", "name": "g"}]'),
            ": tools: the key 'name' stands twice in one object",
        ),
        (chat(user("x"), assistant(None, tool_calls=[call("[1]")])), "arguments must be an object, not a list"),
    ],
)
def test_a_bad_line_is_refused_by_its_number(make: Make, tmp_path: Path, line: Line, what: str) -> None:
    with pytest.raises(DataError, match=what) as caught:
        make(GOOD, "", line, GOOD)
    assert str(caught.value).startswith(f"{tmp_path / 'data.jsonl'}, line 3: ")


def test_of_several_flaws_all_lines_are_told(make: Make) -> None:
    with pytest.raises(DataError, match=r"line 2: text is empty; flaws in other lines, too: 4, 5$"):
        make(GOOD, {"text": ""}, GOOD, "{", chat(user("x")), GOOD)
    with pytest.raises(
        DataError, match=r"line 1: no JSON .*; flaws in other lines, too: 2, 3, 4, 5, 6, 7, 8, 9, 10 \.\.\.$"
    ):
        make(*["a book"] * 12)


@pytest.mark.parametrize("line", ["a book", "[", b"PAR1\x15\xff", {"conversations": []}, {"instruction": "x"}])
def test_a_line_of_another_format_is_told_where_to_turn(make: Make, line: Line) -> None:
    with pytest.raises(DataError) as caught:
        make(line)
    page, _, heading = str(caught.value.hint).split(":")[0].partition("#")
    headings = [line for line in (ROOT / page).read_text("utf-8").splitlines() if line.startswith("#")]
    assert heading in [line.strip("# ").lower().replace(" ", "-") for line in headings]


def test_a_chat_may_hold_what_other_programs_write(make: Make) -> None:
    plain = pairs(make(chat(user("hi"), assistant("7", tool_calls=None))))
    written = chat(
        user("hi") | {"name": None, "audio": None},
        assistant("7", refusal=None, function_call=None),
        parallel_tool_calls=False,
        metadata=None,
    )
    assert pairs(make(written)) == plain


def test_keys_that_change_nothing_are_not_used_and_told(make: Make) -> None:
    plain = make(chat(user("hi"), assistant("7")), {"prompt": "hi", "completion": "7"}, {"text": "x"})
    expected = pairs(plain)
    assert plain.report.unused == ()
    written = make(
        chat(user("hi") | {"id": 1}, assistant("7", annotations=[], timestamp="now"), metadata={"a": 1}, source="web"),
        {"prompt": "hi", "completion": "7", "prompt_id": "p", "system": "", "functions": []},
        {"text": "x", "source": "web", "messages": None, "score": 0.5},
    )
    assert pairs(written) == expected
    assert written.report.unused == (
        *("messages.id", "messages.timestamp", "metadata", "prompt_id"),
        *("score", "source"),
    )
    many = make({"text": "x"} | {f"column {i}": i for i in range(10_000)})
    assert len(many.report.unused) == 20


def test_names_of_participants_go_to_the_chat_template(make: Make) -> None:
    line = chat(user("hi") | {"name": "ann"}, assistant("ho"))
    (untold,) = make(line).report.unused
    assert untold == "messages.name (the chat template has no place for it)"
    source = "{% for m in messages %}{{ m.name ~ ': ' if m.name }}{{ m.content }}<turn|>{% endfor %}"
    named = make(line, template=ChatTemplate(source, {}))
    assert pairs(named) == [("ann: hi<turn|>", "ho<turn|>")]
    assert named.report.unused == ()
    result = chat(user("hi"), CALLING, {"role": "tool", "name": "f", "content": "5"}, assistant("five"))
    assert make(result).report.unused == (), "a tool's result is written under its name"


def test_tools_may_be_json_text(make: Make) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    line = chat(user("hi"), assistant("ho"))
    expected = pairs(make(line | {"tools": tools}))
    assert pairs(make(line | {"tools": json.dumps(tools)})) == expected
    expected = pairs(make(line))
    assert pairs(make(line | {"tools": ""})) == expected


def test_of_a_pair_of_messages_the_completion_alone_is_learned(make: Make) -> None:
    prompt = [user("hi"), assistant("ho"), user("more")]
    found = pairs(make({"prompt": prompt, "completion": [assistant("ok")]}))
    assert found == pairs(make(chat(user("hi"), assistant("ho", weight=0), user("more"), assistant("ok"))))
    assert [answer for _, answer in found] == ["ok<turn|>"]


def test_unfinished_thoughts_are_refused_when_they_are_stripped_too(make: Make) -> None:
    with pytest.raises(DataError, match="line 1: message 2: reasoning must be whole"):
        make(chat(user("x"), assistant(f"{OPEN}a")), thinking="strip")


def test_chats_need_a_template(make: Make) -> None:
    with pytest.raises(DataError, match="line 2: this model has no chat template, and so takes no messages"):
        make(GOOD, chat(user("x"), assistant("y")), template=None)


@pytest.mark.parametrize("content", [b"", b"\n \r\n"])
def test_an_empty_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.jsonl").write_bytes(content)
    with pytest.raises(DataError, match=r"data\.jsonl is empty"):
        open_data([write(tmp_path / "good.jsonl", [GOOD]), tmp_path / "data.jsonl"])


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.jsonl cannot be read: No such file"):
        open_data([tmp_path / "nowhere.jsonl"])
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        open_data([tmp_path])
    with pytest.raises(DataError, match="/dev/null is no regular file"):
        open_data([Path("/dev/null")])
    path = write(tmp_path / "data.jsonl", [GOOD])
    with pytest.raises(OptionError, match="is given twice"):
        open_data([path, tmp_path / "." / "data.jsonl"])
    with pytest.raises(OptionError, match="is given twice"):
        open_data([path], held_out_files=[path])


def test_a_file_that_was_only_touched_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "data.jsonl", texts(3))
    data = open_data([path])
    before = data.batch(0, 2, CANVAS)
    os.utime(path, ns=(0, 0))
    assert data.batch(0, 2, CANVAS) == before
    monkeypatch.setattr("hashlib.file_digest", None)
    assert data.batch(0, 2, CANVAS) == before, "it is read whole once"


def test_a_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data.jsonl", texts(3))
    data = open_data([path])
    data.batch(0, 2, CANVAS)
    content = path.read_bytes()
    path.write_bytes(content.swapcase())
    os.utime(path, ns=(0, 0))
    with pytest.raises(DataError, match=r"data\.jsonl has changed since it was first read"):
        data.batch(0, 2, CANVAS)
    path.write_bytes(content)
    data = open_data([path])
    before = path.stat().st_mtime_ns
    write(path, texts(4))
    os.utime(path, ns=(before, before))
    with pytest.raises(DataError, match="has changed"):
        data.batch(0, 2, CANVAS)
    path.unlink()
    with pytest.raises(DataError, match="cannot be read: No such file"):
        data.batch(0, 2, CANVAS)


def test_files_are_read_in_order_and_kinds_may_alternate(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", [{"text": "one"}, {"prompt": "hi", "completion": "two"}])
    second = write(tmp_path / "b.jsonl", [chat(user("hi"), assistant("three")), {"text": "four"}])
    data = open_data([first, second])
    assert [answer for _, answer in pairs(data)] == ["one<eos>", "two<turn|>", "three<turn|>", "four<eos>"]
    assert sorted(map(both, data.batch(0, 4, CANVAS))) == sorted(pairs(data))


def test_data_holds_no_open_files(make: Make) -> None:
    data = make(*texts(5), template=None)
    data.batch(0, 2, CANVAS)
    assert not any(hasattr(value, "fileno") for value in vars(data).values())
    assert pickle.loads(pickle.dumps(data._files)) == data._files


# Lengths and the report


def test_long_examples_are_left_out_and_counted(make: Make, tmp_path: Path) -> None:
    long = "word " * 60
    lines = [GOOD, {"prompt": "hi", "completion": long}, chat(user("hi"), assistant("ho"), user(long), assistant("ho"))]
    data = make(*lines, max_length=50)
    found = training(data)
    assert [both(c)[1] for c in found] == ["good<eos>", "ho<turn|>"]
    report = data.report
    assert (report.lines, report.examples, report.held_out, report.too_long) == (3, 2, 0, 2)
    assert report.first_too_long == f"{tmp_path / 'data.jsonl'}, line 2"
    assert report.prompt_tokens == sum(len(c.prompt) for c in found)
    assert report.answer_tokens == sum(len(c.answer) for c in found)
    assert report.longest == max(len(c.prompt) + len(c.answer) for c in found)
    assert report.summary == (
        f"3 lines: 2 to train on, 0 held out, 2 too long (the first: {report.first_too_long}); "
        f"{report.prompt_tokens} prompt and {report.answer_tokens} answer tokens, "
        f"{report.longest} in the longest example"
    )
    assert "too long" not in make(GOOD).report.summary


def test_an_example_may_be_exactly_as_long_as_allowed(make: Make) -> None:
    longest = make({"prompt": "hi", "completion": "ho"}).report.longest
    assert make({"prompt": "hi", "completion": "ho"}, max_length=longest).report.too_long == 0
    with pytest.raises(DataError, match=rf"every example is longer than max_length {longest - 1} .*line 1\)"):
        make({"prompt": "hi", "completion": "ho"}, max_length=longest - 1)


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({"max_length": 1}, "max_length must be an integer of at least 2, got 1"),
        ({"held_out": 0.5}, "held_out must be below 0.5, got 0.5"),
        ({"held_out": -0.1}, "held_out must be"),
        ({"held_out": float("nan")}, "held_out must be"),
        ({"thinking": "maybe"}, "thinking must be one of keep, strip, got 'maybe'"),
        ({"vary_copies": 1.5}, "vary_copies must be at most 1, got 1.5"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
    ],
)
def test_impossible_options_are_refused(config: dict[str, Any], what: str) -> None:
    with pytest.raises(OptionError, match=what):
        FileDataConfig(**({"max_length": 8} | config))


# The split


@given(
    lines=st.lists(st.integers(0, 10_000), min_size=12, max_size=40, unique=True),
    others=st.lists(st.integers(10_001, 20_000), max_size=20, unique=True),
    seed=st.integers(0, 2**63),
    share=st.floats(0.1, 0.4),
    data=st.data(),
)
@hypothesis_settings(max_examples=30)
def test_a_line_is_always_on_the_same_side(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[int],
    others: list[int],
    seed: int,
    share: float,
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.getbasetemp()
    shuffled = data.draw(st.permutations([*lines, *others]))

    def held(chosen: Sequence[int], share: float, seed: int) -> set[int] | None:
        path = write(folder / f"split-{os.getpid()}.jsonl", [{"text": f"line {i}"} for i in chosen])
        try:
            found = open_data([path], held_out=share, seed=seed)
        except DataError:
            return None
        evaluation = numbers(found.evaluation())
        assert evaluation == [i for i in chosen if i in set(evaluation)], "in the order of the file"
        assert sorted([*evaluation, *numbers(training(found))]) == sorted(chosen)
        return set(evaluation)

    one, two, more = held(lines, share, 0), held(shuffled, share, seed), held(lines, share + 0.09, 1)
    if one is not None and two is not None:
        assert one == two & set(lines)
    if one is not None and more is not None:
        assert one <= more


def test_the_share_is_kept_and_all_turns_of_a_chat_are_on_one_side(make: Make) -> None:
    lines = [chat(user(f"{i}"), assistant("a"), user("b"), assistant("c")) for i in range(300)]
    data = make(*lines, held_out=0.2)
    assert data.report.examples + data.report.held_out == 600
    assert 80 < data.report.held_out < 160
    chats = Counter(TOKENIZER.decode(c.prompt).split("user\n")[1].split("<")[0] for c in data.evaluation())
    assert set(chats.values()) == {2}


def test_separate_files_are_held_out(tmp_path: Path) -> None:
    train, held = write(tmp_path / "train.jsonl", texts(5)), write(tmp_path / "held.jsonl", texts(3))
    data = open_data([train], held_out_files=[held])
    assert (data.report.examples, data.report.held_out) == (5, 3)
    assert numbers(data.evaluation()) == [0, 1, 2]
    assert numbers(data.evaluation(2)) == [0, 1]
    assert data.evaluation(0) == []
    with pytest.raises(OptionError, match="held_out and held_out_files exclude each other"):
        open_data([train], held_out_files=[held], held_out=0.1)


def test_a_split_that_leaves_a_side_empty_is_refused(make: Make, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing is held out: 1 line: 1 to train on"):
        make(GOOD, held_out=0.001)
    held = write(tmp_path / "held.jsonl", [{"prompt": "x" * 500, "completion": "y"}])
    with pytest.raises(DataError, match="nothing is held out"):
        make(GOOD, held_out_files=[held])
    number = numbers(make(*texts(20), held_out=0.4).evaluation())[0]
    with pytest.raises(DataError, match="nothing is left to train on: 1 line: 0 to train on, 1 held out"):
        make({"text": f"line {number}"}, held_out=0.4)


def share_of(line: Line) -> float:
    return hash_share(as_text(line).encode())


def test_a_line_that_is_too_long_is_not_the_one_to_hold_out(make: Make) -> None:
    lines = [line for line in texts(99) if share_of(line) > 0.2]
    pairs = ({"prompt": f"{i}", "completion": "word " * 500} for i in range(99))
    long = next(pair for pair in pairs if 0.01 < share_of(pair) < 0.1)
    with pytest.raises(DataError, match="1 too long") as refused:
        make(*lines, long, held_out=0.001)
    share = math.ceil(100 * min(map(share_of, lines))) / 100
    assert (refused.value.hint or "").startswith(f"--held-out {share:g} holds out one of these lines")


def test_of_few_lines_it_is_said_which_share_holds_one_out(make: Make) -> None:
    with pytest.raises(DataError, match="nothing is held out: 7 lines") as refused:
        make(*texts(7), held_out=0.001)
    found = re.match(r"--held-out (0\.\d+) holds out one of these lines; --held-out 0 trains", refused.value.hint or "")
    assert found is not None
    assert make(*texts(7), held_out=float(found[1])).report.held_out >= 1
    with pytest.raises(DataError, match="nothing is held out: 1 line") as refused:  # and none to train on were left
        make(next(line for line in texts(99) if 0.01 < share_of(line) < 0.4), held_out=0.001)
    assert (refused.value.hint or "").startswith("--held-out 0 trains on all of it")
    with pytest.raises(DataError, match="nothing is left to train on") as refused:
        make(GOOD, GOOD, held_out=0.499)
    assert (refused.value.hint or "").startswith("--held-out 0 trains on all of it")


# The order


@given(
    count=st.integers(1, 25),
    size=st.integers(1, 9),
    seed=st.integers(0, 2**40),
    bucketed=st.booleans(),
)
@hypothesis_settings(max_examples=40)
def test_every_epoch_holds_each_example_once(
    tmp_path_factory: pytest.TempPathFactory, count: int, size: int, seed: int, bucketed: bool
) -> None:
    path = write(tmp_path_factory.getbasetemp() / f"epoch-{os.getpid()}.jsonl", texts(count))
    data = open_data([path], seed=seed, bucketed=bucketed)
    steps = -(-3 * count // size)
    batches = [numbers(data.batch(step, size, CANVAS)) for step in range(steps)]
    assert all(len(batch) == size for batch in batches)
    stream = [number for batch in batches for number in batch]
    for epoch in range(3):
        assert sorted(stream[epoch * count : (epoch + 1) * count]) == list(range(count))


@given(
    count=st.integers(1, 400),
    epoch=st.integers(0, 50),
    size=st.one_of(st.none(), st.integers(1, 12)),
    seed=st.integers(0, 100),
)
def test_an_order_is_a_permutation_whose_batches_are_alike(count: int, epoch: int, size: int | None, seed: int) -> None:
    lengths = np.random.default_rng(0).integers(1, 1000, count).astype(np.int32)
    order = epoch_order(lengths, seed, epoch, size)
    assert sorted(order.tolist()) == list(range(count))
    if size is not None:
        first = -(epoch * count) % size
        whole = order[first : first + max(0, count - first) // size * size].reshape(-1, size)
        for start in range(0, len(whole), WINDOW):
            batches = sorted(sorted(lengths[batch].tolist()) for batch in whole[start : start + WINDOW])
            assert all(one[-1] <= two[0] for one, two in pairwise(batches))


def test_bucketing_shuffles_the_batches_and_not_only_the_examples() -> None:
    lengths = np.arange(1, 1025, dtype=np.int32)
    order = epoch_order(lengths, 0, 0, 16)
    means = lengths[order].reshape(-1, 16).mean(axis=1)
    assert any(means[i] > means[i + 1] for i in range(31))
    spread = np.ptp(lengths[order].reshape(-1, 16), axis=1).mean()
    assert spread < 0.1 * np.ptp(lengths[epoch_order(lengths, 0, 0, None)].reshape(-1, 16), axis=1).mean()


def test_orders_are_promised_for_ever() -> None:
    """A run begun with one release is resumed with another."""
    lengths = np.array([5, 1, 4, 2, 3, 9, 7, 8], np.int32)
    assert epoch_order(lengths, 0, 0, None).tolist() == [3, 2, 1, 6, 0, 7, 4, 5]
    assert epoch_order(lengths, 0, 1, None).tolist() == [7, 4, 5, 1, 6, 2, 0, 3]
    assert epoch_order(lengths, 1, 0, None).tolist() == [2, 4, 7, 5, 0, 6, 3, 1]
    assert epoch_order(lengths, 0, 0, 2).tolist() == [7, 5, 4, 2, 1, 3, 0, 6]


@pytest.mark.parametrize("bucketed", [True, False])
def test_a_batch_depends_on_the_step_alone(tmp_path: Path, bucketed: bool) -> None:
    path = write(tmp_path / "data.jsonl", texts(23))
    straight: Data = open_data([path], seed=3, bucketed=bucketed)
    batches = [straight.batch(step, 4, CANVAS) for step in range(30)]
    again = open_data([path], seed=3, bucketed=bucketed)
    for step in (29, 0, 13, 28, 5, 29, 6):
        assert again.batch(step, 4, CANVAS // 2) == batches[step]
        again.batch(step, 7, CANVAS)
    other_size_first = open_data([path], seed=3, bucketed=bucketed)
    other_size_first.batch(0, 7, CANVAS)
    assert other_size_first.batch(0, 4, CANVAS) == batches[0]
    other = open_data([path], seed=4, bucketed=bucketed)
    assert [other.batch(step, 4, CANVAS) for step in range(30)] != batches
    assert batches[:5] != batches[23:28], "another epoch has another order"


def test_a_batch_may_hold_several_epochs(make: Make) -> None:
    data = make(*texts(3))
    assert Counter(numbers(data.batch(1, 12, CANVAS))) == {0: 4, 1: 4, 2: 4}


COPIES = [
    {"prompt": f"join fig{'abcdefghijkl'[i]} pear", "completion": f"fig{'abcdefghijkl'[i]}-pear"} for i in range(12)
]


def test_copies_vary_from_epoch_to_epoch_and_depend_on_the_step_alone(make: Make) -> None:
    data = make(*COPIES, vary_copies=1.0)
    first, second = ([both(c) for c in data.batch(step, 12, 8)] for step in (0, 1))
    assert [both(c) for c in make(*COPIES, vary_copies=1.0).batch(1, 12, 8)] == second
    words = {re.search(r"join (\S+) pear", prompt)[1] for prompt, _ in first + second}  # type: ignore[index]
    assert len(words) == 24
    assert words.isdisjoint(re.findall(r"fig\w", as_text(COPIES[0])))
    assert all(f"{re.search(r'join (.*) pear', prompt)[1]}-pear" in answer for prompt, answer in first)  # type: ignore[index]


def test_runs_on_varied_copies_are_others(make: Make) -> None:
    assert len({make(*COPIES, vary_copies=share).fingerprint for share in (0.0, 0.5, 1.0)}) == 3


def test_a_share_of_the_examples_keeps_its_words(make: Make) -> None:
    data = make(*COPIES, vary_copies=0.5)
    kept = sum("fig" in prompt for step in range(20) for prompt, _ in map(both, data.batch(step, 12, 8)))
    assert 80 < kept < 160


def test_held_out_examples_keep_their_words(tmp_path: Path) -> None:
    files = [write(tmp_path / name, COPIES) for name in ("train.jsonl", "held_out.jsonl")]
    data = open_data(files[:1], held_out_files=files[1:], vary_copies=1.0)
    assert all("fig" in both(c)[0] for c in data.evaluation())


def test_an_example_that_grows_too_long_keeps_its_words(make: Make) -> None:
    usual = make(*COPIES)
    longest = usual.report.longest
    data = make(*COPIES, vary_copies=1.0, max_length=longest)
    assert all(len(c.prompt) + len(c.answer) <= longest for step in range(9) for c in data.batch(step, 12, 8))


def test_copies_are_varied_only_where_there_are_any(make: Make) -> None:
    with pytest.raises(OptionError, match="none here does"):
        make({"prompt": "one", "completion": "two"}, vary_copies=0.5)


def test_the_format_is_told_by_lines_from_everywhere(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are often sorted: here the lines that copy come last, behind others and a long text."""
    monkeypatch.setattr(file_data, "SAMPLE", 20)
    others = [{"prompt": f"count {i}", "completion": "one two three"} for i in range(60)]
    data = make({"text": "7" * 30 * CANVAS}, *others, *COPIES, vary_copies=1.0, max_length=4 * CANVAS)
    assert data.report.examples > 20
    assert len(data._sample()) <= 20
    changed = make({"text": "7" * 30 * CANVAS}, *COPIES, *others, vary_copies=1.0, max_length=4 * CANVAS)
    assert changed.fingerprint != data.fingerprint


def test_the_fingerprint_is_of_contents_and_config(tmp_path: Path) -> None:
    path = write(tmp_path / "data.jsonl", texts(20))
    same = write(tmp_path / "copy.jsonl", texts(20))
    first = open_data([path]).fingerprint
    assert len(bytes.fromhex(first)) == 32
    assert open_data([same]).fingerprint == first, "the name of a file is not its content"
    others = [
        open_data([write(tmp_path / "more.jsonl", texts(21))]),
        open_data([write(tmp_path / "blank.jsonl", [*texts(20), ""])]),
        open_data([path], max_length=300),
        open_data([path], seed=1),
        open_data([path], held_out=0.4),
        open_data([path], bucketed=False),
        open_data([path, write(tmp_path / "another.jsonl", [GOOD])]),
        open_data([path], held_out_files=[tmp_path / "another.jsonl"]),
    ]
    assert len({first, *(data.fingerprint for data in others)}) == 1 + len(others)
