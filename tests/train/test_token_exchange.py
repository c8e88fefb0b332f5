"""Tokens that go to other processes' experts and come back: the mixture, and its gradients, of one process."""

from pathlib import Path

import torch

from train.expert_runs import exchange, mixture
from train.forks import Job, run_forks

UNEVEN = [[0, 3], [4, 0], [0, 1], [2, 4], [1, 0], [3, 2]]
"""Choices of six tokens: every expert has some, none as many as another."""
FIRST_ONLY = [[0, 1], [1, 0], [0, 1], [1, 0]]
"""All tokens go to the first process; the others compute nothing, and still have gradients."""


def test_outputs_and_gradients_are_those_of_one_process(tmp_path: Path) -> None:
    """Three processes hold 2, 2 and 1 of five experts, and unlike numbers of tokens."""
    cases = {"uneven": (UNEVEN, [1, 3, 2]), "first": (FIRST_ONLY, [1, 1, 2])}
    jobs = list[Job]()
    for name, (choices, shares) in cases.items():
        (tmp_path / name).mkdir()
        jobs.append((3, exchange.__name__, [str(tmp_path / name), choices, shares]))
    run_forks(tmp_path / "meeting", "expert_runs", *jobs)
    for name, (choices, _) in cases.items():
        experts, x, weights, chosen = mixture(choices)
        mixed = experts(x.requires_grad_(), weights.requires_grad_(), chosen)
        mixed.square().sum().backward()
        ranks = [torch.load(tmp_path / name / f"{rank}.pt") for rank in range(3)]
        expected = {"mixed": mixed.detach(), "x": x.grad, "weights": weights.grad}
        expected |= {label: p.grad for label, p in experts.named_parameters()}
        for label, tensor in expected.items():
            found = torch.cat([rank[label] for rank in ranks])
            torch.testing.assert_close(found, tensor, rtol=1e-5, atol=1e-5, msg=f"{name}: {label}")
