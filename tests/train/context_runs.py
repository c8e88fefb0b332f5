"""What each process of a test of context parallelism does."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from oracle import SHAPES
from torch import Tensor

from gesso.train.batch import Batch
from gesso.train.context_parallel import ContextGroup
from gesso.train.recipe import Recipe
from gesso.train.self_generated import SelfGenerated
from gesso.train.two_pass import losses
from train import runs
from train.test_forward import batch_of, trainable

CASES: tuple[dict[str, Any], ...] = (
    {"shape": "plain", "canvases": 3, "images": True},
    {"shape": "window_2", "checkpointing": True, "drafts": True},
    {"shape": "window_1", "examples": 1, "encoder": False, "drafts": True},
)
"""Rows of 2 to 120 tokens, none of which divides; the last is one row."""


def make(start: str | None, **changes: Any) -> Recipe:
    """A recipe; with a `start`, of deltas over that checkpoint."""
    made: Recipe = runs.recipe(**changes) if start is None else runs.adapter_recipe(Path(start), **changes)
    return made


def train(out: str, start: str | None, changes: dict[str, Any], stop_at: int) -> None:
    """Some steps of a run."""
    runs.train(make(start, **changes), Path(out), device="cpu", stop_at=stop_at)


def batch_with(case: dict[str, Any]) -> tuple[Batch, list[Tensor]]:
    """A batch of a case, and embeddings of its images: one in every row that is long enough, across its pieces."""
    shape = SHAPES[case["shape"]]
    batch = batch_of(shape, 1, examples=case.get("examples", 7), canvases_per_example=case.get("canvases", 1))
    if case.get("drafts"):
        generator = torch.Generator().manual_seed(2)
        drafts = SelfGenerated.draw(batch.canvas_BC.shape, 0.9, 2, shape.vocab, generator)
        batch = dataclasses.replace(batch, self_generated=drafts)
    embeddings: list[Tensor] = []
    if case.get("images"):
        spans = [(SimpleNamespace(start=3, end=n - 2),) if n > 9 else () for n in batch.lengths]
        batch = dataclasses.replace(batch, images=spans)
        torch.manual_seed(4)
        embeddings = [torch.randn(s.end - s.start, shape.hidden).requires_grad_() for row in spans for s in row]
    return batch, embeddings


def measure(case: dict[str, Any], context: ContextGroup | None) -> tuple[list[Tensor], Tensor]:
    """Losses, and the gradients of their sum with respect to all weights and embeddings, one after the other."""
    model = trainable(SHAPES[case["shape"]])
    batch, embeddings = batch_with(case)
    options = {"checkpointing": case.get("checkpointing", False), "encoder": case.get("encoder", True)}
    found = losses(model, batch, embeddings, **options, uniform=True, context=context)
    (found.denoiser + 0.7 * found.encoder).backward()
    learned = [*model.parameters(), *embeddings]
    gradients = torch.cat([torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in learned])
    return [found.denoiser.detach(), found.encoder.detach()], gradients


def compare(cases: list[int]) -> None:
    """The parts' sums are what one process has, case by case."""
    context = ContextGroup(dist.get_rank(), dist.get_world_size(), dist.group.WORLD)
    for case in (CASES[number] for number in cases):
        parts, own = measure(case, context)
        for tensor in (*parts, own):
            dist.all_reduce(tensor)
        if context.rank:
            continue
        expected, gradients = measure(case, None)
        for part, whole in zip(parts, expected, strict=True):
            torch.testing.assert_close(part, whole, rtol=1e-5, atol=1e-6)
        most = gradients.abs().max().item()
        assert most > 0
        torch.testing.assert_close(own, gradients, rtol=0, atol=1e-5 * most, msg=str(case))
