"""The subset construction: compiled kernels find what Python finds, to the number."""

import re
from itertools import product

import numpy as np
import pytest

from constraints.schemas import expression_of
from gesso.constraints import determinize, minimize, pairings
from gesso.constraints.budget import Budget, within
from gesso.constraints.byte_table import ByteAutomaton
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.expression import Difference, Expression, Intersection, Text, Union
from gesso.constraints.regex import parse, parse_search
from gesso.constraints.tries import spelled_out, trie
from gesso.errors import OptionError
from gesso.kernels import host

LETTERS = "ab"
needs_kernels = pytest.mark.skipif(not host.available(), reason="LLVM is not here")


def random_pattern(random: np.random.Generator, depth: int) -> str:
    if depth == 0:
        return str(random.choice(["a", "b", "[ab]", ".", "ab", "é", "^a", "b$", ""]))
    parts = [random_pattern(random, depth - 1) for _ in range(random.integers(1, 4))]
    joined = "|".join(parts) if random.random() < 0.5 else "".join(f"(?:{part})" for part in parts)
    return f"(?:{joined}){random.choice(['', '*', '?', '+', '{2}'])}"


def compiled(expression: Expression, monkeypatch: pytest.MonkeyPatch, kernels: bool) -> ByteAutomaton:
    with monkeypatch.context() as patch:
        if not kernels:
            for module in (determinize, minimize, pairings):
                patch.setattr(module, "host_kernels", lambda: None)
        return compile_bytes(expression)


def assert_same(expression: Expression, monkeypatch: pytest.MonkeyPatch) -> ByteAutomaton:
    one, other = (compiled(expression, monkeypatch, kernels) for kernels in (True, False))
    for name in ("next_SG", "group_B", "accepting_S", "start"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), strict=name != "start")
    return one


@needs_kernels
@pytest.mark.parametrize("seed", range(16))
def test_random_patterns(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = random_pattern(np.random.default_rng(seed), 3)
    assert_same(parse_search(pattern), monkeypatch)
    assert_same(Difference(parse("[ab]{0,5}"), parse_search(pattern)), monkeypatch)


@needs_kernels
def test_many_sets_of_few_states(monkeypatch: pytest.MonkeyPatch) -> None:
    # So many that the room for sets grows, and that for their states.
    pattern = "(?:a|b)*a(?:a|b){9}"
    found = assert_same(parse(pattern), monkeypatch)
    assert len(found.accepting_S) == 2**10
    random = np.random.default_rng(0)
    for _ in range(200):
        text = "".join(random.choice(list(LETTERS), random.integers(0, 20)))
        assert found.matches(text) == bool(re.fullmatch(pattern, text))


@needs_kernels
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"name": {"type": "string"}, "names": {}, "n": {"enum": ["name", 1]}}},
        {"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"ab": True}}]},
        {"type": "array", "items": {"type": "string", "pattern": "^a+b|b$"}},
    ],
)
def test_schemas(schema: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_same(expression_of(schema), monkeypatch)


@needs_kernels
def test_intersections(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = "(?:a|b)*a(?:a|b){4}", "(?:ab|ba|a)*", ".{0,9}"
    found = assert_same(Intersection(tuple(map(parse, patterns))), monkeypatch)
    texts = ["".join(letters) for size in range(11) for letters in product(LETTERS, repeat=size)]
    expected = [text for text in texts if all(re.fullmatch(pattern, text) for pattern in patterns)]
    assert [text for text in texts if found.matches(text)] == expected
    assert 0 < len(expected) < len(texts)


@pytest.mark.parametrize("kernels", [pytest.param(True, marks=needs_kernels), False])
def test_too_many_states_are_refused(kernels: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with within(Budget(max_states=1_000)), pytest.raises(OptionError, match="more than 1000 states"):
        compiled(parse("(?:a|b)*a(?:a|b){12}"), monkeypatch, kernels)
    both = Intersection((parse("(?:a{7})*"), parse("(?:a{11})*")))
    with within(Budget(max_states=50)), pytest.raises(OptionError, match="more than 50 states"):
        compiled(both, monkeypatch, kernels)


def test_a_trie_is_its_texts() -> None:
    texts = ["name", "names", "n", "é", "", "name"]
    expression = Union(tuple(map(Text, texts)))
    assert spelled_out(expression) == texts
    assert spelled_out(Text("a")) == ["a"]
    assert spelled_out(Union((Text("a"), parse("b*")))) is None
    assert spelled_out(Union(())) is None
    found = trie(texts)
    assert [text for text in (*texts, "na", "nameś", "e", "a") if found.matches(text)] == texts
    assert trie([""]).matches("")
    left = compile_bytes(Difference(parse(".{0,5}"), expression))
    assert [text for text in (*texts, "na", "a") if left.matches(text)] == ["na", "a"]
