"""Events to JSON and back: whole, or refused."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tiny import reciter
from gesso.engine.events import BlockCommitted, DenoisingFrame, Event, Finished, event_from_dict, event_to_dict
from gesso.engine.result import GenerationResult
from gesso.errors import DataError

COUNTS = st.integers(0, 2**40)
TEXTS = st.text(max_size=20)
SECONDS = st.floats(0, 1e6)


def many(values: st.SearchStrategy[Any], size: int | None = None) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, min_size=size or 0, max_size=6 if size is None else size).map(tuple)


FRAMES = st.integers(1, 5).flatmap(
    lambda width: st.builds(
        DenoisingFrame,
        canvas=COUNTS,
        step=COUNTS,
        max_denoising_steps=COUNTS,
        temperature=SECONDS,
        tokens=many(COUNTS, width),
        accepted=many(st.booleans(), width),
        entropy=many(SECONDS, width),
        pieces=many(TEXTS, width),
        canvas_tokens=many(COUNTS, width) | st.just(()),
        pinned=many(st.booleans(), width) | st.just(()),
        forced=many(st.booleans(), width) | st.just(()),
    )
)
BLOCKS = st.builds(
    BlockCommitted,
    canvas=COUNTS,
    tokens=many(COUNTS),
    text=TEXTS,
    reasoning=TEXTS,
    denoising_steps=COUNTS,
    converged=st.booleans(),
)
RESULTS = st.builds(
    GenerationResult,
    text=TEXTS,
    reasoning=TEXTS,
    token_ids=many(COUNTS),
    finish_reason=st.sampled_from(["stop", "length", "cancelled"]),
    prompt_tokens=COUNTS,
    completion_tokens=COUNTS,
    denoising_steps=many(COUNTS),
    converged=many(st.booleans()),
    seed=COUNTS,
    seconds_to_first_block=SECONDS,
    seconds=SECONDS,
)
EVENTS = st.one_of(FRAMES, BLOCKS, st.builds(Finished, result=RESULTS))


@given(EVENTS)
def test_an_event_comes_back_from_json(event: Event) -> None:
    assert event_from_dict(event_to_dict(event)) == event
    assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event


def test_the_events_of_a_request_come_back_from_json() -> None:
    events = list(reciter("pear fig apple").stream("hi", seed=1))
    assert [event_from_dict(json.loads(json.dumps(event_to_dict(event)))) for event in events] == events
    assert [event_to_dict(event)["event"] for event in events] == ["draft", "draft", "block", "finished"]


BLOCK = event_to_dict(BlockCommitted(0, (5,), "a", "", 2, True))
FRAME = event_to_dict(DenoisingFrame(0, 1, 48, 0.8, (5, 6), (True, False), (0.1, 2.0), ("a", "b")))
FINISH = event_to_dict(Finished(GenerationResult("a", "", (5,), "stop", 1, 1, (2,), (True,), 7, 0.1, 0.2)))


def test_a_name_of_older_traces_is_read() -> None:
    named = {**FINISH["result"], "disputed_tokens": FINISH["result"]["rejected_tokens"]}
    older = {**FINISH, "result": {name: part for name, part in named.items() if name != "rejected_tokens"}}
    assert event_from_dict(older) == event_from_dict(FINISH)


@pytest.mark.parametrize("raw", [{}, {"event": "draught"}, {"event": None}, {"event": ["draft"]}, {"event": 5}])
def test_an_unknown_kind_is_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="unknown event"):
        event_from_dict(raw)


@pytest.mark.parametrize("raw", [BLOCK, FRAME])
def test_a_missing_or_foreign_field_is_refused_by_name(raw: dict[str, Any]) -> None:
    newer_than_traces = ("tool_calls", "logprobs", "mode", "canvas_tokens", "pinned", "forced")
    for name in raw:
        if name not in ("event", *newer_than_traces):
            with pytest.raises(DataError, match=f"event '{raw['event']}' is not whole.*{name}"):
                event_from_dict({key: value for key, value in raw.items() if key != name})
    with pytest.raises(DataError, match="colour"):
        event_from_dict({**raw, "colour": "red"})


@pytest.mark.parametrize(
    ("raw", "name", "value"),
    [
        (BLOCK, "tokens", 5),
        (BLOCK, "tokens", ["5"]),
        (BLOCK, "tokens", [True]),
        (BLOCK, "text", None),
        (BLOCK, "canvas", 1.5),
        (BLOCK, "converged", 1),
        (FRAME, "entropy", [0.1, "x"]),
        (FRAME, "entropy", [0.1, math.nan]),
        (FRAME, "accepted", [1, 0]),
        (FRAME, "temperature", "hot"),
        (FRAME, "pieces", {"a": 1, "b": 2}),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(raw: dict[str, Any], name: str, value: Any) -> None:
    with pytest.raises(DataError, match=f"is not whole: {name} is "):
        event_from_dict({**raw, name: value})


def test_a_frame_must_be_equally_wide_everywhere() -> None:
    for name in ("tokens", "accepted", "entropy", "pieces"):
        with pytest.raises(DataError, match="equally long"):
            event_from_dict({**FRAME, name: FRAME[name][:1]})
    with pytest.raises(DataError, match="equally long"):
        event_from_dict({**FRAME, "tokens": [], "accepted": [], "entropy": [], "pieces": []})
    for name, value in (("canvas_tokens", 5), ("pinned", True), ("forced", False)):
        event_from_dict({**FRAME, name: []})
        with pytest.raises(DataError, match=f"{name} must be as long as tokens, or empty"):
            event_from_dict({**FRAME, name: [value] * (len(FRAME["tokens"]) + 1)})


def test_a_broken_result_is_refused() -> None:
    result = FINISH["result"]
    for broken in (None, 5, [], "x", {}, {**result, "colour": 1}, {**result, "finish_reason": "bored"}):
        with pytest.raises(DataError, match="event 'finished' is not whole"):
            event_from_dict({"event": "finished", "result": broken})
    with pytest.raises(DataError, match="event 'finished' is not whole"):
        event_from_dict({"event": "finished"})
    with pytest.raises(DataError, match="event 'finished' is not whole"):
        event_from_dict({**FINISH, "colour": 1})
