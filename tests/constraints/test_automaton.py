"""Automata over tokens, built by hand: the end, the distances, what is dropped and merged."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constraints.tables import automaton_of
from gesso.constraints.automaton import FAR, TokenAutomaton
from gesso.constraints.transitions import REFUSED
from gesso.errors import OptionError

# Tokens: 0 fills and ends, 1 ends, 2 and 3 are text.
SIMPLE = [[-1, -1, 1, -1], [-1, -1, 1, 2], [-1, -1, -1, -1]]


def simple() -> TokenAutomaton:
    """`2+ 3?`"""
    return automaton_of(SIMPLE, accepting=[1, 2], end_tokens=[0, 1])


def test_the_end_leads_to_done_where_only_the_filling_token_follows() -> None:
    automaton = simple()
    assert automaton.advance(automaton.start, [2, 2, 3, 1]) == automaton.done
    assert automaton.advance(automaton.start, [2, 0, 0, 0]) == automaton.done
    assert automaton.advance(automaton.start, [2, 1, 0]) == automaton.done
    for refused in ([2, 1, 1], [2, 0, 1], [2, 0, 2], [0], [1], [3], [2, 3, 2], [2, 9], [2, -1]):
        assert automaton.advance(automaton.start, refused) == REFUSED
    assert automaton.advance(REFUSED, [2]) == REFUSED
    assert automaton.advance(automaton.start, []) == automaton.start


def test_distances_count_the_end_token() -> None:
    automaton = simple()
    assert automaton.shortest == 2
    assert automaton.distance_S.tolist() == [2, 1, 1, 0]
    assert automaton.accepting_S.tolist() == [False, True, True, True]
    assert automaton.completion(automaton.start) == [2, 0]
    assert automaton.completion(automaton.done) == []


def test_another_token_may_fill() -> None:
    automaton = automaton_of(SIMPLE, [1], end_tokens=[1], fill_token=0)
    assert automaton.advance(automaton.start, [2, 1, 0, 0]) == automaton.done
    assert automaton.advance(automaton.start, [2, 0]) == REFUSED
    assert automaton.advance(automaton.start, [2, 1, 1]) == REFUSED


def test_an_end_token_is_no_text() -> None:
    automaton = automaton_of([[0, 0, 0]], [0], end_tokens=[2])
    assert automaton.advance(automaton.start, [0, 1, 2, 2]) == automaton.done
    assert automaton.advance(automaton.start, [2, 1]) == REFUSED


def test_useless_states_are_dropped_and_equal_tokens_merged() -> None:
    # State 1 leads nowhere, state 3 is never reached; tokens 1 and 2 do the same but for that.
    automaton = automaton_of([[-1, 2, 2, 1], [-1, 1, 1, 1], [-1, -1, -1, -1], [-1, 2, 3, 2]], [2], [0])
    assert automaton.next_SK.shape == (3, 2)
    assert automaton.class_V[1] == automaton.class_V[2] != REFUSED
    assert automaton.class_V[3] == REFUSED
    assert automaton.first_token_K.tolist()[automaton.class_V[1]] == 1


def test_a_language_without_a_text_is_refused() -> None:
    with pytest.raises(OptionError, match="no text that this vocabulary can spell"):
        automaton_of([[-1, 0]], [], [0])
    with pytest.raises(OptionError, match="no text"):
        automaton_of([[-1, -1], [-1, -1]], [1], [0])


@given(data=st.data(), states=st.integers(1, 4), vocab=st.integers(2, 4))
def test_it_accepts_what_the_table_accepts(data: st.DataObject, states: int, vocab: int) -> None:
    table = data.draw(st.lists(st.lists(st.integers(-1, states - 1), min_size=vocab, max_size=vocab), min_size=states,
                               max_size=states))  # fmt: skip
    accepting = data.draw(st.sets(st.integers(0, states - 1), min_size=1))
    ends = data.draw(st.lists(st.integers(0, vocab - 1), min_size=1, max_size=2, unique=True))

    def accepts(tokens: tuple[int, ...]) -> bool:
        state = 0
        for place, token in enumerate(tokens):
            if token in ends:
                return state in accepting and set(tokens[place + 1 :]) <= {ends[0]}
            state = table[state][token]
            if state < 0:
                return False
        return False

    valid = {
        tokens for length in range(1, 5) for tokens in itertools.product(range(vocab), repeat=length) if accepts(tokens)
    }
    try:
        automaton = automaton_of(table, accepting, ends)
    except OptionError:
        assert not valid
        return
    for length in range(1, 5):
        for tokens in itertools.product(range(vocab), repeat=length):
            assert (automaton.advance(automaton.start, tokens) == automaton.done) == (tokens in valid)
    assert automaton.shortest <= states
    assert (automaton.distance_S < FAR).all()
    for state in range(len(automaton.next_SK)):
        tokens = automaton.completion(state)
        assert len(tokens) == automaton.distance_S[state]
        assert automaton.advance(state, tokens) == automaton.done
    assert len(np.unique(automaton.next_SK, axis=1).T) == automaton.next_SK.shape[1]
    assert min(map(len, valid), default=5) == min(automaton.shortest, 5)
