"""The public object, and the service that compiles."""

import threading
import time
from typing import Any

import pytest

import gesso
from constraints.test_compile import MINI_ENDS
from gesso.constraints import budget, compilation
from gesso.constraints import compile as service
from gesso.constraints.budget import Budget, CancelledError
from gesso.constraints.compile import compile_constraint, submit
from gesso.errors import OptionError
from gesso.text.tokenizer import Tokenizer

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"item": {"type": "string", "maxLength": 2000, "noted": 1}, "price": {"type": "integer"}},
    "required": ["item"],
    "additionalProperties": False,
}


def test_a_schema_that_changes_later_changes_nothing() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"item": {"type": "integer"}}, "required": ["item"]}
    made = gesso.constraint(json_schema=schema)
    schema["properties"] = {"price": {"type": "integer"}}
    schema["required"][0] = "price"
    text = gesso.load("mini", "cpu").generate("Give it as JSON.", constraint=made, seed=7).text
    assert text.startswith('{"item": ')
    assert made.accepts(text)


def test_it_says_what_it_takes_and_why_not() -> None:
    made = gesso.constraint(json_schema=SCHEMA)
    assert made.accepts('{"item": "kettle", "price": 36}')
    assert made.explain('{"item": "kettle", "price": 36}') is None
    assert not made.accepts('{"price": 36}')
    assert made.explain('{"price": 36}') == "character 2: 'p' cannot follow '{\"'"
    assert (
        made.explain('{"item": "日本", "price": 3x}')
        == 'character 25: \'x\' cannot follow \'"item": "日本", "price": 3\''
    )
    assert made.explain('{"item": "a') == 'character 11: the text ends behind \'{"item": "a\', where it is not complete'
    assert made.ignored == ("#/properties/item/noted",)
    assert made.size > 10_000
    assert repr(made).startswith("Constraint(option='json_schema', value={'type': 'object'")
    assert len(repr(made)) < 300
    with pytest.raises(OptionError, match="a text is a string, got 5"):
        made.accepts(5)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="noted: this keyword is not known"):
        gesso.constraint(json_schema=SCHEMA, strict=True)


def test_every_kind() -> None:
    assert gesso.constraint(regex="a+b").accepts("aab")
    assert gesso.constraint(choices=("yes", "no")).explain("maybe") == "character 0: 'm' cannot follow ''"
    assert gesso.constraint(grammar='start: "a" | "b"').accepts("b")
    for wrong, what in (
        ({}, "exactly one"), ({"regex": "a", "choices": ["b"]}, "exactly one"), ({"choices": "ab"}, "a list of texts"),
        ({"regex": "a^b"}, "allows no text"), ({"json_schema": {"type": "x"}}, "#/type"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=what):
            gesso.constraint(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("keyword", ["minimum", "minItems", "multipleOf", "const", "enum", "not"])
def test_a_number_that_is_too_large_is_refused(keyword: str) -> None:
    value: Any = {"enum": [10**400], "not": {"const": 10**400}}.get(keyword, 10**400)
    with pytest.raises(OptionError, match="a number of it is past what can be reckoned with"):
        gesso.constraint(json_schema={keyword: value})


def test_what_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(OptionError, match="its parts are nested too deeply"):
        gesso.constraint(regex="(?=a)" * 2000 + "a")
    with pytest.raises(OptionError, match="its parts are nested too deeply"), budget.python_bounds():
        raise RecursionError
    with pytest.raises(OptionError, match="the memory that is left"), budget.python_bounds():
        raise MemoryError


def test_half_a_character_is_no_text_and_no_special_token() -> None:
    anything = gesso.constraint(regex="(?s).*")
    for half in ("\ud800", "\udcf8"):
        assert not anything.accepts(half)
        assert anything.explain("a" + half) == f"character 1: {half!r} cannot follow 'a'"
        for given in (
            {"choices": [half]}, {"regex": half}, {"json_schema": {"const": half}},
            {"json_schema": {"required": [half]}}, {"json_schema": {"properties": {half: {}}}},
            {"json_schema": {"dependentRequired": {half: ["a"]}}},
        ):  # fmt: skip
            with pytest.raises(OptionError, match=r"half a character|must be"):
                gesso.constraint(**given)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"choices.* holds half a character"):
        gesso.load("mini").generate("Say", choices=["\udcf8"])


def test_generate_takes_it() -> None:
    engine = gesso.load("mini")
    made = gesso.constraint(regex="[a-z]{3,9}!")
    result = engine.generate("Say a word.", constraint=made, seed=1, max_new_tokens=32)
    assert made.accepts(result.text)
    assert result.text == engine.generate("Say a word.", regex="[a-z]{3,9}!", seed=1, max_new_tokens=32).text
    with pytest.raises(OptionError, match="contradict"):
        engine.generate("x", constraint=made, regex="a")
    with pytest.raises(OptionError, match=r"made by gesso\.constraint"):
        engine.generate("x", constraint="a")


class Gate:
    """In the place of `compile_bytes`: holds what is compiled until it is opened, looking at its budget meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slow: str) -> None:
        self.opened, self.calls = threading.Event(), 0
        inner = service.compile_bytes

        def compile_bytes(expression: Any) -> Any:
            if slow in str(expression):
                self.calls += 1
                while not self.opened.wait(0.01):
                    budget.current().check()
            return inner(expression)

        monkeypatch.setattr(service, "compile_bytes", compile_bytes)


def test_one_key_is_compiled_once_and_others_do_not_wait(mini: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Tokenizer(mini._tokenizer)
    gate = Gate(monkeypatch, "@")
    waiting = [submit("@", own, MINI_ENDS) for _ in range(3)]
    started = time.monotonic()
    assert compile_constraint("b+", own, MINI_ENDS).shortest == 2
    assert time.monotonic() - started < 5
    assert not waiting[0].ready
    with pytest.raises(TimeoutError):
        submit("@", own, MINI_ENDS).result(timeout=0.01)
    gate.opened.set()
    found = [one.result(timeout=20) for one in waiting]
    assert found[0] is found[1] is found[2] is compile_constraint("@", own, MINI_ENDS)
    assert gate.calls == 1


def test_it_is_given_up_when_nobody_waits(mini: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Tokenizer(mini._tokenizer)
    gate = Gate(monkeypatch, "@")
    first, second = (submit("@x", own, MINI_ENDS) for _ in range(2))
    first.leave()
    time.sleep(0.1)
    assert not second.ready
    second.leave()
    deadline = time.monotonic() + 10
    while not second.ready and time.monotonic() < deadline:
        time.sleep(0.01)
    assert isinstance(second._error, CancelledError)
    gate.opened.set()
    # Who comes later finds nothing of it, and gets one of its own.
    assert compile_constraint("@x", own, MINI_ENDS).shortest >= 2
    assert gate.calls == 2


def test_a_failure_reaches_everyone_and_is_not_remembered(mini: Tokenizer) -> None:
    own = Tokenizer(mini._tokenizer)
    waiting = [submit("(a|b)*a(a|b){40}", own, MINI_ENDS, limits=Budget(max_states=2000)) for _ in range(3)]
    for one in waiting:
        with pytest.raises(OptionError, match="more than 2000 states"):
            one.result(timeout=30)
    with pytest.raises(OptionError, match="a quantifier with nothing"):
        compile_constraint("*", own, MINI_ENDS)


def test_long_ones_leave_the_lane_of_the_short(mini: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "SHORT_SECONDS", 0.0)
    own = Tokenizer(mini._tokenizer)
    gate = Gate(monkeypatch, "@")
    waiting = [submit("@" * count, own, MINI_ENDS) for count in range(1, 9)]
    gate.opened.set()
    assert [one.result(timeout=30).shortest for one in waiting]
    assert compilation._short_lane._value == 4
    assert compilation._long_lane._value == 1


@pytest.mark.parametrize("given", [{"regex": 4}, {"grammar": ["root ::= x"]}, {"choices": 3}, {"choices": "ab"}])
def test_what_is_no_text_is_refused_by_name(given: dict[str, object]) -> None:
    (name,) = given
    with pytest.raises(OptionError, match=f"^{name} must be a"):
        gesso.constraint(**given)
