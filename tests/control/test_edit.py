"""Edits change what is selected and nothing else, whatever the model answers."""

import dataclasses
import math
import re
from typing import Any

import pytest
from engine.tiny import CANVAS, reciter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gesso
from gesso.control.edit import STRENGTH, SURE_ENOUGH, EditResult, edit, split_lines, unified_diff
from gesso.control.job import run_job
from gesso.control.selection import Everything, Lines, Match, Selection
from gesso.engine.engine import Engine, Request
from gesso.errors import OptionError
from gesso.tasks.edit_prompt import edit_prompt
from gesso.tasks.skills.skill import REFUSAL

TEXT = "def f(x):\n    return x\n\ndef g(x):\n    return f(x) + 1\n"
LINES = st.lists(st.text(st.sampled_from("abc 1\t=()\u00e9\u4e2d\U0001f600"), max_size=9), min_size=1, max_size=9)


def run(engine: Engine, text: str = TEXT, instruction: str = "Rename f.", **options: Any) -> EditResult:
    return run_job(engine, edit(engine, text, instruction, **options))


def first_request(engine: Engine, text: str = TEXT, instruction: str = "Rename f.", **options: Any) -> Request:
    (request,) = next(edit(engine, text, instruction, **options))
    return request


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    lines=LINES,
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    strength=st.sampled_from([None, 0.3, 1.0]),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_nothing_outside_the_selection_changes(
    tiny: Engine, lines: list[str], end: str, last: bool, strength: float | None, seed: int, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(lines)))
    lines = [*lines[:place], "x = 1", *lines[place:], "end"]
    first = data.draw(st.integers(1, place + 1))
    upto = data.draw(st.integers(place + 1, len(lines)))
    text = end.join(lines) + (end if last else "")
    # An end of turn that is likelier: random weights say it seldom.
    options = {"seed": seed, "max_denoising_steps": 4, "logit_bias": {tiny.end_of_turn: 12.0}}
    result = run(tiny, text, selection=Lines(first, upto), strength=strength, **options)
    head = "".join(line + end for line in lines[: first - 1])
    tail = end.join(["", *lines[upto:]]) + (end if last else "")
    assert result.text.encode().startswith(head.encode())
    assert result.text.encode().endswith(tail.encode())
    assert result.text == head + result.replacement + tail
    assert (result.before, result.selected, result.after) == (head, end.join(lines[first - 1 : upto]), tail)
    assert result.changed == (result.text != text)
    assert bool(result.diff) == result.changed
    if result.left_out:
        assert result.text == text


def test_random_weights_do_answer(tiny: Engine) -> None:
    """Else the test above would see the old text only."""
    bias = {tiny.end_of_turn: 12.0}
    found = [run(tiny, seed=seed, max_denoising_steps=4, logit_bias=bias, selection=Lines(2, 2)) for seed in range(8)]
    assert sum(result.left_out is None and result.changed for result in found) >= 4


@pytest.mark.parametrize(
    ("selection", "answer", "expected"),
    [
        (Lines(2, 2), "return 2 * x", "def f(x):\r\n    return 2 * x\r\n\r\nend\r\n"),
        (Lines(1, 2), "def g():\n    return 1\n", "def g():\r\n    return 1\r\n\r\nend\r\n"),
        (Match("x)"), "x, y)", "def f(x, y):\r\n    return x\r\n\r\nend\r\n"),
        (None, "a\nb", "a\r\nb\r\n"),
    ],
)
def test_the_answer_takes_the_place_of_the_selection(selection: Selection | None, answer: str, expected: str) -> None:
    text = "def f(x):\r\n    return x\r\n\r\nend\r\n"
    result = run(reciter(answer), text, selection=selection)
    assert result.text == expected
    assert result.left_out is None
    assert result.changed


def test_the_same_answer_changes_nothing() -> None:
    result = run(reciter("return x"), selection=Lines(2, 2))
    assert (result.text, result.changed, result.diff) == (TEXT, False, "")


def test_an_answer_that_was_not_finished_is_left_out() -> None:
    endless = reciter("fig " * 500, fill="<pad>")
    result = run(endless, selection=Lines(2, 2))
    assert result.left_out == f"the answer was not finished within {result.answer.completion_tokens} tokens"
    assert (result.text, result.replacement, result.diff) == (TEXT, "    return x", "")
    short = run(reciter("fig apple kiwi"), selection=Lines(2, 2), max_new_tokens=3)
    assert (short.left_out, short.text) == ("the answer was not finished within 3 tokens", TEXT)


@pytest.mark.parametrize("answer", ["", "\n", "  \n\n"])
def test_no_answer_deletes_nothing(answer: str) -> None:
    result = run(reciter(answer))
    assert (result.text, result.changed, result.left_out) == (TEXT, False, "the answer is empty")


def test_a_refusal_takes_the_place_of_nothing() -> None:
    """It would overwrite a file of one's own with a sentence that a model was taught to say of what it cannot do."""

    def edited(answer: str, text: str = TEXT, instruction: str = "Sing.") -> EditResult:
        return run(reciter(answer), text, instruction, max_new_tokens=100)

    for answer in (REFUSAL, f"{REFUSAL}\n"):
        result = edited(answer)
        assert (result.text, result.changed, result.left_out) == (TEXT, False, f"the model answered {REFUSAL!r}")
    assert edited(REFUSAL, instruction=f"Write {REFUSAL}").text == f"{REFUSAL}\n"
    assert edited(REFUSAL, f"# {REFUSAL}\n").text == f"{REFUSAL}\n"
    assert edited(f"{REFUSAL} No more.").text == f"{REFUSAL} No more.\n"


def test_a_result_can_be_made_a_mapping() -> None:
    result = run(reciter("return 7"), selection=Lines(2, 2), seed=3)
    told = dataclasses.asdict(result)
    assert told["text"] == result.text
    assert told["answer"]["seed"] == 3
    assert result.denoising_steps == sum(result.answer.denoising_steps) > 0
    assert result.prompt_tokens == result.answer.prompt_tokens > 10
    assert result.seconds > 0


def test_the_whole_text_is_asked_for_as_it_was_trained(tiny: Engine) -> None:
    for selection in (None, Everything(), Lines(1, 5), Match(TEXT)):
        assert first_request(tiny, selection=selection).prompt == f"Rename f.\n\n{TEXT.rstrip()}"
    assert first_request(tiny, selection=Lines(2, 2), context=0).prompt == "Rename f.\n\nreturn x"


def test_what_stands_around_is_shown_and_the_selection_comes_last(tiny: Engine) -> None:
    prompt = first_request(tiny, selection=Lines(2, 2)).prompt
    assert isinstance(prompt, str)
    assert "\n\nBefore the part:\ndef f(x):\n\nAfter the part:\ndef g(x):\n    return f(x) + 1\n\n" in prompt
    assert prompt.endswith("\n\nRename f.\n\nreturn x")
    assert "Before" not in str(first_request(tiny, selection=Lines(1, 2)).prompt)


@pytest.mark.parametrize(("first", "last"), [(1, 2), (4, 5), (5, 5), (1, 1), (7, 8)])
def test_a_part_of_a_file_is_asked_for_as_it_was_trained(tiny: Engine, first: int, last: int) -> None:
    text = "def f(x):\n    return x\n\ndef g(x):\n    return x + 1\n\ndef h(x):\n    return 7\n"
    lines = text.splitlines()
    part = "\n".join(lines[first - 1 : last]).lstrip()
    before, after = "\n".join(lines[: first - 1]), "\n".join(lines[last:])
    request = first_request(tiny, text, "Change it.", selection=Lines(first, last))
    assert request.prompt == edit_prompt("Change it.", part, before, after)


def test_the_nearest_lines_are_shown_first_and_no_more_than_asked_for(tiny: Engine) -> None:
    text = "".join(f"line {number} of them\n" for number in range(101))
    tokens = len(tiny.tokenizer.encode("line 10 of them\n"))
    for lines in (1, 2, 5):
        prompt = str(first_request(tiny, text, selection=Lines(51, 51), context=2 * lines * tokens).prompt)
        shown = {number for number in range(101) if number != 50 and f"line {number} of" in prompt}
        assert shown == {*range(50 - lines, 50), *range(51, 51 + lines)}
    # A side that has no more leaves its share to the other.
    prompt = str(first_request(tiny, text, selection=Lines(1, 1), context=4 * tokens).prompt)
    assert [number for number in range(1, 101) if f"line {number} of" in prompt] == [1, 2, 3, 4]


def test_canvases_start_from_the_current_text(tiny: Engine) -> None:
    options = first_request(tiny, selection=Lines(2, 2), strength=0.4, seed=5).options
    tokens = tiny.tokenizer.encode("return x")
    start = [*tokens, tiny.end_of_turn]
    assert options["start_canvas"][: len(start)] == start
    assert set(options["start_canvas"][len(start) :]) == {tiny.pad_fill}
    assert len(options["start_canvas"]) == CANVAS * math.ceil(len(start) / CANVAS)
    assert (options["strength"], options["seed"]) == (0.4, 5)
    assert first_request(tiny).options["strength"] == STRENGTH
    assert not {"start_canvas", "strength"} & set(first_request(tiny, strength=None).options)
    narrow = first_request(tiny, canvas_length=5).options
    assert len(narrow["start_canvas"]) % 5 == 0


def test_there_is_room_to_grow(tiny: Engine) -> None:
    count = len(tiny.tokenizer.encode(TEXT.rstrip()))
    assert 2 * count + CANVAS <= first_request(tiny).options["max_new_tokens"] < 2 * count + 2 * CANVAS
    assert first_request(tiny, max_new_tokens=40).options["max_new_tokens"] == 40


@pytest.mark.parametrize(("strength", "most"), [(0.25, 3), (0.5, 6), (1.0, 12), (None, 12)])
def test_strength_is_the_share_of_the_steps(tiny: Engine, strength: float | None, most: int) -> None:
    steps = run(tiny, strength=strength, seed=1, confidence_threshold=0.0).answer.denoising_steps
    assert set(steps) == {most}


def test_what_starts_from_the_text_ends_a_little_less_sure_unless_told_otherwise(tiny: Engine) -> None:
    def threshold(**options: Any) -> object:
        return first_request(tiny, **options).options.get("confidence_threshold")

    assert threshold(strength=0.3) == SURE_ENOUGH > tiny.defaults.confidence_threshold
    assert threshold(strength=0.3, confidence_threshold=0.001) == 0.001
    assert threshold(strength=1.0) is None


def test_at_little_strength_most_of_the_text_stays(tiny: Engine) -> None:
    request = first_request(tiny, strength=0.2, seed=2)
    canvas = tiny.start(request).canvas.canvas_C.tolist()
    assert sum(a == b for a, b in zip(canvas, request.options["start_canvas"], strict=False)) >= CANVAS // 2


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TEXT, {"instruction": " \n"}, "^instruction is empty"),
        (TEXT, {"instruction": 5}, "^instruction must be a string, got 5"),
        (TEXT, {"name": 5}, "^name must be a string, got 5"),
        (" \r\n\t", {}, "^text: there is nothing to edit"),
        ("", {}, "^text: there is nothing to edit"),
        (TEXT, {"selection": Lines(3, 3)}, "^text: there is nothing to edit"),
        (TEXT, {"selection": Lines(6, 6)}, "^lines: the text has 5"),
        (TEXT, {"selection": Match("x")}, "^match must occur exactly once in the text, it occurs 4 times"),
        ("a <turn|> b", {}, r"^text: the selection holds <turn\|>"),
        ("a \u2581 b", {}, "^text: the selection cannot be written exactly"),
        (TEXT, {"strength": 0}, "^strength must be above 0"),
        (TEXT, {"strength": 1.5}, "^strength must be above 0 and at most 1"),
        (TEXT, {"strength": "low"}, "^strength must be a number above 0, got 'low'"),
        (TEXT, {"context": -1}, "^context must be an integer"),
        (TEXT, {"raw": True}, "^raw: an edit decides it"),
        (TEXT, {"start_canvas": [5] * CANVAS}, "^start_canvas: an edit decides it"),
        (TEXT, {"max_new_tokens": 0}, "^max_new_tokens must be"),
        (TEXT, {"canvas_length": 0}, "^canvas_length must be"),
        (TEXT, {"colour": 1}, "^unknown option 'colour'"),
        (TEXT, {"selection": (0, 5)}, r"^selection must be gesso.Lines.*, got \(0, 5\)"),
        ("fig " * 3000, {}, "past the model's 4096"),
    ],
)
def test_what_cannot_be_edited_is_refused(tiny: Engine, text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        run(tiny, text, **options)


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(st.sampled_from(["a", "b", "", "c\r"]), max_size=30),
    places=st.tuples(st.integers(0, 30), st.integers(0, 30)),
    new=st.lists(st.sampled_from(["a", "x", "", "y\r"]), max_size=4),
    last=st.booleans(),
)
def test_the_diff_makes_the_new_text_of_the_old(
    lines: list[str], places: tuple[int, int], new: list[str], last: bool
) -> None:
    end = "\n" if last else ""
    start, stop = sorted(places)
    old_text = "\n".join([*lines, "z"]) + end
    new_text = "\n".join([*lines[:start], *new, *lines[stop:], "z"]) + end
    diff = unified_diff(old_text, new_text, "file")
    assert bool(diff) == (old_text != new_text)
    assert patched(old_text, diff) == new_text


def patched(text: str, diff: str) -> str:
    """The text with a unified diff applied, each hunk exactly where it says."""
    old, made, place = split_lines(text), [], 0
    lines = split_lines(diff.replace("\n\\ No newline at end of file\n", "\0"))
    for line in [part for whole in lines[2:] for part in re.findall(r"[^\0]+\0|[^\0]+", whole)]:
        content = line[1:].removesuffix("\0")
        if found := re.match(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n", line):
            start = int(found[1]) - (found[2] != "0")
            assert start >= place
            made += old[place:start]
            place = start
            assert len(made) == int(found[3]) - (found[4] != "0")
            continue
        if line[0] in " -":
            assert old[place] == content
            place += 1
        if line[0] in " +":
            made.append(content)
    return "".join(made + old[place:])


def test_a_diff_far_down_a_repeating_text_tells_the_right_line() -> None:
    lines = ["same\n"] * 60_000
    diff = unified_diff("".join(lines), "".join([*lines[:40_000], "other\n", *lines[40_001:]]), "f")
    assert diff.splitlines() == [
        "--- f",
        "+++ f",
        "@@ -39998,7 +39998,7 @@",
        *[" same"] * 3,
        "-same",
        "+other",
        *[" same"] * 3,
    ]


def test_a_text_without_a_last_line_end_is_told_so() -> None:
    diff = unified_diff("a", "b\n", "f")
    assert diff == "--- f\n+++ f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"


def test_mini_edits_run_to_their_end() -> None:
    import gesso

    result = run(gesso.load("mini"), "def get_old(x):\n    return x + 7\n", "Rename the function to find_nine.", seed=0)
    assert result.answer.finish_reason == "stop"
    assert result.text.endswith("\n")


def test_a_model_that_writes_token_by_token_edits_so_from_noise_alone() -> None:
    skills = gesso.load("skills", "cpu", offline=True)
    source = "def add_seven(x):\n    return x + 7\n"
    (request,) = next(edit(skills, source, "Change 7 to 12.", seed=0))
    assert "start_canvas" not in request.options
    assert "start_canvas" in next(edit(skills, source, "Change 7 to 12.", seed=0, strength=0.5))[0].options
    assert "start_canvas" in next(edit(skills, source, "Change 7 to 12.", seed=0, mode="canvas"))[0].options
    assert run_job(skills, edit(skills, source, "Change 7 to 12.", seed=0)).text == source.replace("7", "12")
    for name, value in {"restart_steps": 4, "max_denoising_steps": 1, "sampler": "margin", "guidance_scale": 2}.items():
        options = next(edit(skills, source, "Change 7 to 12.", seed=0, **{name: value}))[0].options
        assert "start_canvas" in options, name
        skills.defaults.override(**{key: options.get(key) for key in ("start_canvas", name)})  # nothing contradicts
        assert next(edit(skills, source, "Fix it.", strength=None, **{name: value}))[0].options["mode"] == "canvas"
    assert (
        "start_canvas" not in next(edit(skills, source, "Change 7 to 12.", mode="ar", max_denoising_steps=1))[0].options
    )
