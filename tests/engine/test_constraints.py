"""Constraints hold whatever the model thinks: here it has random weights."""

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema
import pytest
import torch
from thorough import cases

from engine.tiny import CANVAS
from gesso.constraints.compile import compile_constraint
from gesso.constraints.inference import Lattice
from gesso.engine import constraint as constraint_module
from gesso.engine.constraint import CanvasConstraintState
from gesso.engine.engine import Engine, Request
from gesso.engine.events import DenoisingFrame
from gesso.errors import OptionError
from gesso.sized_cache import SizedCache
from gesso.text.tool_calls import CALL, CALL_END, parse_tool_call

SEEDS = range(cases(2, 20))
SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"item": {"type": "string", "maxLength": 8}}, "required": ["item"]},
    {"type": "array", "items": {"type": "integer", "minimum": -5, "maximum": 12}, "minItems": 2, "maxItems": 5},
    {"enum": ["pear", {"a": [True, 3]}]},
    {
        "type": "object",
        "properties": {
            "kind": {"const": "fruit"},
            "sizes": {"type": "array", "items": {"type": "number", "minimum": 0}, "maxItems": 2},
            "nested": {"$ref": "#/$defs/pair"},
        },
        "required": ["kind", "nested"],
        "$defs": {"pair": {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}}}},
    },
    {"anyOf": [{"type": "string", "pattern": "^[a-f]{2,4}$"}, {"type": "boolean"}]},
]


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("seed", SEEDS)
def test_json_validates(tiny: Engine, schema: dict[str, Any], seed: int) -> None:
    result = tiny.generate("hi", seed=seed, json_schema=schema, max_new_tokens=9 * CANVAS, max_denoising_steps=4)
    jsonschema.validate(json.loads(result.text), schema)
    assert result.finish_reason == "stop"


@pytest.mark.parametrize("schema", SCHEMAS)
def test_also_at_the_shortest_length(tiny: Engine, schema: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"json_schema: the shortest answer has \d+ tokens") as refused:
        tiny.generate("hi", json_schema=schema, max_new_tokens=1)
    needed = int(re.findall(r"has (\d+) tokens", str(refused.value))[0])
    result = tiny.generate("hi", seed=1, json_schema=schema, max_new_tokens=needed, max_denoising_steps=3)
    jsonschema.validate(json.loads(result.text), schema)
    assert (result.completion_tokens, result.finish_reason) == (needed, "stop")


@pytest.mark.parametrize(
    "pattern", ["[a-c]{2,30}x", "(pear|fig)( and (pear|fig))*", r"\d{4}-\d\d", "[^a-z]{1,12}", "é?€+"]
)
@pytest.mark.parametrize("width", [5, CANVAS])
def test_the_whole_answer_matches(tiny: Engine, pattern: str, width: int) -> None:
    options: dict[str, Any] = {"max_new_tokens": 40, "canvas_length": width, "max_denoising_steps": 4}
    for seed in SEEDS:
        assert re.fullmatch(pattern, tiny.generate("hi", seed=seed, regex=pattern, **options).text)


def test_choices_grammar_and_objects(tiny: Engine) -> None:
    options: dict[str, Any] = {"seed": 2, "max_denoising_steps": 4, "max_new_tokens": 6 * CANVAS}
    assert tiny.generate("hi", choices=["pear", "fig tree"], **options).text in ("pear", "fig tree")
    assert re.fullmatch("(yes|no)( (yes|no))?", tiny.generate("hi", grammar=GRAMMAR, **options).text)
    assert isinstance(json.loads(tiny.generate("hi", json_object=True, **options).text), dict)


GRAMMAR = 'start: word (" " word)?\nword: "yes" | "no"'


def test_pins_and_constraints_combine(tiny: Engine) -> None:
    ids = tiny.tokenizer.encode("4")
    result = tiny.generate("hi", seed=1, regex="[0-9]{5}", canvas=[None, *ids], max_denoising_steps=4)
    assert re.fullmatch("[0-9]4[0-9]{3}", result.text)


def test_samplers_and_logprobs_combine_with_constraints(tiny: Engine) -> None:
    options: dict[str, Any] = {"seed": 1, "regex": "[a-z]{6}", "max_denoising_steps": 4, "top_k": 1, "temperature": 0.5}
    result = tiny.generate("hi", logprobs=1, **options)
    assert re.fullmatch("[a-z]{6}", result.text)
    assert len(result.logprobs) == result.completion_tokens
    assert result.text == tiny.generate("hi", **options).text


def test_constrained_requests_run_beside_others(tiny: Engine) -> None:
    requests = [
        Request(f"number {i}", {"seed": i, "max_new_tokens": 20, "max_denoising_steps": 5} | extra)
        for i, extra in enumerate([{}, {"regex": "[a-f]+"}, {"json_object": True}, {"choices": ["a", "b"]}, {}])
    ]
    together = [result.token_ids for result in tiny.generate_batch(requests)]
    assert together == [tiny.generate_batch([request])[0].token_ids for request in requests]


@pytest.mark.parametrize("budget", [None, 1, 10])
@pytest.mark.parametrize("mode", ["canvas", "ar"])
def test_what_follows_a_thought_is_constrained(tiny: Engine, budget: int | None, mode: str) -> None:
    opened = tiny.tokenizer.special["<|channel>"]
    options: dict[str, Any] = {"max_new_tokens": 6 * CANVAS, "thinking": True, "mode": mode, "max_denoising_steps": 4}
    # Random weights think for once: the token that opens a thought is made likely, and the one that closes it rare.
    bias = {opened: 60, tiny.tokenizer.special["<channel|>"]: -40}
    for seed in SEEDS:
        result = tiny.generate("hi", seed=seed, regex="[a-c]{2,9}x", thinking_budget=budget, logit_bias=bias, **options)
        assert re.fullmatch("[a-c]{2,9}x", result.text)
        assert result.token_ids[0] == opened
        assert result.reasoning or budget == 1  # the header is one token
        assert result.finish_reason == "stop"
        answer = tiny.tokenizer.encode(result.text)
        # A budget is used up to the end of a header or character; without one the answer gets what it needs.
        assert budget is None or result.completion_tokens <= budget + len("thought\n") + 12 + len(answer)


def test_an_answer_may_come_without_a_thought(tiny: Engine) -> None:
    never = {tiny.tokenizer.special["<|channel>"]: -100}
    result = tiny.generate("hi", seed=1, choices=["a", "b"], thinking=True, max_new_tokens=9, logit_bias=never)
    assert (result.text in ("a", "b"), result.reasoning) == (True, "")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"begin": "pear fig", "max_new_tokens": 2}, "begin has 2 tokens, and max_new_tokens, .* is 2"),
        ({"regex": "a", "choices": ["b"]}, "regex and choices contradict"),
        ({"regex": "a", "ignore_eos": True}, "ignore_eos must be left out beside regex"),
        ({"json_schema": {"properties": {"a": {"uniqueItems": True, "minItems": 9}}}}, "#/properties/a/uniqueItems"),
        ({"json_schema": False}, "json_schema false allows nothing"),
        ({"regex": "(?<=a)b"}, "(?i)look"),
        (
            {"json_object": True, "begin": "pear fig", "max_new_tokens": 3},
            "json_object: the shortest answer has 2 tokens, max_new_tokens is 3, of which begin takes 2",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(tiny: Engine, options: dict[str, Any], match: str) -> None:
    with pytest.raises(OptionError, match=match):
        tiny.generate("hi", **options)


# Tool calls

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "clock"}},
    {
        "type": "function",
        "function": {
            "name": "weather",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "maxLength": 6}, "days": {"type": "integer", "minimum": 1}},
                "required": ["city", "days"],
                "additionalProperties": False,
            },
        },
    },
]
WEATHER = {"type": "function", "function": {"name": "weather"}}
SHORT: dict[str, Any] = {"tools": TOOLS, "max_new_tokens": 6 * CANVAS, "max_denoising_steps": 3}


def check_calls(calls: Any) -> None:
    for call in calls:
        schema = (
            TOOLS[1]["function"]["parameters"] if call.name == "weather" else {"type": "object", "maxProperties": 0}
        )
        jsonschema.validate(json.loads(call.arguments), schema)


@pytest.mark.parametrize("seed", range(cases(4, 20)))
def test_a_call_that_is_asked_for_is_made_and_its_arguments_validate(tiny: Engine, seed: int) -> None:
    result = tiny.generate("hi", seed=seed, tool_choice="required", **SHORT)
    assert result.tool_calls
    assert (result.text, result.warnings, result.finish_reason) == ("", (), "stop")
    check_calls(result.tool_calls)
    named = tiny.generate("hi", seed=seed, tool_choice=WEATHER, parallel_tool_calls=False, **SHORT)
    assert [call.name for call in named.tool_calls] == ["weather"]
    check_calls(named.tool_calls)


def test_a_strict_function_binds_calls_made_unasked(tiny: Engine) -> None:
    for seed in range(6):
        result = tiny.generate("hi", seed=seed, **SHORT)
        assert result.warnings == ()
        check_calls(call for call in result.tool_calls if call.name == "weather")


FREE = {
    "type": "function",
    "function": {"name": "trip", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


@pytest.mark.parametrize("options", [{"tools": [FREE], "parallel_tool_calls": False}, {"tools": [FREE, TOOLS[1]]}])
@pytest.mark.parametrize("arguments", ['city:<|"|>pear<|"|>,days:3', 'a b:{c:[1,{<|"|>d<|"|>:null,e:-0.5}]}'])
def test_a_function_that_is_not_held_may_have_any_arguments(
    tiny: Engine, options: dict[str, Any], arguments: str
) -> None:
    call = f"<|tool_call>call:trip{{{arguments}}}<tool_call|>"
    pinned = tiny.tokenizer.encode(call)
    result = tiny.generate("hi", canvas=pinned, max_new_tokens=6 * CANVAS, max_denoising_steps=2, **options)
    assert result.tool_calls[0] == parse_tool_call(call.removeprefix(CALL).removesuffix(CALL_END))


PEAR = '<|tool_call>call:trip{city:<|"|>pear<|"|>}<tool_call|>'


EITHER: dict[str, Any] = {
    "tools": [FREE, TOOLS[1]],
    "regex": r"\[[0-9]{2}\]",
    "max_new_tokens": 6 * CANVAS,
    "max_denoising_steps": 3,
}


def check_either(result: Any) -> None:
    assert result.warnings == ()
    assert re.fullmatch("" if result.tool_calls else EITHER["regex"], result.text)
    check_calls(call for call in result.tool_calls if call.name == "weather")


@pytest.mark.parametrize(
    ("begun", "calls"), [("[", 0), ("<|tool_call>", 1), (PEAR, 1), (PEAR + "<|tool_call>", 2)], ids=str
)
def test_beside_tools_a_constraint_holds_what_calls_nothing(tiny: Engine, begun: str, calls: int) -> None:
    """Pins say which of the two the answer is; what stands behind them follows by the constraint."""
    result = tiny.generate("hi", seed=1, canvas=tiny.tokenizer.encode(begun), **EITHER)
    assert len(result.tool_calls) >= calls
    assert bool(result.tool_calls) == (calls > 0)
    check_either(result)


def test_beside_a_constraint_there_is_one_call_at_most_where_it_is_said(tiny: Engine) -> None:
    pins = tiny.tokenizer.encode(PEAR + "<|tool_call>")
    with pytest.raises(OptionError, match="no text satisfies the constraint"):
        tiny.generate("hi", canvas=pins, parallel_tool_calls=False, **EITHER)
    check_either(tiny.generate("hi", seed=1, parallel_tool_calls=False, thinking=True, thinking_budget=4, **EITHER))


def test_what_tools_and_a_schema_say_in_vain_comes_back(tiny: Engine) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "odd": 1}, "strict": False}}
    schema = {"type": "integer", "maximum": 9, "minimum": 0, "unit": "m"}
    options: dict[str, Any] = {"tools": [tool], "json_schema": schema, "max_new_tokens": 3 * CANVAS}
    assert tiny.generate("hi", seed=3, **options).ignored == ("#/unit",)
    assert tiny.generate("hi", seed=3, tool_choice="none", **options).tool_calls == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tool_choice": "sometimes"}, "tool_choice must be"),
        ({"tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice names 'other'"),
        ({"tool_choice": "required", "regex": "a"}, "tools and regex contradict"),
        ({"tool_choice": "required", "max_new_tokens": 2}, "tool_choice: the shortest answer has"),
        ({"tool_choice": "required", "tools": []}, "tool_choice needs tools"),
        ({"tool_choice": "required", "tools": [{"type": "function"}]}, "tools: a tool needs a function"),
        *(
            (
                {"tool_choice": "required", "tools": [{"type": "function", "function": {"name": name}}]},
                re.escape(f"tools: {name!r} is no name of a function"),
            )
            for name in ("get weather", "wetter_f\N{LATIN SMALL LETTER U WITH DIAERESIS}r", "", "a{")
        ),
    ],
)
def test_calls_that_cannot_be_are_refused(tiny: Engine, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        tiny.generate("hi", **{**SHORT, **options})


def test_inference_tables_are_bounded_by_bytes(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    tables: SizedCache[Any, Any] = SizedCache(2_000_000)
    monkeypatch.setattr(constraint_module, "_tables", tables)
    for count in range(1, 30):
        tiny.start(Request("hi", {"regex": f"[a-z]{{{20 * count}}}", "max_new_tokens": 1024}))
        assert tables.stats.bytes == constraint_module.table_stats().bytes <= tables.max_bytes
    assert tables.stats.evictions > 0
    assert tables.stats.entries > 0


def test_requests_that_come_together_share_their_tables(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    tables: SizedCache[Any, Any] = SizedCache(2**30)
    monkeypatch.setattr(constraint_module, "_tables", tables)
    compiled = compile_constraint("[a-z]{1,9}", tiny.tokenizer, (tiny.end_of_turn,), vocab_size=tiny.config.vocab_size)
    made: list[Lattice] = []
    building, together = threading.Event(), threading.Barrier(4)

    class Slow(Lattice):
        def __init__(self, *arguments: Any) -> None:
            made.append(self)
            building.wait(0.2)  # the others come meanwhile
            super().__init__(*arguments)

    def ask() -> Lattice:
        together.wait()
        return constraint_module.get_lattice(compiled, torch.device("cpu"))

    monkeypatch.setattr(constraint_module, "Lattice", Slow)
    with ThreadPoolExecutor(4) as pool:
        found = [future.result() for future in [pool.submit(ask) for _ in range(4)]]
    assert len(made) == 1
    assert all(lattice is made[0] for lattice in found)
    assert tables.stats.hits + tables.stats.misses == 4
    assert not constraint_module._building


def test_frames_tell_what_the_constraint_leaves_no_choice_about(tiny: Engine) -> None:
    options: dict[str, Any] = {"regex": "[0-9]-[0-9]", "max_new_tokens": CANVAS, "max_denoising_steps": 3}
    frames = [event for event in tiny.stream("hi", seed=1, **options) if isinstance(event, DenoisingFrame)]
    for frame in frames:
        # Digits are free, and so is which token ends; the dash is not, though two tokens are one, nor is the rest.
        assert frame.forced == (False, True, False, False, *(True,) * (CANVAS - 4))
        assert frame.pieces[1] == "-"
    held = list(tiny.stream("hi", seed=1, canvas=[None, frames[0].tokens[1]], **options))
    assert held[0].forced[:3] == (False, False, False)  # type: ignore[union-attr]
    free = next(iter(tiny.stream("hi", seed=1, max_new_tokens=CANVAS)))
    assert free.forced == ()  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["canvas", "ar"])
def test_a_constrained_answer_follows_what_it_begins_with(tiny: Engine, mode: str) -> None:
    """The constraint is on what is written, behind what was given."""
    result = tiny.generate("hi", begin="ab", regex="[0-9]{3}", max_new_tokens=16, seed=3, mode=mode)
    assert re.fullmatch("ab[0-9]{3}", result.text)


def test_what_a_schema_says_in_vain_comes_back(tiny: Engine) -> None:
    schema = {"type": "integer", "maximum": 9, "minimum": 0, "unit": "m"}
    result = tiny.generate("hi", json_schema=schema, max_new_tokens=16, seed=3)
    assert result.ignored == ("#/unit",)
    assert tiny.generate("hi", json_schema=schema, max_new_tokens=16, seed=3).ignored == ("#/unit",)
    with pytest.raises(OptionError, match="unit"):
        tiny.generate("hi", json_schema=schema, max_new_tokens=16, strict_schema=True)
    with pytest.raises(OptionError, match="needs json_schema"):
        tiny.generate("hi", regex="a", strict_schema=True)


@pytest.mark.parametrize("schema", SCHEMAS[:3])
def test_answers_are_the_same_where_scores_are_held_for_tables_elsewhere(
    tiny: Engine, schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a device without fp64, whose constraints are inferred on the CPU."""
    options: dict[str, Any] = {"json_schema": schema, "seed": 3, "max_new_tokens": 64, "temperature": 0}
    usual = tiny.generate("hi", **options)
    monkeypatch.setattr(CanvasConstraintState, "reads_hidden", lambda state, device: False)
    assert tiny.generate("hi", **options).token_ids == usual.token_ids


@pytest.mark.parametrize("mode", ["canvas", "ar"])
def test_a_token_that_a_bias_keeps_out_is_forced_by_no_constraint(tiny: Engine, mode: str) -> None:
    piece = tiny.tokenizer.piece
    never = {token: -100.0 for token in range(tiny.config.vocab_size) if "y" in piece(token)}
    nothing = "no text satisfies the constraint together with the tokens that are given"
    with pytest.raises(OptionError, match=nothing) as caught:
        tiny.generate("hi", choices=["yes"], logit_bias=never, mode=mode, seed=1)
    assert caught.value.option == "choices"
    assert tiny.generate("hi", choices=["yes", "no"], logit_bias=never, mode=mode, seed=1).text == "no"
    rare = dict.fromkeys(never, -99.0)
    assert tiny.generate("hi", choices=["yes"], logit_bias=rare, mode=mode, seed=1).text == "yes"


def test_a_bias_leaves_a_token(tiny: Engine) -> None:
    with pytest.raises(OptionError, match="logit_bias keeps every token out"):
        tiny.generate("hi", logit_bias=dict.fromkeys(range(tiny.config.vocab_size), -100.0))


def test_an_end_that_the_vocabulary_has_not_ends_no_constraint(tiny: Engine) -> None:
    """Without one it ends nothing: the answer is as long as it may be."""
    beyond = tiny.config.vocab_size
    assert tiny.generate("hi", eos_token_ids=(beyond,), max_new_tokens=CANVAS, seed=1).finish_reason == "length"
    with pytest.raises(OptionError, match=f"regex has to end, and the vocabulary of {beyond} has no token") as caught:
        tiny.generate("hi", eos_token_ids=(beyond,), regex="a", seed=1)
    assert caught.value.option == "eos_token_ids"
