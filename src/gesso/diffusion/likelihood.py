"""Bounds the likelihood of a canvas under uniform noise, from what a denoiser predicts of noisy copies of it.

The corruption keeps a token with probability alpha(t) = 1 - t and puts a uniform one of K tokens in its place
otherwise. Run backwards it is a jump process, whose rates a denoiser gives; the negative log-likelihood is at most the
integral over t of the rate at which its paths differ from the true ones (continuous-time bound of UDLM, arXiv
2412.10193). With a_j = K alpha [j = x] + 1 - alpha for the clean token x, and m_j = K alpha p_j + 1 - alpha for the
prediction p, a position that holds token i at time t adds

    1 / (K alpha) * sum over j of ( m_j / m_i - a_j / a_i + a_j / a_i * log((a_j / a_i) / (m_j / m_i)) )

which is 0 where p is sure of x and above 0 otherwise. The bound is tight for p that does not know the token which the
position itself holds, while a denoiser that is trained by cross-entropy does. What it says of that token is therefore
taken out first: its logit is lowered by log(1 + K alpha / (1 - alpha)) (arXiv 2605.22765).

    R positions   K tokens of the vocabulary
"""

import math

import torch
from torch import Tensor

from gesso.nn.fp64 import to_fp64


def without_own_token(logits_RK: Tensor, tokens_R: Tensor, alpha: float) -> Tensor:
    """Returns log-probabilities given all positions but the own one, fp64 [R, K].

    Args:
        logits_RK: of the clean token given all positions.
        tokens_R: what the positions hold.
        alpha: probability that a position was kept, in [0, 1).
    """
    return lower_own_token(logits_RK, tokens_R, alpha).log_softmax(dim=-1)


def lower_own_token(logits_RK: Tensor, tokens_R: Tensor, alpha: float) -> Tensor:
    """Lowers the logit of the token that each position itself holds by log(1 + K alpha / (1 - alpha)), fp64 [R, K], on
    the CPU where the device has no fp64.

    Args:
        logits_RK, tokens_R, alpha: of `without_own_token`.
    """
    seen = -math.log1p(logits_RK.shape[1] * alpha / (1 - alpha))
    exact_RK = to_fp64(logits_RK)
    seen_R1 = torch.full((len(tokens_R), 1), seen, dtype=torch.float64, device=exact_RK.device)
    return exact_RK.scatter_add(1, tokens_R[:, None].to(exact_RK.device), seen_R1)


def bound_rate(log_probs_RK: Tensor, tokens_R: Tensor, clean_R: Tensor, alpha: float) -> Tensor:
    """Returns what each position adds to the bound at one time, in nats per unit of time, fp64 [R].

    Args:
        log_probs_RK: of the clean token, given all positions but the own one.
        tokens_R: what the positions hold.
        clean_R: what they should hold.
        alpha: probability that a position was kept, in (0, 1).
    """
    vocab, rest = log_probs_RK.shape[1], 1 - alpha
    whole = vocab * alpha + rest
    log_p_RK = to_fp64(log_probs_RK)
    tokens_R, clean_R = tokens_R.to(log_p_RK.device), clean_R.to(log_p_RK.device)
    log_m_RK = torch.logaddexp(log_p_RK + math.log(vocab * alpha), torch.full_like(log_p_RK, math.log(rest)))
    log_own_R = log_m_RK.gather(1, tokens_R[:, None])[:, 0]
    log_clean_R = log_m_RK.gather(1, clean_R[:, None])[:, 0]
    kept_R = tokens_R == clean_R
    own_R = kept_R.double() * (whole - rest) + rest
    # Sums over j: m sums to K, as a does, which has one value for the clean token and another for all the rest.
    entropy_R = (whole * math.log(whole) + (vocab - 1) * rest * math.log(rest)) / own_R - vocab / own_R * own_R.log()
    cross_R = (rest * (log_m_RK.sum(dim=-1) - log_clean_R) + whole * log_clean_R) / own_R - vocab / own_R * log_own_R
    gap_R = vocab * (-log_own_R).exp() - vocab / own_R + entropy_R - cross_R
    return gap_R.clamp(min=0) / (vocab * alpha)


def stratified_times(samples: int, generator: torch.Generator) -> Tensor:
    """Draws times in (0, 1), one in each of `samples` equal parts, fp64; their order is theirs."""
    offset = torch.rand(samples, generator=generator, dtype=torch.float64)
    times = (torch.arange(samples) + offset) / samples
    return times.clamp(1e-6, 1 - 1e-6)
