"""Paired comparisons, against what can be counted by hand."""

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gesso.lab.statistics import Answer, accuracy_under_parallelism, compare, holm, mcnemar, pareto


def answers(right: str, passes: int = 4) -> dict[int, Answer]:
    """`1` is right, `0` wrong, a blank is no answer."""
    return {n: Answer(n, mark == "1", passes, 8, 0.5) for n, mark in enumerate(right) if mark != " "}


def test_a_setting_is_compared_with_the_first_on_what_both_answered() -> None:
    first, second = compare("m", "t", [({}, answers("11000 ")), ({"a": 1}, answers("01110 1".ljust(6), 2))])
    assert (first.fixed, first.broken, first.p, first.p_holm, first.passes_change) == (0, 0, 1.0, 1.0, 0.0)
    assert (second.examples, second.right, second.paired) == (6, 4, 5)
    assert (second.fixed, second.broken) == (2, 1)
    assert second.p == mcnemar(2, 1) == 1.0
    assert (second.passes, second.passes_change, second.passes_change_interval) == (2.0, -2.0, (-2.0, -2.0))
    assert second.tokens_per_forward == 4.0
    assert second.best
    assert not first.best, "right less often, in more passes"


@pytest.mark.parametrize("total", range(7))
def test_mcnemar_is_the_share_of_splits_as_uneven(total: int) -> None:
    for fixed in range(total + 1):
        splits = [sum(split) for split in product((0, 1), repeat=total)]
        uneven = abs(2 * fixed - total)
        expected = sum(abs(2 * split - total) >= uneven for split in splits) / len(splits)
        assert mcnemar(fixed, total - fixed) == pytest.approx(expected)


def test_mcnemar_of_many_pairs() -> None:
    assert mcnemar(512, 512) == 1.0
    assert mcnemar(600, 424) == pytest.approx(4.2e-8, rel=0.05)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_keeps_the_order_and_never_finds_more(ps: list[float]) -> None:
    adjusted = holm(ps)
    assert all(p <= q <= 1 for p, q in zip(ps, adjusted, strict=True))
    for (p, q), (r, s) in product(zip(ps, adjusted, strict=True), repeat=2):
        assert q <= s or p > r or math.isclose(q, s)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=10))
def test_the_front_is_what_nothing_beats(points: list[tuple[int, int]]) -> None:
    front = pareto(points)
    kept = [points[place] for place in front]
    assert kept
    assert kept == sorted(kept)
    for cost, gain in points:
        assert any(c <= cost and g >= gain for c, g in kept), "whatever is left out is beaten by one that is kept"


def test_accuracy_under_parallelism() -> None:
    assert accuracy_under_parallelism([]) == 0.0
    assert accuracy_under_parallelism([(2.0, 0.5)]) == 100.0
    assert accuracy_under_parallelism([(1.0, 0.8), (3.0, 0.8)]) == pytest.approx(80 + 160)
    dropped = accuracy_under_parallelism([(1.0, 0.8), (3.0, 0.7)])
    assert dropped == 80.0, "too far below the slowest one"
    lower = accuracy_under_parallelism([(1.0, 0.8), (3.0, 0.78)])
    assert 80 < lower < 80 + 160
    assert lower == pytest.approx(80 + (80 + 78 * math.exp(-3 * (1 - 0.78 / 0.8))))
    assert accuracy_under_parallelism([(1.0, 0.0), (2.0, 0.0)]) == 0.0


def test_what_has_no_answers_is_left_out() -> None:
    assert compare("m", "t", [({}, {}), ({"a": 1}, answers("1"))]) == []
    assert len(compare("m", "t", [({}, answers("1")), ({"a": 1}, {})])) == 1
