import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffusion.reference import reference
from gesso.diffusion.schedules.linear import LinearSchedule


@given(
    t_min=st.floats(1e-3, 2),
    spread=st.floats(1e-3, 2),
    steps=st.integers(1, 64),
    data=st.data(),
)
def test_it_equals_the_references(t_min: float, spread: float, steps: int, data: st.DataObject) -> None:
    step = data.draw(st.integers(1, steps))
    peer = reference().LinearTemperatureScheduleLogitsProcessor(t_min, t_min + spread, steps)
    tempered = peer(None, torch.ones(1), cur_step=torch.tensor(step, dtype=torch.int32))
    ours = LinearSchedule(t_min, t_min + spread).temperature(step, steps)
    assert 1 / ours == pytest.approx(float(tempered), rel=1e-5)


def test_it_counts_down_from_t_max_and_does_not_reach_t_min() -> None:
    schedule = LinearSchedule(0.4, 0.8)
    temperatures = [schedule.temperature(step, 48) for step in range(48, 0, -1)]
    assert temperatures[0] == pytest.approx(0.8)
    assert temperatures[-1] == pytest.approx(0.4 + 0.4 / 48)
    assert temperatures == sorted(temperatures, reverse=True)
    assert LinearSchedule(0.5, 0.5).temperature(3, 7) == 0.5
