"""The sums of steps between two records."""

import pytest
import torch

from gesso.train.running_means import RunningMeans


def test_means_and_pace_are_those_of_the_steps_since_the_last_record() -> None:
    means = RunningMeans()
    assert not means
    means.add(torch.tensor([1.0, 2.0]), 30, 0.5, 0.0, 1.0)
    means.add(torch.tensor([3.0, 4.0]), 30, 0.25, 5.0, 7.0)
    assert means
    taken, pace = means.take()
    assert taken == [2.0]
    assert pace == {"learning_rate": 0.25, "gradient_norm": 3.0, "tokens_per_second": 20.0, "seconds": 7.0}
    assert not means
    means.add(torch.tensor([5.0, 6.0]), 10, 0.1, 7.0, 9.0)
    taken, pace = means.take()
    assert (taken, pace["gradient_norm"], pace["tokens_per_second"]) == ([5.0], 6.0, 5.0)


def test_steps_that_take_no_time_on_a_coarse_clock_have_a_pace() -> None:
    means = RunningMeans()
    means.add(torch.tensor([1.0, 2.0]), 30, 0.5, 3.0, 3.0)
    assert means.take()[1]["tokens_per_second"] == pytest.approx(3e10)
