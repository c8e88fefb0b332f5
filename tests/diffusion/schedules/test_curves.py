"""Temperature schedules: all fall from the highest to the lowest temperature, each along its curve."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gesso.diffusion.schedules import SCHEDULES
from gesso.diffusion.schedules.temperature_range import COLDEST
from gesso.errors import OptionError
from gesso.generation import GenerationConfig


@given(st.sampled_from(SCHEDULES.names), st.floats(0.01, 1), st.floats(1, 3), st.integers(1, 60))
def test_temperatures_fall_from_the_highest(name: str, t_min: float, t_max: float, steps: int) -> None:
    schedule = SCHEDULES.make(name, None, {"t_min": t_min, "t_max": t_max})
    heats = [schedule.temperature(step, steps) for step in range(steps, 0, -1)]
    assert heats[0] == pytest.approx(t_max)
    assert all(one >= other - 1e-9 for one, other in pairwise(heats))
    assert all(t_min - 1e-9 <= heat <= t_max + 1e-9 for heat in heats)


def test_known_values() -> None:
    half = {
        "linear": 0.6, "cosine": 0.4 + 0.4 * (1 - 0.5**0.5), "square_cosine": 0.6, "polynomial": 0.5,
        "geometric": (0.4 * 0.8) ** 0.5,
    }  # fmt: skip
    assert set(half) == set(SCHEDULES.names)
    for name, heat in half.items():
        assert SCHEDULES.make(name, None, {}).temperature(3, 6) == pytest.approx(heat)


def test_a_curve_that_reaches_zero_stays_above_it() -> None:
    for name in ("cosine", "square_cosine", "polynomial"):
        heats = [SCHEDULES.make(name, None, {"t_min": 0.0}).temperature(step, 10_000) for step in (1, 2)]
        assert all(heat >= COLDEST for heat in heats)


@pytest.mark.parametrize("name", SCHEDULES.names)
def test_no_temperature_is_too_low_to_divide_by(name: str) -> None:
    schedule = SCHEDULES.make(name, None, {"t_min": 1e-40, "t_max": 1e-37})
    heats = torch.tensor([schedule.temperature(step, 3) for step in (3, 2, 1)])
    assert torch.isfinite(1 / heats).all()
    assert torch.isfinite(1e6 / heats).all()  # more than any logit


def test_the_published_schedule_is_as_cold_as_it_is_told_to_be() -> None:
    for name in ("linear", "geometric"):
        assert SCHEDULES.make(name, None, {"t_min": 1e-6, "t_max": 1e-6}).temperature(3, 6) == pytest.approx(1e-6)


def test_impossible_ranges_are_refused() -> None:
    for name in SCHEDULES.names:
        with pytest.raises(OptionError, match="t_max must be at least t_min"):
            GenerationConfig(schedule=name, t_min=0.9, t_max=0.5)
    with pytest.raises(OptionError, match="t_min must be above 0 for the schedule geometric") as refusal:
        GenerationConfig(schedule="geometric", t_min=0)
    assert refusal.value.option == "t_min"
