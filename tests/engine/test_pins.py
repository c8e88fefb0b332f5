"""Pins: what is held is what is emitted, whatever the model thinks of it."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.tiny import CANVAS, reciter
from gesso.engine.engine import Engine, Request
from gesso.engine.events import DenoisingFrame
from gesso.errors import OptionError

VOCAB = 600
TEMPLATES = st.lists(st.none() | st.integers(20, VOCAB - 1), min_size=1, max_size=4 * CANVAS)


def held(template: list[int | None]) -> dict[int, int]:
    return {place: token for place, token in enumerate(template) if token is not None}


@settings(max_examples=12, deadline=None)
@given(template=TEMPLATES, options=st.sampled_from([{}, {"top_p": 0.8}, {"temperature": 0}, {"canvas_length": 5}]))
def test_every_pin_is_in_the_answer_at_its_place(tiny: Engine, template: list[int | None], options: Any) -> None:
    long = len(template) + CANVAS
    result = tiny.generate("hi", seed=3, canvas=template, max_denoising_steps=6, max_new_tokens=long, **options)
    found = dict(enumerate(result.token_ids))
    assert {place: found.get(place) for place in held(template)} == held(template)


def test_pins_enter_every_step_and_are_certain(tiny: Engine) -> None:
    template = [300, None, 301, None, None, 302, None, None]
    events = list(tiny.stream("hi", seed=1, canvas=template, max_new_tokens=CANVAS))
    drafts = [event for event in events if isinstance(event, DenoisingFrame)]
    assert len(drafts) > 1
    for frame in drafts:
        for place, token in held(template).items():
            assert (frame.tokens[place], frame.accepted[place], frame.entropy[place]) == (token, True, 0.0)


def test_free_positions_may_be_started_and_pins_win(tiny: Engine) -> None:
    start = list(range(100, 100 + CANVAS))
    template = [None, 300, None, None, None, None, None, 301]
    sequence = tiny.start(Request("hi", {"canvas": template, "start_canvas": start}))
    assert sequence.canvas.canvas_C.tolist() == [100, 300, 102, 103, 104, 105, 106, 301]


def test_the_answer_does_not_end_before_the_last_pin(tiny: Engine) -> None:
    ends = tiny.defaults.eos_token_ids
    certain = dict.fromkeys(ends, 1000.0)
    assert tiny.generate("hi", logit_bias=certain).token_ids[0] in ends
    result = tiny.generate("hi", logit_bias=certain, canvas=[None] * (CANVAS + 2) + [300])
    assert result.token_ids[CANVAS + 2] == 300
    assert not set(result.token_ids[: CANVAS + 2]) & set(ends)
    assert result.token_ids[CANVAS + 3] in ends


def test_it_goes_on_as_usual_behind_the_last_pin() -> None:
    engine = reciter("fig apple")
    ids = engine.tokenizer.encode("kiwi")
    result = engine.generate("hi", canvas=ids)
    assert result.text.startswith("kiwi")
    assert result.finish_reason == "stop"


def test_stop_strings_count_behind_the_last_pin_only() -> None:
    engine = reciter("x fig apple pear")
    ids = engine.tokenizer.encode("x fig")
    assert engine.generate("hi", stop=["fig"]).text == "x "
    assert engine.generate("hi", stop=["fig", "apple"], canvas=ids).text == "x fig "


@pytest.mark.parametrize("mode", ["canvas", "ar"])
def test_stop_strings_do_not_count_in_what_the_answer_is_made_to_begin_with(tiny: Engine, mode: str) -> None:
    asked = {"begin": "fig pear", "mode": mode, "max_new_tokens": 12, "seed": 2}
    plain = tiny.generate("hi", **asked)
    assert len(plain.token_ids) > 2
    assert plain.text.count("g p") == 1
    assert tiny.generate("hi", stop=["g p"], **asked).text == plain.text


def test_pins_in_a_batch_equal_their_solo_runs(tiny: Engine) -> None:
    rng = random.Random(2)
    requests = [
        {
            "prompt": f"number {i}",
            "seed": i,
            "max_new_tokens": 3 * CANVAS,
            "canvas": [rng.choice([None, None, 300 + i]) for _ in range(20)],
        }
        for i in range(6)
    ]
    together = [result.token_ids for result in tiny.generate_batch(requests)]
    assert together == [tiny.generate_batch([request])[0].token_ids for request in requests]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"canvas": []}, "canvas must be"),
        ({"canvas": [1.5]}, "canvas must be"),
        ({"canvas": "abc"}, "canvas must be"),
        ({"canvas": [None, -1]}, "canvas must be"),
        ({"canvas": [10**6]}, "canvas has token id 1000000"),
        ({"canvas": [5] * 20, "max_new_tokens": 19}, "canvas has 20 positions, max_new_tokens is 19"),
        ({"canvas": [5], "thinking_budget": 3}, "thinking_budget must be left out beside canvas"),
        ({"canvas": [30, 1, 31]}, "canvas has token id 1, which ends the answer, before its last token"),
    ],
)
def test_impossible_pins_are_refused(tiny: Engine, options: dict[str, Any], match: str) -> None:
    with pytest.raises(OptionError, match=match):
        tiny.generate("hi", **options)


def test_pins_have_room_behind_what_the_answer_begins_with(tiny: Engine) -> None:
    prefix = tiny.tokenizer.encode("1 2 3")
    pinned: list[int | None] = [*[None] * 9, 300]
    found = tiny.generate("hi", seed=1, begin="1 2 3", canvas=pinned, ignore_eos=True)
    assert found.token_ids[: len(prefix)] == tuple(prefix)
    assert found.token_ids[len(prefix) + 9] == 300
    message = f"canvas has 10 positions behind the {len(prefix)} of begin, max_new_tokens is 12"
    with pytest.raises(OptionError, match=message):
        tiny.generate("hi", begin="1 2 3", canvas=pinned, max_new_tokens=12)


# Going on from a step.


def drafts_of(engine: Engine, **options: Any) -> list[DenoisingFrame]:
    return [event for event in engine.stream("hi", **options) if isinstance(event, DenoisingFrame)]


def test_a_canvas_goes_on_from_the_step_that_it_is_given(tiny: Engine) -> None:
    options: dict[str, Any] = {
        "seed": 1,
        "max_new_tokens": CANVAS,
        "max_denoising_steps": 12,
        "confidence_threshold": 0,
    }
    whole = drafts_of(tiny, **options)
    assert len(whole) == 12
    third = whole[2]
    rest = drafts_of(tiny, **options, start_canvas=third.canvas_tokens, start_step=third.step)
    assert [frame.step for frame in rest] == list(range(4, 13))
    assert [frame.temperature for frame in rest] == [frame.temperature for frame in whole[3:]]
    assert {frame.max_denoising_steps for frame in rest} == {12}
    # What enters the first of its steps is what it was given: the same pass but for the self-conditioning, from zero.
    assert drafts_of(tiny, **options, start_canvas=third.canvas_tokens)[0].tokens == rest[0].tokens


def test_only_the_last_canvas_that_is_given_has_steps_behind_it(tiny: Engine) -> None:
    tokens = [300 + i for i in range(2 * CANVAS)]
    frames = drafts_of(
        tiny, seed=1, max_new_tokens=3 * CANVAS, max_denoising_steps=12, confidence_threshold=0, ignore_eos=True,
        canvas=tokens[:CANVAS], start_canvas=tokens, start_step=10,
    )  # fmt: skip
    steps = [[frame.step for frame in frames if frame.canvas == number] for number in range(3)]
    assert steps[1:] == [[11, 12], list(range(1, 13))]
    assert steps[0][0] == 1
    assert all(frame.tokens == tuple(tokens[:CANVAS]) for frame in frames if frame.canvas == 0)


def test_what_a_step_accepts_stays_in_the_canvas_and_pins_are_told(tiny: Engine) -> None:
    template = [300, None, 301]
    for frame in drafts_of(tiny, seed=1, canvas=template, max_new_tokens=CANVAS, temperature=0):
        assert frame.pinned == (True, False, True, *(False,) * (CANVAS - 3))
        kept = [
            (tok, best)
            for tok, best, kept in zip(frame.canvas_tokens, frame.tokens, frame.accepted, strict=True)
            if kept
        ]
        assert all(token == best for token, best in kept)
    assert drafts_of(tiny, seed=1, max_new_tokens=CANVAS)[0].pinned == ()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"start_step": 3}, "start_step must be left out without start_canvas"),
        (
            {"start_step": 3, "start_canvas": [5] * CANVAS, "strength": 0.5},
            "start_step must be left out beside strength",
        ),
        (
            {"start_step": 12, "start_canvas": [5] * CANVAS, "max_denoising_steps": 12},
            "must be below max_denoising_steps",
        ),
        ({"start_step": -1, "start_canvas": [5] * CANVAS}, "start_step must be an integer of at least 0"),
    ],
)
def test_impossible_steps_are_refused(tiny: Engine, options: dict[str, Any], match: str) -> None:
    with pytest.raises(OptionError, match=match) as caught:
        tiny.generate("hi", **options)
    assert caught.value.option == "start_step"


def test_an_end_in_what_the_answer_begins_with_is_refused(tiny: Engine) -> None:
    """The answer would be over before its first canvas."""
    with pytest.raises(OptionError, match=r"begin holds '<turn\|>', which ends the answer") as caught:
        tiny.generate("hi", begin="pear<turn|>")
    assert caught.value.option == "begin"
    begun = tiny.generate("hi", seed=1, begin="pear<turn|>", ignore_eos=True, max_new_tokens=CANVAS)
    assert begun.completion_tokens == CANVAS
    assert begun.text.startswith("pear")
