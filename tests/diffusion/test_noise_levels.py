"""Noise levels: every schedule begins at 0, ends at 1, and rises between."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gesso.diffusion.noise_levels import NoiseLevels, NoiseSchedule


@given(st.sampled_from(get_args(NoiseSchedule)), st.floats(1e-300, 100), st.floats(0, 1), st.floats(0, 1))
def test_alpha_rises_as_time_falls(schedule: NoiseSchedule, degree: float, one: float, other: float) -> None:
    levels = NoiseLevels(noise_schedule=schedule, noise_degree=degree)
    assert levels.alpha(0) == pytest.approx(1.0, abs=1e-12)
    assert levels.alpha(1) == 0.0
    early, late = max(one, other), min(one, other)
    assert 0 <= levels.alpha(early) <= levels.alpha(late) <= 1
    assert late == 0 or levels.alpha(late) < 1, "what is not clean yet may become so"
    assert 0 < levels.alpha_after(early) <= levels.alpha_after(late)
    assert early == 1 or levels.alpha(early) > 0, "ratios stay finite"


def test_known_values() -> None:
    def alpha(schedule: NoiseSchedule) -> float:
        return NoiseLevels(noise_schedule=schedule, noise_degree=2.0).alpha(0.5)

    assert alpha("linear") == 0.5
    assert alpha("cosine") == pytest.approx(0.5**0.5)
    assert alpha("square_cosine") == pytest.approx(0.5)
    assert alpha("polynomial") == 0.75
    assert alpha("geometric") == pytest.approx(0.9057, abs=1e-3)
