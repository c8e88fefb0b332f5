"""How often particles are drawn anew."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gesso.engine.resampling import systematic


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=12).filter(lambda w: sum(w) > 1e-3),
    st.floats(0, 1, exclude_max=True),
)
def test_systematic_draws_are_within_one_of_their_share(weights: list[float], uniform: float) -> None:
    shares = [weight / sum(weights) for weight in weights]
    counts = systematic(shares, uniform)
    assert sum(counts) == len(shares)
    for share, count in zip(shares, counts, strict=True):
        expected = share * len(shares)
        assert math.floor(expected - 1e-6) <= count <= math.ceil(expected + 1e-6)


def test_systematic_draws_are_unbiased() -> None:
    points = [(place + 0.5) / 1000 for place in range(1000)]
    drawn = [systematic([0.5, 0.2, 0.3], point) for point in points]
    assert [sum(part) / 3000 for part in zip(*drawn, strict=True)] == pytest.approx([0.5, 0.2, 0.3], abs=1e-3)
