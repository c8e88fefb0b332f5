"""Counted repetitions as counters: the same language, tokens, marginals and canvases as when they are spelled out."""

import dataclasses
import math
import re
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import cases

from constraints.schemas import expression_of
from gesso.constraints import window
from gesso.constraints.automaton import TokenAutomaton
from gesso.constraints.budget import Budget, within
from gesso.constraints.byte_table import ByteAutomaton
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.counters import Counters
from gesso.constraints.expression import Expression
from gesso.constraints.inference import Lattice
from gesso.constraints.regex import parse
from gesso.constraints.tokens import token_automaton
from gesso.constraints.vocabulary_tree import VocabularyTree
from gesso.errors import OptionError

PATTERNS = [
    "[ab]{0,70}", "[ab]{66,80}c", "(ab?){64}", "([ab]{64,66}-){1,2}c", "(a{3}){70}", "(a|aa){64,70}", "([ab]{70})*",
    "a{64,}b", "(ab|c){0,80}(c|d)", "([ab]{64,70},){64,66}", "a{0,70}a{0,70}", "(a{0,70}b)*", "[^a]{64,80}",
    "((a{64})?b){0,2}", "(a{64}|b{70})c", "(a{64}|[ab]{70})c", "([ab]{0,70}|a{0,90})c", "[ab]{0,100}|a{64,80}b",
    "[ab]{0,70}c|a{0,66}b?", "(a{0,70}|a{0,80}b|b{3,75})c",
]  # fmt: skip
SCHEMAS = [
    {"type": "string", "maxLength": 100},
    {"type": "string", "minLength": 70, "maxLength": 100},
    {"type": "string", "minLength": 64},
    {"type": "string", "maxLength": 100, "pattern": "^[ab]+(c[ab]+)*$"},
    {"type": "array", "items": {"type": "string", "maxLength": 64}, "maxItems": 3},
    {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 90},
    {"type": "object", "properties": {"a": {"type": "string", "maxLength": 80}, "b": {"type": "string"}}},
    {"anyOf": [{"type": "string", "maxLength": 70}, {"type": "string", "maxLength": 90, "pattern": "b"}]},
    {"type": "string", "maxLength": 100, "pattern": "^(ab|ca){12}1*$"},
    {"type": "array", "maxItems": 70, "items": {"enum": ["a", 1]}, "contains": {"const": 1}, "minContains": 12},
    {"type": "array", "maxItems": 70, "items": {"type": "number", "minimum": 0}},
]
LETTERS = ["a", "b", "c", "-", '"', "é", ",", " ", "1", "{", "}", "[", "]", ":", "\\", "n"]
TEXTS: list[bytes | None] = [
    None, *(letter.encode() for letter in LETTERS), b"ab", b"aaa", b"aaaaaaa", b"abab", b"c-", b'a"', b'","', b'"]',
    b"bc", b'": "', b"\xc3", b"\xa9", b"b\xc3", b"\xa9a", b"1, ", b'"a', b'a", "b', b'{"a": "', b'"}',
]  # fmt: skip
TREE = VocabularyTree.build(TEXTS)


def expressions() -> list[Expression]:
    return [*map(parse, PATTERNS), *map(expression_of, SCHEMAS)]


@pytest.fixture(scope="module", params=range(len(PATTERNS) + len(SCHEMAS)))
def both(request: pytest.FixtureRequest) -> tuple[ByteAutomaton, ByteAutomaton]:
    made = compile_bytes(expressions()[request.param])
    return made, made.spelled()


def test_most_keep_a_counter() -> None:
    kept = [compile_bytes(one).counts is not None for one in expressions()]
    assert sum(kept) >= len(kept) - 8


@pytest.mark.parametrize("pattern", ["([ab]{0,700}|a{0,900})c", "[ab]{0,1000}|a{64,800}b", "a{0,700}|[ab]{0,900}c"])
def test_branches_may_share_a_count(pattern: str) -> None:
    automaton = compile_bytes(parse(pattern))
    assert automaton.counts is not None
    assert len(automaton.accepting_S) < 40
    for letters in ("a", "ab", "b"):
        for count in (0, 1, 63, 64, 65, 449, 450, 451, 699, 700, 701, 799, 800, 801, 802, 899, 900, 901, 1000, 1001):
            for text in ((letters * count)[:count] + tail for tail in ("", "b", "c")):
                assert automaton.matches(text) == bool(re.fullmatch(pattern, text)), text


def test_patterns_match_what_python_matches() -> None:
    for pattern in PATTERNS:
        automaton = compile_bytes(parse(pattern))
        if "|aa" in pattern:  # Python's way through it takes exponential time
            assert [automaton.matches("a" * count) for count in (63, 64, 140, 141)] == [False, True, True, False]
            continue
        for letters in ("a", "ab", "ba", "c", "b"):
            for count in (0, 1, 2, 63, 64, 65, 66, 69, 70, 71, 79, 80, 81, 128, 140, 141, 210):
                for text in (letters * count, letters * count + "c", letters * count + "b", letters * count + "-c"):
                    assert automaton.matches(text) == bool(re.fullmatch(pattern, text)), (pattern, text)


def test_it_is_the_language_that_is_spelled_out(both: tuple[ByteAutomaton, ByteAutomaton]) -> None:
    """Both are walked through at once: every pair of states that can be reached agrees on what may follow."""
    counted, spelled = both
    assert spelled.counts is None
    assert counted.size == len(spelled.accepting_S)
    begins = counted.begins()
    for state in range(len(counted.accepting_S)):
        assert counted.accepting_S[state] == spelled.accepting_S[begins[state]]


def canvases(lattice: Lattice, scores_CV: torch.Tensor, state: int, budget: int) -> tuple[list[int], object]:
    found = lattice.posterior(lattice.emissions(scores_CV), state, budget)
    shares = found.apply(scores_CV.log_softmax(dim=-1)).exp()
    return found.canvas_C.tolist(), (shares, found.log_total, found.entropy_C)


def test_tokens_and_marginals_are_those_of_what_is_spelled_out(both: tuple[ByteAutomaton, ByteAutomaton]) -> None:
    counted, spelled = (token_automaton(one, TREE, [0]) for one in both)
    assert spelled.families is None
    assert counted.shortest == spelled.shortest
    lattices = Lattice(counted), Lattice(spelled)
    generator = torch.Generator().manual_seed(0)
    for width in (5, 24):
        states, tokens_left = (counted.start, spelled.start), spelled.shortest + 40
        for _ in range(8):
            if tokens_left <= 0 or counted.distance(states[0]) == 0:
                break
            scores = 4 * torch.randn(width, len(TEXTS), generator=generator)
            # An end that the model would rather not take, so that counters come near theirs.
            scores[:, 0] -= 30
            budget = max(0, tokens_left - width)
            if spelled.distance(states[1]) > width + budget:
                break
            canvas, marginals = canvases(lattices[0], scores, states[0], budget)
            expected, true = canvases(lattices[1], scores, states[1], budget)
            for one, other in zip(marginals, true, strict=True):  # type: ignore[call-overload]
                torch.testing.assert_close(torch.as_tensor(one), torch.as_tensor(other), atol=1e-6, rtol=1e-6)
            weights = [scores[torch.arange(width), torch.tensor(one)].sum() for one in (canvas, expected)]
            assert float(weights[0]) == pytest.approx(float(weights[1]), abs=1e-4)
            states = (counted.advance(states[0], canvas), spelled.advance(states[1], canvas))
            assert min(states) >= 0
            assert counted.distance(states[0]) == spelled.distance(states[1])
            tokens_left -= width
        rest = counted.completion(states[0])
        assert len(rest) == spelled.distance(states[1])
        assert spelled.advance(states[1], rest) == spelled.done


@given(st.data())
@settings(max_examples=cases(60, 600), deadline=None)
def test_any_walk_leads_to_states_that_agree(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(PATTERNS) + len(SCHEMAS) - 1))
    counted, spelled = _automata(place)
    one, other = counted.start, spelled.start
    for _ in range(60):
        allowed = [token for token in range(1, len(TEXTS)) if spelled.advance(other, [token]) >= 0]
        assert allowed == [token for token in range(1, len(TEXTS)) if counted.advance(one, [token]) >= 0]
        assert counted.distance(one) == spelled.distance(other)
        if not allowed:
            break
        token = data.draw(st.sampled_from(allowed))
        one, other = counted.advance(one, [token]), spelled.advance(other, [token])


def test_what_nothing_may_follow_is_refused_in_every_count() -> None:
    """Behind the `-` of a number that is 0 at least, the state before the first one was taken for what follows."""
    counted = compile_bytes(expression_of({"type": "array", "maxItems": 50, "items": {"type": "number", "minimum": 0}}))
    tokens = token_automaton(counted, TREE, [0])
    token_of = {text: token for token, text in enumerate(TEXTS)}
    for count in range(50):
        text = "[" + "1, " * count
        ids = [token_of[byte.encode()] for byte in text]
        assert not counted.spelled().matches(f"{text}-[1]")
        assert tokens.advance(tokens.start, [*ids, token_of[b"1"], token_of[b"]"]]) >= 0
        for letter in (b"[", b"-", b"]", b",", b" ", b"a"):
            assert tokens.advance(tokens.start, [*ids, token_of[b"-"], token_of[letter]]) < 0, (text, letter)


def test_a_counter_may_be_in_the_way_of_the_shortest_end() -> None:
    """It is no reason to spell it out; the states near its end are farther from the end of the text."""
    # The last ends a string in one token behind a backslash, where three more characters may stand.
    texts = [None, b'"', b"a", b"\\", b"n", b'"aa"']
    tree = VocabularyTree.build(texts)
    counted = compile_bytes(expression_of({"type": "string", "maxLength": 200}))
    one, other = token_automaton(counted, tree, [0]), token_automaton(counted.spelled(), tree, [0])
    assert one.families is not None
    quote, letter, backslash = (texts.index(text) for text in (b'"', b"a", b"\\"))
    for length in (0, 100, *range(180, 200)):
        states = [made.advance(made.start, [quote, *[letter] * length, backslash]) for made in (one, other)]
        assert one.distance(states[0]) == other.distance(states[1]) == (2 if length <= 197 else 3)
    assert token_automaton(compile_bytes(parse("[ab]{0,90}c")), TREE, [0]).families is not None
    # One of at least so many is spelled out still: each count is another way from the end.
    assert token_automaton(compile_bytes(parse("[ab]{200}c")), TREE, [0]).families is None


LONG_AT_LEAST = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "maxLength": 150},
        "b": {"type": "string", "maxLength": 200, "pattern": "^abc-1{12}-[ab]+$"},
    },
    "required": ["a", "b"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("max_states", [60_000, 3_000])
def test_a_text_may_have_to_be_longer_than_a_token(max_states: int) -> None:
    """The counter of a text of at least 17 characters is spelled out, or has more rows where there is no room for it;
    it was taken for one that never comes to an end."""
    counted = compile_bytes(expression_of(LONG_AT_LEAST))
    spelled = token_automaton(counted.spelled(), TREE, [0])
    with within(Budget(max_states=max_states)):
        automaton = token_automaton(counted, TREE, [0])
    assert automaton.families is not None
    assert (automaton.families.length_F > 151).any() == (max_states == 3_000)
    assert automaton.shortest == spelled.shortest
    place = {text: token for token, text in enumerate(TEXTS) if text is not None}
    start = '{"a": "' + "ab" * 30 + '", "b": "abc-' + "1" * 12 + "-"
    ends = [("a" * count + '"}', count in (1, 100, 183)) for count in (0, 1, 100, 183, 184)]
    for end, valid in ends:
        tokens = [place[byte.encode()] for byte in start + end]
        states = [made.advance(made.start, tokens) for made in (automaton, spelled)]
        assert [state >= 0 for state in states] == [valid, valid], end
        assert not valid or automaton.distance(states[0]) == spelled.distance(states[1]) == 1


@pytest.mark.parametrize("most", [10**6, 2**31 - 1, 2**32, 10**18])
def test_a_large_count_costs_no_more_than_a_small_one(most: int) -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "maxItems": most}
    automaton = token_automaton(compile_bytes(expression_of(schema)), TREE, [0])
    lattice, began = Lattice(automaton), time.thread_time()
    for text in ("[1,1]", "[" + "1," * 30):
        scores = scores_of(text, 40, torch.Generator().manual_seed(0))
        found = lattice.posterior(lattice.emissions(scores), automaton.start, 90)
        assert automaton.advance(automaton.start, found.canvas_C.tolist()) >= 0
    assert time.thread_time() - began < 1
    small = token_automaton(compile_bytes(expression_of(schema | {"maxItems": 10_000})), TREE, [0])
    exact = Lattice(small)
    true = exact.posterior(exact.emissions(scores), small.start, 90)
    assert found.canvas_C.tolist() == true.canvas_C.tolist()
    assert found.log_total == pytest.approx(true.log_total, abs=1e-9)


def test_counts_that_no_answer_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match=r"no answer is as long as 9223372036854775807 repetitions ask for"):
        compile_bytes(expression_of({"type": "string", "minLength": 2**63 - 1}))
    monkeypatch.setattr("gesso.constraints.bytes_automaton.MOST_COUNTS", 2**29)
    schema = {"type": "array", "items": {"type": "string", "maxLength": 2**31}}
    with pytest.raises(OptionError, match=r"too large"):
        token_automaton(compile_bytes(expression_of(schema)), TREE, [0])


_made: dict[int, tuple[TokenAutomaton, TokenAutomaton]] = {}


def _automata(place: int) -> tuple[TokenAutomaton, TokenAutomaton]:
    if place not in _made:
        counted = compile_bytes(expressions()[place])
        _made[place] = (token_automaton(counted, TREE, [0]), token_automaton(counted.spelled(), TREE, [0]))
    return _made[place]


@pytest.mark.parametrize(
    "expression",
    [
        parse("[a-z]{0,4000}"), parse("(a{100}){199}"), parse("[ab]{10000}"), parse("([ab]{5,90},){0,5000}"),
        expression_of({"type": "string", "maxLength": 10_000}),
        expression_of({"type": "array", "items": {"type": "string", "maxLength": 2000}, "maxItems": 50}),
        expression_of({"type": "string", "maxLength": 2000, "pattern": "^[a-z]+(-[a-z]+)*$"}),
    ],
    ids=str,
)  # fmt: skip
def test_a_count_costs_nothing(expression: Expression) -> None:
    started = time.thread_time()
    automaton = token_automaton(compile_bytes(expression), TREE, [0])
    assert automaton.shortest > 0
    assert time.thread_time() - started < 2.0  # copy by copy it takes ten times as long


def test_a_canvas_holds_few_of_many_counts() -> None:
    automaton = token_automaton(compile_bytes(parse("[ab]{0,100000}".replace("100000", "10000"))), TREE, [0])
    lattice = Lattice(automaton)
    window, _ = lattice._windows.window([automaton.start], 8)
    assert len(window.state_S) <= 4
    near = automaton.start
    for _ in range(1425):
        near = automaton.advance(near, [TEXTS.index(b"aaaaaaa")])
    assert automaton.distance(near) == 1
    window, _ = lattice._windows.window([near], 8)
    assert 20 < len(window.state_S) < 80
    scores = torch.zeros(8, len(TEXTS))
    scores[:, TEXTS.index(b"aaaaaaa")] = 50.0
    found = lattice.posterior(lattice.emissions(scores), near, 0)
    text = "".join((TEXTS[token] or b"").decode() for token in found.canvas_C.tolist())
    assert len(text) <= 25
    assert math.isfinite(found.log_total)


BOUNDED = {
    "type": "object",
    "properties": {"a": {"type": "string", "maxLength": 70}, "b": {"type": "string", "maxLength": 200}},
    "required": ["a", "b"],
}


def scores_of(text: str, width: int, generator: torch.Generator) -> torch.Tensor:
    """Scores that lead to a text, a token for each letter, with some doubt."""
    scores = torch.randn(width, len(TEXTS), generator=generator)
    tokens = [TEXTS.index(letter.encode()) if letter != ":" else TEXTS.index(b":") for letter in text]
    for place in range(width):
        scores[place, tokens[place] if place < len(tokens) else 0] += 12.0
    return scores


@pytest.mark.parametrize(("length", "live"), [(5, 0), (68, 1), (90, 1)])
def test_a_counter_takes_part_where_it_may_be_met(length: int, live: int) -> None:
    """It is left out as long as that changes nothing, and the results are those of what is spelled out."""
    counted = compile_bytes(expression_of(BOUNDED))
    automaton, spelled = token_automaton(counted, TREE, [0]), token_automaton(counted.spelled(), TREE, [0])
    text = f'{{"a": "{"ab" * (length // 2)}", "b": "{"c" * 60}"}}'
    scores = scores_of(text, len(text) + 4, torch.Generator().manual_seed(length))
    lattice, exact = Lattice(automaton), Lattice(spelled)
    found = lattice.posterior(lattice.emissions(scores), automaton.start, 40)
    true = exact.posterior(exact.emissions(scores), spelled.start, 40)
    assert found.canvas_C.tolist() == true.canvas_C.tolist()
    assert found.log_total == pytest.approx(true.log_total, abs=1e-9)
    log_p = scores.log_softmax(dim=-1)
    torch.testing.assert_close(found.apply(log_p).exp(), true.apply(log_p).exp(), atol=1e-6, rtol=1e-5)
    kept = [groups for _, _, groups in lattice._windows._kept]
    assert None not in kept  # the window of all counters was not needed
    assert max(len(groups or ()) for groups in kept) == live


def test_windows_are_kept_while_their_states_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    automaton = token_automaton(compile_bytes(expression_of(BOUNDED)), TREE, [0])
    windows = Lattice(automaton)._windows
    sizes = [len(windows.window([automaton.start], width)[0].state_S) for width in range(4, 9)]
    assert len(windows._kept) == len(sizes)
    monkeypatch.setattr(window, "_KEPT_STATES", sizes[-1] + sizes[-2])
    windows.window([automaton.start], 8)
    windows.window([automaton.start], 3)
    assert sum(len(kept.state_S) for kept in windows._kept.values()) <= sizes[-1] + sizes[-2]
    assert (automaton.start,) in [starts for starts, _, _ in windows._kept], "the last one is there"


def test_what_is_left_out_is_bounded_from_above() -> None:
    """The bound is no less than what is lost, whatever the scores."""
    automaton = token_automaton(compile_bytes(parse("[ab]{0,70}c?")), TREE, [0])
    lattice = Lattice(automaton)
    bounds = []
    for seed in range(12):
        scores = torch.randn(40, len(TEXTS), generator=torch.Generator().manual_seed(seed))
        scores[:, 0] += seed - 2.0
        emissions = lattice.emissions(scores)
        window, firsts = lattice._windows.relaxed([automaton.start], 40, frozenset()) or (None, [])
        assert window is not None
        relaxed = lattice._plain(window, emissions.total, window.first(firsts), window.last(5))
        assert relaxed is not None
        window, firsts = lattice._windows.window([automaton.start], 40)
        exact = lattice._plain(window, emissions.total, window.first(firsts), window.last(5))
        assert exact is not None
        lost = -math.expm1(exact[1] - relaxed[1])
        bounds.append(sum(relaxed[2].values()))
        assert -1e-12 < lost <= bounds[-1] + 1e-12
    assert min(bounds) < 1e-12
    assert max(bounds) > 1e-3


@pytest.mark.parametrize("pattern", ["[ab]{0,70}c?", "([ab]{0,70}-)*", "([ab]{0,70}b)?c"])
def test_a_counter_of_at_most_so_many_is_only_a_bound(pattern: str) -> None:
    automaton = token_automaton(compile_bytes(parse(pattern)), TREE, [0])
    assert Counters(automaton).bound_F.all()


def test_a_counter_whose_end_allows_more_is_not_only_a_bound() -> None:
    automaton = token_automaton(compile_bytes(parse("[ab]{0,70}c?")), TREE, [0])
    families = automaton.families
    assert families is not None
    first, last = int(families.row_F[0]), int(families.row_F[0] + families.rows_F[0] - 1)
    table = automaton.next_SK.copy()
    moved = np.flatnonzero(families.moves_RK[first])
    table[last, moved[0]], table[first, moved[0]] = automaton.done, -1
    assert not Counters(dataclasses.replace(automaton, next_SK=table)).bound_F.any()
