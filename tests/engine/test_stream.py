"""The events of a request: their order, what they hold, and how a request is cancelled."""

from typing import Any

import pytest

from engine.tiny import CANVAS, reciter
from gesso.engine.engine import Engine
from gesso.engine.engine_core import EngineCore
from gesso.engine.events import BlockCommitted, DenoisingFrame, Event, Finished
from gesso.runner import model_runner as model_runner_module

WORDS = "pear fig apple kiwi lemon mango plum lime grape peach"


def blocks_of(events: list[Event]) -> list[BlockCommitted]:
    return [event for event in events if isinstance(event, BlockCommitted)]


def test_drafts_blocks_and_the_finish_come_in_order(tiny: Engine) -> None:
    events = list(tiny.stream("Sort: pear, fig", seed=2, max_new_tokens=20))
    result = events[-1].result  # type: ignore[union-attr]
    kinds = [type(event) for event in events]
    expected: list[type] = []
    for steps in result.denoising_steps:
        expected += [*[DenoisingFrame] * steps, BlockCommitted]
    assert kinds == [*expected, Finished]
    canvas, step = 0, 0
    for event in events[:-1]:
        if isinstance(event, DenoisingFrame):
            step += 1
            assert (event.canvas, event.step, event.max_denoising_steps) == (canvas, step, 12)
        elif isinstance(event, BlockCommitted):
            assert (event.canvas, event.denoising_steps) == (canvas, step)
            canvas, step = canvas + 1, 0


def test_what_a_draft_frame_holds(tiny: Engine) -> None:
    frames = [e for e in tiny.stream("hi", seed=2, max_new_tokens=CANVAS) if isinstance(e, DenoisingFrame)]
    vocab = tiny.model.config.vocab_size
    assert len(frames) > 2
    for number, frame in enumerate(frames):
        assert len(frame.tokens) == len(frame.accepted) == len(frame.entropy) == len(frame.pieces) == CANVAS
        assert all(0 <= token < vocab for token in frame.tokens)
        assert all(entropy >= 0 for entropy in frame.entropy)
        assert any(frame.accepted)
        assert frame.pieces == tuple(tiny.tokenizer.piece(token) for token in frame.tokens)
        assert frame.temperature == pytest.approx(0.4 + 0.4 * (12 - number) / 12)
    surest = frames[0].entropy.index(min(frames[0].entropy))
    assert frames[0].accepted[surest]


def test_the_last_draft_is_the_block(tiny: Engine) -> None:
    last: tuple[int, ...] = ()
    for event in tiny.stream("hi", seed=2, max_new_tokens=20, ignore_eos=True):
        if isinstance(event, DenoisingFrame):
            last = event.tokens
        elif isinstance(event, BlockCommitted):
            assert event.tokens == last[: len(event.tokens)]


@pytest.mark.parametrize("seed", range(4))
def test_blocks_add_up_to_the_result(tiny: Engine, seed: int) -> None:
    """Random text: bytes that are no characters, special tokens, thoughts that never end."""
    events = list(tiny.stream("hi", seed=seed, max_new_tokens=60, ignore_eos=True, stop=["never"]))
    blocks, result = blocks_of(events), events[-1].result  # type: ignore[union-attr]
    assert "".join(block.text for block in blocks) == result.text
    assert "".join(block.reasoning for block in blocks) == result.reasoning
    assert tuple(token for block in blocks for token in block.tokens) == result.token_ids
    assert tuple(block.denoising_steps for block in blocks) == result.denoising_steps
    assert tuple(block.converged for block in blocks) == result.converged


def test_a_stream_equals_generate_and_drafts_may_be_left_out(tiny: Engine) -> None:
    options: dict[str, Any] = {"seed": 2, "max_new_tokens": 20}
    whole = tiny.generate("hi", **options)
    for frames in (True, False):
        events = list(tiny.stream("hi", frames=frames, **options))
        assert any(isinstance(event, DenoisingFrame) for event in events) == frames
        assert events[-1].result.token_ids == whole.token_ids  # type: ignore[union-attr]


@pytest.mark.parametrize("canvas", [1, 2, 3, 8])
def test_no_block_shows_what_a_stop_string_takes_back(canvas: int) -> None:
    engine = reciter(WORDS, canvas=canvas)
    events = list(engine.stream("hi", stop=["kiwi lemon"]))
    assert "".join(block.text for block in blocks_of(events)) == "pear fig apple "
    # Here the same words are the beginning of no stop string, and come as soon as that is known.
    events = list(engine.stream("hi", stop=["kiwi lime"]))
    assert "".join(block.text for block in blocks_of(events)) == WORDS


@pytest.mark.parametrize("canvas", [1, 2, 3, 8])
def test_no_block_shows_half_a_character(canvas: int) -> None:
    engine = reciter("caf\N{LATIN SMALL LETTER E WITH ACUTE} \N{GRINNING FACE}!", canvas=canvas)
    texts = [block.text for block in blocks_of(list(engine.stream("hi")))]
    assert "".join(texts) == "caf\N{LATIN SMALL LETTER E WITH ACUTE} \N{GRINNING FACE}!"
    assert "\ufffd" not in "".join(texts)


def test_thoughts_come_as_reasoning() -> None:
    engine = reciter("<|channel>thought\npear fig apple kiwi\n<channel|>lemon mango", canvas=4)
    events = list(engine.stream("hi", thinking=True, stop=["apple"]))
    result = events[-1].result  # type: ignore[union-attr]
    assert (result.reasoning, result.text, result.finish_reason) == ("pear fig apple kiwi", "lemon mango", "stop")
    blocks = blocks_of(events)
    assert blocks[0].reasoning
    assert not blocks[0].text
    assert "".join(block.reasoning for block in blocks) == result.reasoning


def test_nothing_runs_before_the_first_event_is_asked_for() -> None:
    engine = reciter(WORDS)
    stream = engine.stream("hi")
    assert engine.model.passes == 0  # type: ignore[attr-defined]
    next(stream)
    assert engine.model.passes == 1  # type: ignore[attr-defined]


def test_a_loop_goes_on_behind_the_events_that_were_taken() -> None:
    first, *rest = reciter(WORDS).stream("hi", seed=1)
    stream = reciter(WORDS).stream("hi", seed=1)
    assert next(stream) == first
    assert [type(event) for event in stream] == [type(event) for event in rest]
    assert next(stream, None) is None


# Cancelling


def test_cancelling_keeps_what_is_committed() -> None:
    engine = reciter(WORDS)
    stream = engine.stream("hi")
    events: list[Event] = []
    for event in stream:
        events.append(event)
        if isinstance(event, BlockCommitted):
            stream.cancel()
    assert [type(event) for event in events[-2:]] == [BlockCommitted, Finished]
    result = events[-1].result  # type: ignore[union-attr]
    ids = engine.tokenizer.encode(WORDS)[:CANVAS]
    assert (result.finish_reason, result.token_ids) == ("cancelled", tuple(ids))
    assert result.text == engine.tokenizer.decode(ids)
    assert (result.completion_tokens, result.denoising_steps, result.converged) == (CANVAS, (2,), (True,))
    assert engine.model.passes == 2, "no pass begins once it is cancelled"  # type: ignore[attr-defined]


def test_cancelling_in_the_middle_of_a_canvas_drops_it_but_tells_its_steps(tiny: Engine) -> None:
    stream = tiny.stream("hi", seed=0, max_new_tokens=20)
    events: list[Event] = []
    for event in stream:
        events.append(event)
        if isinstance(event, DenoisingFrame) and (event.canvas, event.step) == (1, 3):
            stream.cancel()
    result = events[-1].result  # type: ignore[union-attr]
    assert isinstance(events[-2], DenoisingFrame)
    assert (result.finish_reason, result.completion_tokens) == ("cancelled", CANVAS)
    assert (result.canvases, result.denoising_steps[1], result.converged[1]) == (2, 3, False)
    assert result.tokens_per_forward == CANVAS / sum(result.denoising_steps)


def test_cancelling_before_the_start_does_no_work() -> None:
    engine = reciter(WORDS)
    stream = engine.stream("hi")
    stream.cancel()
    (event,) = stream
    assert isinstance(event, Finished)
    assert (event.result.finish_reason, event.result.text, event.result.canvases) == ("cancelled", "", 0)
    assert event.result.seconds_to_first_block == 0
    assert engine.model.encoded == []  # type: ignore[attr-defined]


def test_cancelling_during_a_pass_keeps_the_canvas_that_it_finishes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a signal handler does."""
    engine = reciter(WORDS)
    stream = engine.stream("hi")
    step = model_runner_module.denoise_step

    def interrupted(*arguments: Any) -> None:
        step(*arguments)
        if engine.model.passes == 2:  # type: ignore[attr-defined]
            stream.cancel()

    monkeypatch.setattr(model_runner_module, "denoise_step", interrupted)
    events = list(stream)
    assert [type(event) for event in events] == [DenoisingFrame, BlockCommitted, Finished]
    assert events[-1].result.finish_reason == "cancelled"  # type: ignore[union-attr]
    assert events[-1].result.completion_tokens == CANVAS  # type: ignore[union-attr]


def test_cancelling_a_request_that_ends_anyway_changes_nothing() -> None:
    engine = reciter("pear")
    stream = engine.stream("hi")
    for event in stream:
        if isinstance(event, BlockCommitted):
            stream.cancel()
    assert isinstance(event, Finished)
    assert event.result.finish_reason == "stop"


def test_text_held_back_for_a_stop_string_is_in_a_cancelled_result() -> None:
    engine = reciter("pear fig apple kiwi lemon", canvas=3)
    stream, texts = engine.stream("hi", stop=["apple kiwi plum"]), list[str]()
    for event in stream:
        if isinstance(event, BlockCommitted):
            texts.append(event.text)
            stream.cancel()
    assert isinstance(event, Finished)
    assert "apple" not in texts[0]
    assert "".join(texts) == event.result.text
    assert event.result.text == engine.tokenizer.decode(event.result.token_ids)
    assert "apple" in event.result.text


def test_a_stream_that_is_left_drops_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    monkeypatch.setattr(EngineCore, "close", lambda core: closed.append(core.idle))
    engine = reciter(WORDS)
    with engine.stream("hi") as stream:
        next(stream)
        assert closed == []
    assert closed == [False], "at the end of the block, not when the stream is forgotten"
    passes = engine.model.passes  # type: ignore[attr-defined]
    assert list(stream) == []
    stream.close()
    assert (closed, engine.model.passes) == ([False], passes)  # type: ignore[attr-defined]
    engine.stream("hi").close()  # before anything is computed
    assert engine.model.passes == passes  # type: ignore[attr-defined]
