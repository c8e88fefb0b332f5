"""Requests that are meant to take a server away from everybody else: what `stall.py` and the tests send it.

Each is a path and a body. Some are valid, and large or slow to compile; some are refused; none may hold up anybody.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CHAT, TEXT, EXPLAIN = "/v1/chat/completions", "/v1/completions", "/v1/explain"
WIDE = 300_000
"""Items of a body that is nearly as large as the server takes."""


@dataclass(frozen=True, slots=True)
class Bomb:
    """One hostile request."""

    name: str
    path: str
    body: bytes


def _chat(**fields: Any) -> dict[str, Any]:
    return {"model": "mini", "max_tokens": 64, "messages": [{"role": "user", "content": "Go."}], **fields}


def _schema(schema: Any) -> dict[str, Any]:
    return _chat(response_format={"type": "json_schema", "json_schema": {"name": "bomb", "schema": schema}})


def _regex(pattern: str) -> dict[str, Any]:
    return _chat(structured_outputs={"regex": pattern})


def _grammar(text: str) -> dict[str, Any]:
    return _chat(structured_outputs={"grammar": text})


def _verdict(outputs: dict[str, Any], text: str) -> dict[str, Any]:
    return {"structured_outputs": outputs, "text": text}


def _nested(depth: int, inner: Any, wrap: Callable[[Any], Any]) -> Any:
    for _ in range(depth):
        inner = wrap(inner)
    return inner


def _tool(name: str, parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters, "strict": True}}


_EMPTY = {"type": "text", "text": ""}
_STRING = {"type": "string"}
_PROPERTIES = {f"p{number}": _STRING for number in range(60)}
_RECURSIVE = {
    "$defs": {
        f"n{number}": {
            "type": "object",
            "properties": {f"c{other}": {"$ref": f"#/$defs/n{other}"} for other in range(8)},
        }
        for number in range(8)
    },
    "$ref": "#/$defs/n0",
}
_BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "schema: long string": (CHAT, _schema({"type": "string", "maxLength": 2000})),
    "schema: very long string": (CHAT, _schema({"type": "string", "minLength": 9000, "maxLength": 10000})),
    "schema: items by the thousand": (CHAT, _schema({"type": "array", "items": {"type": "string"}, "maxItems": 5000})),
    "schema: arrays in arrays": (
        CHAT,
        _schema(_nested(6, _STRING, lambda inner: {"type": "array", "items": inner, "maxItems": 40})),
    ),
    "schema: 190 levels of items": (CHAT, _schema(_nested(90, _STRING, lambda inner: {"items": inner}))),
    "schema: every enum": (CHAT, _schema({"enum": [f"value {number}" for number in range(60_000)]})),
    "schema: optional properties": (CHAT, _schema({"type": "object", "properties": _PROPERTIES})),
    "schema: recursion eight by eight": (CHAT, _schema(_RECURSIVE)),
    "schema: anyOf of anyOf": (
        CHAT,
        _schema(_nested(10, {"maxLength": 3}, lambda inner: {"anyOf": [inner, {"minLength": 1}, {"type": "null"}]})),
    ),
    "schema: not of not": (CHAT, _schema(_nested(30, {"pattern": "a{20}b"}, lambda inner: {"not": inner}))),
    "schema: patterns meet": (
        CHAT,
        _schema({"allOf": [{"type": "string", "pattern": f"(a|b)*a(a|b){{{count}}}"} for count in range(3, 17)]}),
    ),
    "schema: unique items": (
        CHAT,
        _schema({"type": "array", "items": {"enum": list(range(12))}, "uniqueItems": True, "maxItems": 12}),
    ),
    "schema: multipleOf": (CHAT, _schema({"type": "integer", "multipleOf": 99991, "minimum": 0, "maximum": 10**15})),
    "schema: a number of 400 digits": (CHAT, _schema({"type": "integer", "maximum": 10**400})),
    "schema: contains": (
        CHAT,
        _schema({"type": "array", "contains": {"const": 1}, "minContains": 40, "maxContains": 60, "maxItems": 200}),
    ),
    "schema: oneOf overlaps": (
        CHAT,
        _schema({"oneOf": [{"type": "string", "pattern": f"^[a-{letter}]{{2,30}}$"} for letter in "bcdefghijklm"]}),
    ),
    "regex: counted in counted": (CHAT, _regex("(a{100}){199}")),
    "regex: counted classes": (CHAT, _regex("[a-z]{0,4000}")),
    "regex: exponential subsets": (CHAT, _regex("(a|b)*a(a|b){18}")),
    "regex: dots": (CHAT, _regex(".*".join("abcdefghijklmnop") + ".*")),
    "regex: nested stars": (CHAT, _regex(_nested(400, "a", lambda inner: f"({inner})*"))),
    "regex: alternatives": (CHAT, _regex("|".join(f"w{number}" for number in range(9000)))),
    "regex: unicode": (CHAT, _regex(r"(\w{1,40}\s){30}")),
    "regex: never closed": (CHAT, _regex("(" * 30_000)),
    "regex: 64 KiB of classes": (CHAT, _regex("[^a]" * 16_000)),
    "grammar: long chain": (
        CHAT,
        _grammar("start: r0\n" + "".join(f"r{n}: r{n + 1} r{n + 1}\n" for n in range(24)) + 'r24: "a"\n'),
    ),
    "grammar: two thousand rules": (
        CHAT,
        _grammar("start: r0\n" + "".join(f'r{n}: "x" r{n + 1}\n' for n in range(2000)) + 'r2000: "a"\n'),
    ),
    "forty choices of one request": (
        TEXT,
        {
            "model": "mini",
            "prompt": ["Count from 1 to 90 separated by commas."] * 5,
            "n": 8,
            "max_tokens": 400,
            "diffusion": {"ignore_eos": True},
        },
    ),
    "choices: long and many": (CHAT, _chat(structured_outputs={"choice": [f"{n} " + "x" * 2000 for n in range(1000)]})),
    "tools: a hundred strict ones": (
        CHAT,
        _chat(
            tools=[_tool(f"t{n}", {"type": "object", "properties": _PROPERTIES}) for n in range(100)],
            tool_choice="required",
        ),
    ),
    "tools: 90 levels": (
        CHAT,
        _chat(
            tools=[_tool("deep", _nested(60, _STRING, lambda inner: {"type": "object", "properties": {"a": inner}}))],
            tool_choice="required",
        ),
    ),
    "prompt: four million letters": (TEXT, {"model": "mini", "prompt": "a" * 4_000_000}),
    "prompt: as long as it may be": (TEXT, {"model": "mini", "prompt": "zq" * 30_000, "max_tokens": 8}),
    "prompt: two thousand messages": (
        CHAT,
        _chat(messages=[{"role": ("user", "assistant")[n % 2], "content": "x " * 300} for n in range(2047)]),
    ),
    "prompt: a predicted answer": (
        CHAT,
        _chat(prediction={"type": "content", "content": "a b " * 12_000}, max_tokens=2000),
    ),
    "tokenize: four million letters": ("/v1/tokenize", {"prompt": "a" * 4_000_000}),
    "detokenize: a million tokens": ("/v1/detokenize", {"tokens": [300] * 800_000}),
    "body: messages that are none": (CHAT, _chat(messages=[0] * 4 * WIDE)),
    "body: calls that are none": (
        CHAT,
        _chat(messages=[{"role": "assistant", "tool_calls": [0] * 4 * WIDE}]),
    ),
    "body: parts that are none": (CHAT, _chat(messages=[{"role": "user", "content": [0] * 4 * WIDE}])),
    "body: unknown fields": (CHAT, _chat(**{f"f{n}": 1 for n in range(WIDE)})),
    "body: biases": (CHAT, _chat(logit_bias={f"x{n}": 1 for n in range(WIDE)})),
    "body: pins that are none": (CHAT, _chat(diffusion={"canvas": ["a"] * 2 * WIDE})),
    "body: tokens that are none": (TEXT, {"model": "mini", "prompt": [1] + ["a"] * 2 * WIDE}),
    "body: many empty parts": (
        CHAT,
        _chat(messages=[{"role": "user", "content": [{"type": "text", "text": ""}] * 90_000}]),
    ),
    "explain: four million letters": (EXPLAIN, _verdict({"regex": "(a|b)*c"}, "ab" * 2_000_000)),
    "explain: a counter to the end": (EXPLAIN, _verdict({"regex": "([ab]{0,10000}-)*"}, ("ab" * 4000 + "-") * 480)),
    "explain: exponential subsets": (EXPLAIN, _verdict({"regex": "(a|b)*a(a|b){18}"}, "ab")),
    "explain: patterns meet": (
        EXPLAIN,
        _verdict(
            {"json": {"allOf": [{"type": "string", "pattern": f"(a|b)*a(a|b){{{n}}}"} for n in range(3, 17)]}}, '"'
        ),
    ),
    "fill: two thousand holes": ("/v1/fill", {"model": "mini", "text": "a {{ }} " * 2000}),
}


def bombs() -> list[Bomb]:
    """All of them, made anew: some are megabytes."""
    made = [Bomb(name, path, json.dumps(body).encode()) for name, (path, body) in _BODIES.items()]
    nested = b'{"model": "mini", "messages": ' + b"[" * 199 + b"]" * 199 + b"}"
    deep = b'{"model": "mini", "messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    return [*made, Bomb("body: 200 levels", CHAT, nested), Bomb("body: 100,000 levels", CHAT, deep)]
