"""Intervals of shares, ratios and means."""

from random import Random

import pytest

from gesso.train.intervals import mean_interval, ratio_interval, wilson_interval


def test_wilson_intervals() -> None:
    assert wilson_interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson_interval(0, 10) == pytest.approx((0, 0.2775), abs=1e-4)


def test_ratio_intervals() -> None:
    rng = Random(0)
    values = [rng.gauss(10, 2) for _ in range(400)]
    low, high = ratio_interval(values, [1] * 400)
    assert (low + high) / 2 == pytest.approx(sum(values) / 400, abs=0.03)
    assert high - low == pytest.approx(2 * 1.96 * 2 / 20, rel=0.15)
    assert ratio_interval(values, [1] * 400) == (low, high)
    assert ratio_interval([3, 3], [4, 4]) == (0.75, 0.75)
    # Examples are drawn whole, however much each holds.
    low, high = ratio_interval([0, 90], [10, 90])
    assert (low, high) == (0, 1)


def test_the_interval_of_a_mean() -> None:
    assert mean_interval([3.0] * 9) == (3.0, 3.0)
    low, high = mean_interval([0.0, 10.0] * 50)
    assert 3.5 < low < 5 < high < 6.5
