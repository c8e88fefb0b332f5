"""Arrays whose items differ: what is taken is checked item by item, as the standard compares them."""

import json
from itertools import permutations, product
from typing import Any

import pytest

from constraints.schemas import expression_of
from gesso.constraints import json_arrays
from gesso.constraints.byte_table import ByteAutomaton
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.json_keywords import same

STRING: dict[str, Any] = {"type": "string"}
NAMED = {"type": "object", "properties": {"k": {"type": ["string", "number"]}, "v": {"type": "number"}}}
ITEMS: dict[str, tuple[Any, list[str]]] = {
    "strings": (STRING, [
        '""', '"a"', '"b"', '"ab"', '"ba"', '"n"', '"\\n"', '"é"', '"\\""', '"http://a/1"', '"http://a/2"',
    ]),
    "numbers": (
        {"type": "number"},
        ["0", "-0", "0.0", "1", "1.0", "1.00", "10", "1e1", "10.5", "-1", "2", "0.1", "1e0"],
    ),
    "any": ({"type": ["string", "integer", "boolean", "null"]}, ["1", '"1"', "true", "null", "1.0", '"true"', "false"]),
    "objects": (NAMED, [
        "{}",
        '{"k": "a"}', '{"k": "a", "v": 1}', '{"k": "b", "v": 1}', '{"k": "b", "v": 1.0}', '{"k": 2}', '{"k": 2.0}',
        '{"v": 1}', '{"v": 2}', '{"x": 1, "y": 2}', '{"y": 2, "x": 1}', '{"x": 2, "x": 1}', '{"k": 3, "x": 1}',
    ]),
    "objects by two orders": (
        {"anyOf": [{**NAMED, "required": ["v"]}, {"type": "object", "properties": {"v": STRING, "k": STRING}}]},
        ['{"k": "a", "v": 1}', '{"v": "b", "k": "a"}', '{"k": "a"}', '{"v": "b"}', '{"k": "b", "v": 1}'],
    ),
}  # fmt: skip


def automaton(items: Any, **more: Any) -> ByteAutomaton:
    return compile_bytes(expression_of({"type": "array", "items": items, "uniqueItems": True, **more}))


def differ(values: list[Any]) -> bool:
    return not any(same(one, other) for place, one in enumerate(values) for other in values[:place])


@pytest.mark.parametrize("kind", ITEMS)
def test_nothing_is_taken_that_is_not_unique_and_nearly_all_pairs_are(kind: str) -> None:
    schema, texts = ITEMS[kind]
    made = automaton(schema)
    taken = valid = 0
    for count in (1, 2, 3):
        for chosen in product(texts, repeat=count):
            text = f"[{', '.join(chosen)}]"
            found, unique = made.matches(text), differ(json.loads(text))
            assert unique or not found, text
            taken += found and count == 2
            valid += unique and count == 2
    # Of objects that may begin with different members, or none that counts, one at most.
    assert taken > 0.3 * valid or (kind == "objects by two orders" and taken == 0)
    assert made.matches("[]")


def test_as_many_items_as_are_asked_for() -> None:
    made = automaton(STRING, minItems=2, maxItems=3)
    texts = [
        '["a/1"]',
        '["a/1", "a/2"]',
        '["a/1", "a/2", "a/3"]',
        '["a/1", "a/2", "a/3", "a/4"]',
        '["a/1", "a/2", "a/1"]',
    ]
    assert [made.matches(text) for text in texts] == [False, True, True, False, False]


def test_an_item_of_an_older_draft_that_is_an_integer_has_no_point() -> None:
    four = {"$schema": "http://json-schema.org/draft-04/schema#"}
    listed = {**four, "type": "array", "items": {"type": "integer", "enum": [1, 2]}, "uniqueItems": True}
    made = compile_bytes(expression_of(listed))
    assert [made.matches(text) for text in ("[1]", "[2, 1]", "[1.0]", "[1, 2.0]")] == [True, True, False, False]


DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


@pytest.mark.parametrize(
    ("items", "more"),
    [
        (DAYS, {}),
        (DAYS, {"minItems": 2, "maxItems": 3}),
        (["a", "b", "c"], {"maxItems": 2**31 - 1}),
        (list("abcdefghijklmnop"), {"maxItems": 2}),
        ([1, True, "1", None, [1], {"a": 1}], {"minItems": 1}),
    ],
)
def test_few_values_come_in_any_order_each_once(items: list[Any], more: dict[str, Any]) -> None:
    made = automaton({"enum": items}, **more)
    least, most = more.get("minItems", 0), min(more.get("maxItems", 99), len(items))
    for count in (0, 1, 2, 3):
        for chosen in product(items, repeat=count):
            expected = differ(list(chosen)) and least <= count <= most
            assert made.matches(json.dumps(list(chosen))) == expected, chosen
    backwards = items[: -1 - most : -1]
    assert made.matches(json.dumps(backwards))
    assert not made.matches(json.dumps([*backwards, backwards[0]]))


def test_many_values_come_in_the_order_of_the_schema() -> None:
    items = [f"value number {place}" * 50 for place in range(40)]
    made = automaton({"enum": items})
    assert made.matches(json.dumps(items))
    assert made.matches(json.dumps(items[::7]))
    assert not made.matches(json.dumps(items[1::-1]))


def test_five_long_values_come_in_any_order() -> None:
    items = [f"{place} " * 50 for place in range(5)]
    made = automaton({"enum": items})
    assert all(made.matches(json.dumps(list(chosen))) for chosen in permutations(items))
    assert not made.matches(json.dumps(items[:1] * 2))


def test_an_enum_of_many_values_is_not_compiled_value_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def counted(expression: Any) -> ByteAutomaton:
        nonlocal calls
        calls += 1
        return compile_bytes(expression)

    monkeypatch.setattr(json_arrays, "compile_bytes", counted)
    made = automaton({"enum": [*range(500), *map(str, range(500))]})
    assert made.matches('[1, 2.0, 499, "1"]')
    assert calls == 0
