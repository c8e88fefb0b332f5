"""A canvas that takes every step."""

import torch

from diffusion.reference import prediction, step_info
from gesso.diffusion.stopping.last_step import LastStep


def test_it_never_stops() -> None:
    rule = LastStep()
    state = rule.start(step_info(1, 4, 5, 7).canvas)
    for step in range(1, 5):
        sure = prediction(torch.eye(7)[:5] * 1e4)
        assert rule.should_stop(step_info(step, 4, 5, 7), sure, state) == (False, None)
    assert rule.for_every_step() == {}
