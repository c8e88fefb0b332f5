"""Requests to results: seeds, batches, limits, stops, and what is refused before any work is done."""

import dataclasses
import gc
import json
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import gesso
from engine.tiny import CANVAS, CONTEXT, reciter
from gesso.engine import engine as engine_module
from gesso.engine.engine import MAX_BATCH, Engine, Request
from gesso.engine.events import BlockCommitted, DenoisingFrame
from gesso.engine.result import GenerationResult
from gesso.engine.settings import LEAST_CANVAS
from gesso.errors import ContextLengthError, OptionError, PromptLengthError, TextError
from gesso.generation import STRATEGIES, generation_options
from gesso.options import options_of
from gesso.runner.model_runner import ModelRunner

TOOL = {"type": "function", "function": {"name": "clock"}}
WORDS = "pear fig apple kiwi lemon mango plum lime grape peach"


def told(result: GenerationResult) -> dict[str, Any]:
    """Everything but the times."""
    fields = dataclasses.asdict(result)
    return {name: value for name, value in fields.items() if not name.startswith("seconds")}


# Seeds


def test_the_same_seed_gives_the_same_result_and_another_another(tiny: Engine) -> None:
    one, again = (tiny.generate("Sort: pear, fig", seed=3, max_new_tokens=24) for _ in range(2))
    other = tiny.generate("Sort: pear, fig", seed=4, max_new_tokens=24)
    assert told(one) == told(again)
    assert one.seed == 3
    assert other.token_ids != one.token_ids


def test_a_request_without_a_seed_reports_the_one_it_drew(tiny: Engine) -> None:
    one, other = (tiny.generate("Sort: pear, fig", max_new_tokens=8) for _ in range(2))
    assert one.seed != other.seed
    assert told(tiny.generate("Sort: pear, fig", max_new_tokens=8, seed=one.seed)) == told(one)


def test_a_start_canvas_replaces_the_first_noise_only(tiny: Engine) -> None:
    start = list(range(40, 40 + CANVAS))
    one = tiny.generate("hi", seed=1, start_canvas=start, max_new_tokens=16, max_denoising_steps=1)
    other = tiny.generate("hi", seed=1, max_new_tokens=16, max_denoising_steps=1)
    assert one.token_ids[:CANVAS] != other.token_ids[:CANVAS]
    again = tiny.generate("hi", seed=2, start_canvas=start, max_new_tokens=16, max_denoising_steps=1)
    assert again.token_ids[:CANVAS] == one.token_ids[:CANVAS], "one step's argmax depends on the start alone"
    assert again.token_ids[CANVAS:] != one.token_ids[CANVAS:]


# Chunks


@pytest.mark.parametrize(
    ("device", "memory", "expected"), [("cpu", 0, 128), ("mps", 0, 512), ("cuda", 16e9, 512), ("cuda", 80e9, 2048)]
)
def test_prompts_are_cut_by_the_device(
    device: str, memory: float, expected: int, tiny: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(tiny.runner), "device", torch.device(device))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=memory))
    assert tiny.chunk == expected
    monkeypatch.setattr(tiny.model, "offload", object())
    assert tiny.chunk == min(expected, 512), "the account of what streams counts so many"


# Batches


MIXED: Sequence[Request] = (
    Request("Sort: pear, fig", {"seed": 1, "max_new_tokens": 20}),
    Request("What is 481 + 296? " * 6, {"seed": 2, "max_new_tokens": 9, "max_denoising_steps": 5}),
    Request([{"role": "user", "content": "x"}], {"seed": 3, "entropy_bound": 2.0, "max_new_tokens": 33}),
    Request([30, 40, 41], {"seed": 4, "t_min": 0.01, "t_max": 0.02, "max_new_tokens": 8}),
    Request("a", {"seed": 1, "max_new_tokens": 20, "stability_threshold": 3}),
    Request("Reverse: one two", {"seed": 6, "confidence_threshold": 9.0, "stability_threshold": 0}),
    Request("b", {"seed": 7, "raw": True, "max_new_tokens": 1}),
    Request("c", {"seed": 8, "thinking": True, "stop": ("a", "e"), "ignore_eos": True, "max_new_tokens": 40}),
    Request([5] * 50, {"seed": 9, "start_canvas": [7] * CANVAS, "max_new_tokens": 12}),
    Request("What is 1 + 1?", {"seed": 1, "max_new_tokens": 20, "max_denoising_steps": 1}),
    Request("Sort: pear, fig", {"seed": 1, "max_new_tokens": 16}),
)
"""More than run at once, of all lengths and settings."""


def test_a_batch_equals_its_solo_runs(tiny: Engine) -> None:
    assert len(MIXED) > MAX_BATCH
    alone = [tiny.generate(request.prompt, **request.options) for request in MIXED]
    together = tiny.generate_batch(MIXED)
    assert [told(result) for result in together] == [told(result) for result in alone]
    backwards = tiny.generate_batch(MIXED[::-1])
    assert [told(result) for result in backwards[::-1]] == [told(result) for result in alone]
    assert len({result.denoising_steps for result in alone}) > 6


@pytest.mark.parametrize("size", [1, 2, 3])
def test_how_many_run_at_once_changes_nothing(tiny: Engine, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    expected = [told(result) for result in tiny.generate_batch(MIXED[:4])]
    monkeypatch.setattr(engine_module, "MAX_BATCH", size)
    assert [told(result) for result in tiny.generate_batch(MIXED[:4])] == expected


def test_a_batch_may_be_empty_or_mix_prompts_and_requests(tiny: Engine) -> None:
    assert tiny.generate_batch([]) == []
    plain, wrapped = tiny.generate_batch(["hi", Request("hi", {"max_new_tokens": 5, "seed": 0})])
    assert plain.prompt_tokens == wrapped.prompt_tokens
    assert wrapped.completion_tokens <= 5


def test_a_bad_request_is_found_before_the_first_pass() -> None:
    engine = reciter(WORDS)
    with pytest.raises(OptionError, match="max_new_tokens"):
        engine.generate_batch([Request("a"), Request("b", {"max_new_tokens": 0})])
    assert engine.model.passes == 0  # type: ignore[attr-defined]


# Limits and stops


@pytest.mark.parametrize("limit", [1, 3, CANVAS - 1, CANVAS, CANVAS + 1, 2 * CANVAS, 19])
def test_max_new_tokens_cuts_exactly(tiny: Engine, limit: int) -> None:
    result = tiny.generate("hi", seed=5, max_new_tokens=limit, ignore_eos=True)
    whole = tiny.generate("hi", seed=5, max_new_tokens=24, ignore_eos=True)
    assert result.token_ids == whole.token_ids[:limit]
    assert result.completion_tokens == len(result.token_ids) == limit
    assert result.canvases == -(-limit // CANVAS)
    assert result.denoising_steps == whole.denoising_steps[: result.canvases]
    assert result.finish_reason == "length"


def test_a_stop_token_ends_the_answer_and_is_counted_but_not_shown() -> None:
    engine = reciter("What is 481?")
    result = engine.generate("hi", seed=0)
    words = engine.tokenizer.encode("What is 481?")
    assert (result.text, result.finish_reason) == ("What is 481?", "stop")
    assert result.token_ids == (*words, engine.tokenizer.special["<eos>"])
    assert result.completion_tokens == len(words) + 1


@pytest.mark.parametrize("stop", ["<eos>", "<turn|>"])
def test_every_stop_token_stops_and_only_those(stop: str) -> None:
    assert reciter("What is 481?", fill=stop).generate("hi").finish_reason == "stop"
    other = reciter("What is 481?", fill="<pad>").generate("hi", max_new_tokens=20)
    assert (other.finish_reason, other.completion_tokens, other.text) == ("length", 20, "What is 481?")
    own = reciter("What is 481?").generate("hi", eos_token_ids=[reciter("").tokenizer.encode("4")[0]])
    assert own.text == "What is "


def test_ignore_eos_goes_on_behind_it() -> None:
    engine = reciter("")
    eos, pear = engine.tokenizer.special["<eos>"], engine.tokenizer.encode("pear")[0]
    engine = reciter([pear, eos, pear, pear, eos])
    assert engine.generate("hi").token_ids == (pear, eos)
    result = engine.generate("hi", ignore_eos=True, max_new_tokens=5)
    assert (result.token_ids, result.text, result.finish_reason) == (
        (pear, eos, pear, pear, eos),
        "pearpearpear",
        "length",
    )


def test_the_last_allowed_token_may_be_the_stop_token() -> None:
    engine = reciter("pear fig apple")
    words = len(engine.tokenizer.encode("pear fig apple"))
    assert engine.generate("hi", max_new_tokens=words + 1).finish_reason == "stop"
    assert engine.generate("hi", max_new_tokens=words).finish_reason == "length"


@pytest.mark.parametrize("canvas", [1, 2, 3, 4, 8, 64])
@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (["apple kiwi"], "pear fig "),
        (["w"], "pear fig apple ki"),
        ([" lemon mango plum lime"], "pear fig apple kiwi"),
        (["never", "kiwi lem"], "pear fig apple "),
        (["pear"], ""),
        (["grape peach!"], WORDS),
        (["grape peach"], WORDS.removesuffix("grape peach")),
        (["apple", "fig"], "pear "),
    ],
)
def test_stop_strings_end_the_answer_wherever_blocks_end(canvas: int, stop: list[str], expected: str) -> None:
    engine = reciter(WORDS, canvas=canvas)
    result = engine.generate("hi", stop=stop)
    assert result.text == expected
    assert result.finish_reason == "stop"
    whole = engine.generate("hi")
    assert result.token_ids == whole.token_ids[: result.completion_tokens]
    assert result.stop_string == (None if expected == WORDS else next(s for s in stop if (expected + s) in WORDS))
    if expected != WORDS:
        # Counted to the token that completes the stop string, and not further.
        ids = list(result.token_ids)
        assert any(s in engine.tokenizer.decode(ids) for s in stop)
        assert not any(s in engine.tokenizer.decode(ids[:-1]) for s in stop)


def test_text_that_could_have_become_a_stop_string_is_not_lost_at_the_end() -> None:
    engine = reciter("pear fig apple")
    assert engine.generate("hi", stop=["apple pie"]).text == "pear fig apple"
    assert engine.generate("hi", stop=["fig x"], max_new_tokens=2).text == "pear fig"


def test_a_stop_string_in_a_thought_stops_nothing() -> None:
    result = reciter("<|channel>thought\npear\n<channel|>fig apple").generate("hi", stop=["pear", "apple"])
    assert (result.reasoning, result.text, result.stop_string) == ("pear", "fig ", "apple")
    ended = reciter("<|channel>thought\npear\n<channel|>fig").generate("hi", stop=["pear"])
    assert (ended.text, ended.finish_reason, ended.stop_string) == ("fig", "stop", None)


# Figures and the cache


def test_the_figures_of_a_result() -> None:
    engine = reciter(WORDS)
    result = engine.generate([30, 31, 32], seed=0)
    assert result.prompt_tokens == 3
    assert result.canvases == len(result.denoising_steps) == len(result.converged) == 2
    assert result.denoising_steps == (2, 2)
    assert result.converged == (True, True)
    assert result.tokens_per_forward == pytest.approx(result.completion_tokens / 4)
    assert 0 < result.seconds_to_first_block <= result.seconds
    assert result.tokens_per_second == pytest.approx(result.completion_tokens / result.seconds)
    short = engine.generate([30], max_denoising_steps=1)
    assert (short.denoising_steps, short.converged) == ((1, 1), (False, False))
    assert GenerationResult("", "", (), "cancelled", 1, 0, (), (), 0, 0.0, 0.0).tokens_per_forward == 0
    assert GenerationResult("", "", (), "cancelled", 1, 0, (), (), 0, 0.0, 0.0).tokens_per_second == 0


def test_a_result_is_ready_for_json(tiny: Engine) -> None:
    result = tiny.generate("hi", seed=1, max_new_tokens=4, logprobs=2)
    told = json.loads(json.dumps(result.to_dict()))
    assert (told["text"], told["seed"], told["canvases"]) == (result.text, 1, result.canvases)
    assert told["passes"] == result.passes > 0
    assert [token["text"] for token in told["logprobs"]] == [token.text for token in result.logprobs]


def test_what_is_committed_is_the_whole_canvas_and_the_cache_is_let_go() -> None:
    engine = reciter(WORDS)
    ids = engine.tokenizer.encode(WORDS)
    engine.generate([30, 31, 32])
    model: Any = engine.model
    assert model.encoded == [[30, 31, 32], ids[:CANVAS]], "the prompt, then a canvas; the last one is not needed"
    gc.collect()
    assert [row() for row in model.rows] == [None]
    engine.generate_batch([Request("a", {"max_new_tokens": n + 1}) for n in range(MAX_BATCH + 2)])
    gc.collect()
    assert [row() for row in model.rows] == [None] * (MAX_BATCH + 3)


def test_threads_may_share_an_engine(tiny: Engine) -> None:
    def ask(seed: int) -> tuple[int, ...]:
        return tiny.generate("hi", seed=seed, max_new_tokens=20).token_ids

    alone = [ask(seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(8))) == alone
    assert len(set(alone)) > 1


# Refusals


def test_an_unknown_option_is_refused_by_name(tiny: Engine) -> None:
    with pytest.raises(OptionError, match=r"unknown option 'warmth'; known: .*entropy_bound"):
        tiny.generate("hi", warmth=1.0)
    with pytest.raises(OptionError, match="unknown option 'frames'"):
        tiny.generate("hi", frames=True)
    with pytest.raises(OptionError, match="unknown option 'typical_p'"):
        tiny.stream("hi", typical_p=1)
    with pytest.raises(OptionError, match=r"unknown option 'max_tokens': did you mean max_new_tokens\?$"):
        tiny.generate("hi", max_tokens=1)


NAN, INFINITE = float("nan"), float("inf")


def test_min_p_cuts_what_is_less_likely(tiny: Engine) -> None:
    """With 1 the likeliest token alone is left, however hot tokens are drawn."""
    options: dict[str, Any] = {"mode": "ar", "max_new_tokens": 2 * CANVAS, "logit_bias": {8: -100}}
    greedy = tiny.generate("hi", temperature=0, **options).token_ids
    hot = [tiny.generate("hi", temperature=2.0, seed=seed, **options).token_ids for seed in range(4)]
    cut = [tiny.generate("hi", temperature=2.0, min_p=1.0, seed=seed, **options).token_ids for seed in range(4)]
    assert set(hot) != {greedy}
    assert set(cut) == {greedy}


IMPOSSIBLE: dict[str, list[Any]] = {
    "frequency_penalty": [2.5, -2.5, NAN, "1", True],
    "presence_penalty": [2.5, -2.5, INFINITE, "1", True],
    "repetition_penalty": [0, 1e-38, -1.0, NAN, INFINITE, "1", True, 11],
    "min_new_tokens": [-1, 1.5, "8", True, 10**6],
    "include_stop": [1, "yes"],
    "penalty_window": [-1, 1.5, "8", True, 2**64],
    "max_new_tokens": [0, -1, 1.5, "8", True, [4]],
    "max_denoising_steps": [0, -3, 2.0, "x", False],
    "restart_steps": [0, -3, 2.0, "x", False],
    "entropy_bound": [-0.1, NAN, INFINITE, "0.1", True],
    "t_min": [-1.0, NAN, INFINITE, "0.4", 0.9],
    "t_max": [0.3, -1.0, NAN, INFINITE, "0.8"],
    "stability_threshold": [-1, 1.0, "1", True],
    "confidence_threshold": [-1e-9, NAN, INFINITE, "x", False],
    "sampler": [5, "x", ["entropy_bound"]],
    "schedule": [5, "x"],
    "stopping": [5, "x"],
    "canvas_length": [0, -1, 1.5, "8", True, CANVAS + 1, LEAST_CANVAS - 1],
    "temperature": [-0.1, 2.1, NAN, INFINITE, "1", True],
    "top_k": [-1, 1.0, "1", True],
    "top_p": [0, -0.1, 1.1, NAN, "1", True],
    "min_p": [-0.1, 1.1, NAN, "1", True],
    "logit_bias": [5, [1], {"5": 1.0}, {5: "1"}, {5: NAN}, {-1: 1.0}, {True: 1.0}, {5: True}, {10**6: 1.0}, {5: 1e7}],
    "thinking_budget": [-1, 1.0, "1", True],
    "logprobs": [-1, 21, 1.0, True],
    "seed": [-1, 2**63, 1.5, "7", True],
    "stop": ["abc", [""], [3], ["a", None], 5, b"a", {"a": 1}],
    "ignore_eos": [1, "yes", 0],
    "mode": [5, "fast", True],
    "canvas_width": [5, "wide"],
    "stop_at_end": [1, "yes"],
    "verify": [-1, 9, 1.0, "1", True],
    "verify_threshold": [-0.1, NAN, INFINITE, "3", True, 3.0],  # the last one for want of verify
    "probe": [5, "ab", [5], [[]], [[-1]], [[10**6]], [[5] * (CANVAS + 1)]],
    "strength": [0, 1.5, -1, "a", True],
    "start_step": [-1, 1.5, "1", True, 3],  # the last one for want of start_canvas
    "start_canvas": [[], "12345678", 5, [1.5] * CANVAS, ["1"] * CANVAS, [True] * CANVAS, [-1] * CANVAS],
    "canvas": [[], "abc", 5, [1.5], [None, -1], [True], [10**6]],
    "regex": [5, "a(", "(?=a)b"],
    "json_schema": [5, "x", [1], False, {"type": "nothing"}],
    "json_object": [1, "yes"],
    "choices": [[], "abc", [""], [1]],
    "grammar": [5, "start: ("],
    "eos_token_ids": [1, [-1], "1", ["<eos>"], [1.0]],
    "pad_token_id": [-1, "0", 0.0, [0]],
    "guidance_scale": [-0.1, 100.1, NAN, INFINITE, "2", True],
    "guidance_start": [0.0, 1.1, NAN, "1", True],
    "guidance_end": [-0.1, 1.0, NAN, "0", False],
}


def test_every_option_has_its_impossible_values() -> None:
    """Options of strategies that have to be chosen are left to the tests of those."""
    chosen = {
        name for role in STRATEGIES.values() for name in role.options().keys() - options_of(role.get(role.default))
    }
    assert set(IMPOSSIBLE) == set(generation_options()) - chosen


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in IMPOSSIBLE.items() for value in values])
def test_an_impossible_value_is_refused_by_name(name: str, value: Any) -> None:
    engine = reciter("x")
    with pytest.raises(OptionError, match=f"^{name} |t_max must be at least t_min") as refusal:
        engine.generate("hi", **{name: value})
    assert refusal.value.option == ("t_max" if (name, value) == ("t_min", 0.9) else name)
    assert engine.model.passes == 0  # type: ignore[attr-defined]


def test_values_at_their_limits_are_taken() -> None:
    engine = reciter("pear")
    limits = {"entropy_bound": 0, "t_min": 0, "t_max": 1e-9, "stability_threshold": 0, "confidence_threshold": 0}
    result = engine.generate("hi", seed=2**63 - 1, stop=(), max_denoising_steps=3, **limits)
    assert (result.text, result.seed, result.denoising_steps) == ("pear", 2**63 - 1, (3,))


def test_none_leaves_an_option_to_the_defaults(tiny: Engine) -> None:
    result = tiny.generate("hi", seed=1, max_new_tokens=8, max_denoising_steps=None, stop=None, start_canvas=None)
    assert told(result) == told(tiny.generate("hi", seed=1, max_new_tokens=8))


@pytest.mark.parametrize("length", [1, CANVAS - 1, CANVAS + 1])
def test_a_start_canvas_of_another_length_is_refused(tiny: Engine, length: int) -> None:
    with pytest.raises(OptionError, match=f"start_canvas has {length} tokens, no whole number of canvases of {CANVAS}"):
        tiny.generate("hi", start_canvas=[5] * length)


def test_a_start_canvas_outside_the_vocabulary_is_refused(tiny: Engine) -> None:
    vocab = tiny.model.config.vocab_size
    with pytest.raises(OptionError, match=f"start_canvas has a token id outside the vocabulary of {vocab}"):
        tiny.generate("hi", start_canvas=[*[5] * (CANVAS - 1), vocab])
    tiny.generate("hi", start_canvas=[*[5] * (CANVAS - 1), vocab - 1], max_new_tokens=1, max_denoising_steps=1)


def test_what_does_not_fit_the_context_is_refused() -> None:
    engine = reciter("x")
    room = CONTEXT - CANVAS
    assert engine.generate([5] * room, max_new_tokens=CANVAS).text == "x"
    with pytest.raises(OptionError, match=f"{room + 1} prompt tokens and max_new_tokens {CANVAS} .* {CONTEXT}"):
        engine.generate([5] * (room + 1), max_new_tokens=CANVAS)
    with pytest.raises(OptionError, match=f"max_new_tokens {CONTEXT}"):
        engine.generate([5], max_new_tokens=CONTEXT)


def test_a_default_length_gives_way_to_a_long_prompt() -> None:
    engine = reciter("x", fill="<pad>")
    engine.defaults = engine.defaults.override(max_new_tokens=4 * CANVAS)
    for canvases in (1, 3, 5):
        result = engine.generate([5] * (CONTEXT - canvases * CANVAS - 1))
        assert result.completion_tokens == min(4, canvases) * CANVAS
    with pytest.raises(ContextLengthError, match="are past the model's"):
        engine.generate([5] * (CONTEXT - CANVAS + 1))


def test_a_prompt_that_leaves_no_room_is_too_long_itself(tiny: Engine) -> None:
    options: dict[str, Any]
    for options in ({}, {"mode": "ar"}, {"max_new_tokens": 1}):
        with pytest.raises(PromptLengthError, match=f"^the prompt has {CONTEXT} tokens and is, .* past the model's"):
            tiny.generate([5] * CONTEXT, **options)


def test_token_by_token_a_prompt_may_fill_the_context_but_for_the_answer(tiny: Engine) -> None:
    prompt: list[int] = [5] * (CONTEXT - 3)
    few: dict[str, Any] = {"mode": "ar", "ignore_eos": True, "seed": 1}
    result = tiny.generate(prompt, max_new_tokens=3, **few)
    assert result.completion_tokens == 3
    assert tiny.generate(prompt, **few).token_ids == result.token_ids
    with pytest.raises(OptionError, match=f"^{CONTEXT - 3} prompt tokens and max_new_tokens 4 are past the model's"):
        tiny.generate(prompt, max_new_tokens=4, **few)
    for mode in ("canvas", "auto"):
        with pytest.raises(OptionError, match=rf"max_new_tokens 3 \(in canvases of {CANVAS}\) are past"):
            tiny.generate(prompt, max_new_tokens=3, mode=mode)


def test_canvases_behind_a_response_prefix_may_fill_the_context(tiny: Engine) -> None:
    begin = "fig, pear, kiwi, apple, plum"
    prefix = len(tiny.tokenizer.encode(begin))
    assert prefix > CANVAS
    prompt: list[int] = [5] * (CONTEXT - prefix - CANVAS)
    few: dict[str, Any] = {"begin": begin, "ignore_eos": True, "seed": 1}
    result = tiny.generate(prompt, max_new_tokens=prefix + CANVAS, **few)
    assert result.completion_tokens == prefix + CANVAS
    assert tiny.generate(prompt, **few).token_ids == result.token_ids
    with pytest.raises(OptionError, match="are past the model's"):
        tiny.generate(prompt, max_new_tokens=prefix + CANVAS + 1, **few)


def test_a_checkpoint_without_a_tokenizer_takes_ids(tmp_path: Path, tiny_folder: Path) -> None:
    for path in tiny_folder.iterdir():
        if not path.name.startswith(("tokenizer", "chat_template")):
            shutil.copy(path, tmp_path / path.name)
    engine = gesso.load(tmp_path, device="cpu")
    result = engine.generate([5, 6, 7], seed=1, max_new_tokens=4, ignore_eos=True)
    assert result.text == "".join(f"<{token}>" for token in result.token_ids)
    with pytest.raises(TextError, match=r"no tokenizer\.json"):
        engine.generate("hello", raw=True)


def test_requests_may_be_mappings(tiny: Engine) -> None:
    [found] = tiny.generate_batch([{"prompt": "Sort: fig, apple", "seed": 3, "max_new_tokens": 6}])
    assert found.token_ids == tiny.generate("Sort: fig, apple", seed=3, max_new_tokens=6).token_ids
    with pytest.raises(OptionError, match="needs a prompt"):
        tiny.generate_batch([{"seed": 3}])


def test_one_prompt_is_no_batch_and_switches_are_booleans(tiny: Engine) -> None:
    with pytest.raises(OptionError, match="takes a list of requests"):
        tiny.generate_batch("hello")
    with pytest.raises(OptionError, match=r"^raw must be true or false"):
        tiny.generate("hello", raw="no")


@pytest.mark.parametrize(
    "name", ["raw", "thinking", "begin", "prediction", "tools", "tool_choice", "parallel_tool_calls"]
)
def test_none_is_not_given(tiny: Engine, name: str) -> None:
    options: dict[str, Any] = {"seed": 1, "max_new_tokens": 8}
    assert tiny.generate("hi", **options, **{name: None}).token_ids == tiny.generate("hi", **options).token_ids


def test_a_start_canvas_of_several_canvases_starts_each_of_them(tiny: Engine) -> None:
    first, second = [5] * CANVAS, [9] * CANVAS
    stream = tiny.stream("hi", seed=1, start_canvas=[*first, *second], max_new_tokens=2 * CANVAS, ignore_eos=True)
    sequence = stream._state
    assert sequence.canvas.canvas_C.tolist() == first
    starts = [sequence.canvas.canvas_C.tolist() for event in stream if isinstance(event, BlockCommitted)]
    assert starts[0] == second


def test_strength_leaves_a_share_of_the_start_canvas_and_of_the_steps(tiny: Engine) -> None:
    start = [5] * CANVAS
    options = {"start_canvas": start, "max_denoising_steps": 10, "confidence_threshold": 0.0}
    kept = []
    for seed in range(40):
        request = Request("hi", {**options, "strength": 0.3, "seed": seed})
        kept.append((tiny.start(request).canvas.canvas_C == 5).float().mean().item())
    assert 0.6 < sum(kept) / len(kept) < 0.8
    result = tiny.generate("hi", seed=1, max_new_tokens=CANVAS, strength=0.3, **options)
    assert result.denoising_steps == (3,)
    frames = [e for e in tiny.stream("hi", seed=1, strength=0.3, **options) if isinstance(e, DenoisingFrame)]
    whole = [e for e in tiny.stream("hi", seed=1, **options) if isinstance(e, DenoisingFrame)]
    cold = [frame.temperature for frame in whole if frame.canvas == 0][-3:]
    assert [frame.temperature for frame in frames if frame.canvas == 0] == cold


def test_strength_without_a_start_canvas_is_refused(tiny: Engine) -> None:
    with pytest.raises(OptionError, match="strength must be left out without start_canvas"):
        tiny.generate("hi", strength=0.5)


def test_a_probe_tells_what_the_first_pass_says_and_changes_nothing(tiny: Engine) -> None:
    options = {"seed": 3, "max_new_tokens": 16}
    one = tiny.generate("hi", **options)
    two = tiny.generate("hi", probe=[[5, 6], [7]], **options)
    assert two.token_ids == one.token_ids
    sequence = tiny.start(Request("hi", options))
    cache = tiny.model.new_cache(batch_size=1)
    tiny.model.encode(torch.tensor([sequence.prompt.ids]), cache)
    scores = tiny.model.denoise(sequence.canvas.canvas_C[None], cache)[0].log_softmax(dim=-1)
    expected = [float(scores[0, 5] + scores[1, 6]), float(scores[0, 7])]
    assert two.probe_logprobs == pytest.approx(expected, abs=1e-4)
    assert one.probe_logprobs == ()
    with pytest.raises(OptionError, match="takes a list of requests"):
        tiny.generate_batch(5)
    with pytest.raises(OptionError, match=r"^options of a request are a mapping"):
        tiny.generate_batch([Request("hello", [1])])


def test_an_answer_may_have_no_token_that_ends_it(tiny: Engine) -> None:
    assert tiny.generate("hello", eos_token_ids=[], max_new_tokens=6).finish_reason == "length"


def test_one_call_at_most_needs_tools(tiny: Engine) -> None:
    with pytest.raises(OptionError, match=r"^parallel_tool_calls needs tools"):
        tiny.generate("hello", parallel_tool_calls=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop": ["\ud800"]}, r"^stop: '\\ud800' holds half a character"),
        ({"tools": [TOOL, TOOL]}, "tools: clock is declared twice"),
        (
            {"tools": [{"type": "function", "function": {"name": "clock", "parameters": "x"}}]},
            "parameters of clock must be a JSON schema .a mapping., got str",
        ),
    ],
)
def test_what_means_nothing_is_refused(tiny: Engine, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        tiny.generate("hi", **options)


def test_bytes_are_no_token_ids(tiny: Engine) -> None:
    for prompt in (b"hi", bytearray(b"hi"), memoryview(b"hi")):
        with pytest.raises(TextError, match="the prompt must be a string"):
            tiny.generate(prompt)  # type: ignore[arg-type]


def test_of_several_requests_the_bad_one_is_named(tiny: Engine) -> None:
    with pytest.raises(TextError, match=r"^the prompt is empty\nrequest 1 of 3$") as error:
        tiny.generate_batch(iter(["hi", "", "hi"]))  # type: ignore[arg-type]
    assert str(error.value) == "the prompt is empty", "which is what a command prints"
    with pytest.raises(TextError, match=r"^the prompt is empty$") as error:
        tiny.generate_batch([""])
    assert not hasattr(error.value, "__notes__")


def test_an_engine_that_is_closed_closes_its_runner(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[ModelRunner] = []

    def close(runner: ModelRunner) -> None:
        closed.append(runner)

    monkeypatch.setattr(ModelRunner, "close", close)
    with tiny as engine:
        assert engine is tiny
        assert closed == []
    assert closed == [tiny.runner]
    tiny.close()
    assert len(closed) == 2


def test_a_schema_as_text_says_how_to_read_it(tiny: Engine) -> None:
    for schema in ('{"type": "integer"}', Path("schema.json")):
        with pytest.raises(OptionError, match="must be a schema") as error:
            tiny.generate("hi", json_schema=schema)
        assert error.value.hint == "json.loads reads a text, and gesso.read_schema a file"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": None}, "path must be a name or a folder of a model, got None"),
        ({"path": "mini", "offline": "x"}, "offline must be true or false"),
        ({"path": "mini", "tell": 5}, "tell must be a function"),
    ],
)
def test_loading_takes_what_it_says(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        gesso.load(**given)
