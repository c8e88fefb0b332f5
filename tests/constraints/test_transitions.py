"""Functions of states and lists of transitions: the kernels say what plain array operations say."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from constraints.tables import transitions_of
from gesso.constraints import determinize, distances, minimize, pairings, token_functions, token_parts, transitions
from gesso.constraints.automaton import TokenAutomaton
from gesso.constraints.budget import Budget, within
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.distances import FAR, heights, steps
from gesso.constraints.json_schema import schema_expression
from gesso.constraints.regex import parse
from gesso.constraints.tokens import token_automaton
from gesso.constraints.vocabulary_tree import VocabularyTree
from gesso.errors import OptionError
from gesso.kernels import host

pytestmark = pytest.mark.skipif(not host.available(), reason="LLVM is not here")


@pytest.fixture
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Call `undo` to have them back."""
    for module in (determinize, distances, minimize, pairings, token_functions, token_parts, transitions):
        monkeypatch.setattr(module, "host_kernels", lambda: None)
    return monkeypatch


def arrays(automaton: TokenAutomaton) -> list[NDArray[Any]]:
    found: list[NDArray[Any]] = [automaton.class_V, automaton.next_SK, automaton.distance_S]
    if automaton.families is not None:
        found += [automaton.families.begin_F, automaton.families.row_F, automaton.families.moves_RK]
    return found


def make_tree(seed: int) -> VocabularyTree:
    """Every byte, and random texts of few letters, some of them twice."""
    random = np.random.default_rng(seed)
    letters = np.frombuffer(b'abc01"{}:, \xc3\xa4', dtype=np.uint8)
    texts = [letters[random.integers(0, len(letters), random.integers(1, 7))].tobytes() for _ in range(700)]
    return VocabularyTree.build([None, b"", *(bytes([byte]) for byte in range(256)), *texts])


@pytest.mark.parametrize(
    "constraint",
    [
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {"enum": [0, 1]}}, "required": ["a"]},
        {"type": "array", "items": {"type": "string", "maxLength": 300}},
        r"(a|b)*a(a|b){6}|cä{100}",
    ],
)
@pytest.mark.parametrize("width", [3, token_parts.WIDTH])
def test_automata_are_those_of_arrays(constraint: object, width: int, without_kernels: pytest.MonkeyPatch) -> None:
    tree = make_tree(0)
    expression = parse(constraint) if isinstance(constraint, str) else schema_expression(constraint)
    by_arrays = token_automaton(compile_bytes(expression), tree, (0, 1), 1)
    without_kernels.undo()
    without_kernels.setattr(token_parts, "WIDTH", width)
    by_kernels = token_automaton(compile_bytes(expression), tree, (0, 1), 1)
    for one, other in zip(arrays(by_kernels), arrays(by_arrays), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", range(4))
def test_pairs_and_tables_are_those_of_arrays(seed: int, without_kernels: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    states, kinds = 6 + seed, 9
    table = np.where(random.random((states, kinds)) < 0.5, random.integers(0, states, (states, kinds)), -1)
    table[:, 7], table[:, 8] = table[:, 2], -1
    listed = transitions_of(table)
    # One source, and one target, is left out; so classes that differ become alike.
    source, target = np.arange(states, dtype=np.int32), np.arange(states, dtype=np.int32)
    source[1] = target[2] = -1
    found, place = listed.merged(source, target, states, states)
    first, second = listed.pairs(states)
    distance = steps(second, first, states, np.array([0, 3]))
    # Only pairs that lead on in the order of the states, some of them twice: what is left of the others has no end.
    onward = first < second
    doubled = np.append(first[onward], first[onward][:2]), np.append(second[onward], second[onward][:2])
    most, endless = heights(*doubled, states), heights(first, second, states)
    assert 0 < most.max() < FAR
    without_kernels.undo()
    np.testing.assert_array_equal(listed.merged(source, target, states, states)[0], found)
    np.testing.assert_array_equal(listed.merged(source, target, states, states)[1], place)
    assert place[7] == place[2]
    assert place[8] == -1
    one, other = listed.pairs(states)
    assert sorted(zip(one, other, strict=True)) == list(zip(first, second, strict=True))
    assert (np.diff(one) >= 0).all()
    np.testing.assert_array_equal(steps(second, first, states, np.array([0, 3])), distance)
    np.testing.assert_array_equal(heights(*doubled, states), most)
    np.testing.assert_array_equal(heights(first, second, states), endless)


@pytest.mark.parametrize("kernels", [True, False])
def test_functions_that_cannot_be_told_apart_are_found(
    kernels: bool, monkeypatch: pytest.MonkeyPatch, without_kernels: pytest.MonkeyPatch
) -> None:
    if kernels:
        without_kernels.undo()
    made = token_functions.Functions(np.array([[1, 0], [-1, 1]], dtype=np.int32), np.arange(2))
    made.parts.hashes.source[:] = 0
    level = np.zeros(1, dtype=np.int32), np.zeros(2, dtype=np.int32), np.array([0, 1], dtype=np.uint8)
    with pytest.raises(token_functions.CollisionError):
        made.descend(*level, np.arange(256) % 2)


def test_a_table_past_the_budget_is_refused() -> None:
    listed = transitions_of(np.diag(np.arange(20)))  # 400 pairs of 8 bytes, and as many cells of 4
    own = np.arange(20, dtype=np.int32)
    with within(Budget(max_bytes=4800)):
        assert listed.merged(own, own, 20, 20)[0].shape == (20, 20)
    with within(Budget(max_bytes=4799)), pytest.raises(OptionError, match="over this vocabulary it needs more than"):
        listed.merged(own, own, 20, 20)
