"""The bound of uniform noise, against what it must be where everything is known."""

import math

import pytest
import torch
from torch import Tensor

from gesso.diffusion.likelihood import bound_rate, stratified_times, without_own_token

PRIOR_K = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)


def posterior(held: int, alpha: float) -> Tensor:
    """log p(clean | held) of one position with this prior, which is what a denoiser learns."""
    kept_K = torch.full((3,), (1 - alpha) / 3, dtype=torch.float64)
    kept_K[held] += alpha
    return (PRIOR_K * kept_K).log()[None]


@pytest.mark.parametrize("alpha", [0.0, 1e-4, 0.3, 0.999])
def test_what_the_position_itself_holds_is_taken_out(alpha: float) -> None:
    """One position alone: without its own token there is only the prior left."""
    for held in range(3):
        found = without_own_token(posterior(held, alpha), torch.tensor([held]), alpha)
        assert torch.allclose(found.exp()[0], PRIOR_K, atol=1e-9)


def exact_bound(clean: int, prediction_K: Tensor, steps: int = 500) -> float:
    """The integral over time of the mean over noise, by the midpoint rule, for one position."""
    total = 0.0
    for step in range(steps):
        alpha = 1 - (step + 0.5) / steps
        rates = bound_rate(prediction_K.log().expand(3, 3), torch.arange(3), torch.full((3,), clean), alpha)
        chances = torch.full((3,), (1 - alpha) / 3, dtype=torch.float64)
        chances[clean] += alpha
        total += (chances * rates).sum().item() / steps
    return total


def test_the_bound_is_tight_for_a_denoiser_that_knows_the_prior() -> None:
    """-log p of each token, so that its mean is the entropy."""
    for clean in range(3):
        assert exact_bound(clean, PRIOR_K) == pytest.approx(-math.log(PRIOR_K[clean].item()), abs=2e-3)


def test_the_bound_is_the_cross_entropy_of_a_denoiser_with_another_prior() -> None:
    other_K = torch.tensor([0.2, 0.2, 0.6], dtype=torch.float64)
    for clean in range(3):
        assert exact_bound(clean, other_K) == pytest.approx(-math.log(other_K[clean].item()), abs=2e-3)


def test_it_is_what_the_sum_over_tokens_says() -> None:
    generator = torch.Generator().manual_seed(3)
    log_probs_RK = torch.randn(5, 7, generator=generator, dtype=torch.float64).log_softmax(dim=-1)
    held_R, clean_R = (torch.randint(7, (5,), generator=generator) for _ in range(2))
    alpha = 0.37
    found = bound_rate(log_probs_RK, held_R, clean_R, alpha)
    for row in range(5):
        m = 7 * alpha * log_probs_RK[row].exp() + 1 - alpha
        a = 7 * alpha * torch.nn.functional.one_hot(clean_R[row], 7).double() + 1 - alpha
        true, said = a / a[held_R[row]], m / m[held_R[row]]
        expected = (said - true + true * (true / said).log()).sum() / (7 * alpha)
        assert found[row].item() == pytest.approx(expected.item(), rel=1e-9)


def test_a_sure_prediction_costs_nothing() -> None:
    sure = torch.tensor([[0.0, -60.0, -60.0]], dtype=torch.float64).log_softmax(dim=-1)
    for held in range(3):
        rate = bound_rate(sure, torch.tensor([held]), torch.tensor([0]), 0.4)
        assert rate.item() == pytest.approx(0.0, abs=1e-9)


def test_times_are_one_in_each_part() -> None:
    times = stratified_times(16, torch.Generator().manual_seed(0))
    assert (times * 16).floor().tolist() == list(range(16))
