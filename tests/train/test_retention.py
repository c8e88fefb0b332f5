"""Learning with a teacher beside it: the loss is its formula, and what is retained stays while the rest is learned."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import random_model
from torch.nn import functional as F

from gesso.errors import OptionError
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import load_folder
from gesso.models.saving import save_folder
from gesso.train.batch import IGNORED, Batch, Conversation, make_batch
from gesso.train.config import TrainConfig
from gesso.train.distributed import ProcessGroup
from gesso.train.encoder_rows import TokenRows
from gesso.train.forward import encode
from gesso.train.identity import identity_of
from gesso.train.recipe import Recipe
from gesso.train.recipes.skills import skill_data
from gesso.train.reinforce.config import PolicyConfig
from gesso.train.retention import RetentionLoss
from gesso.train.skill_data import Mixture
from train.runs import SHAPE, Fixed, losses_of, recipe, train

ALONE = ProcessGroup(rank=0, size=1, device=torch.device("cpu"))


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("teacher")
    save_folder(random_model(SHAPE, seed=3), folder)
    return folder


def batch_of(retained: list[bool]) -> Batch:
    rows = Fixed(len(retained)).conversations
    marked = [dataclasses.replace(row, retained=kept) for row, kept in zip(rows, retained, strict=True)]
    made = make_batch(
        marked,
        TrainConfig(steps=1, self_conditioning_probability=0.0),
        canvas_length=32,
        vocab_size=SHAPE.vocab,
        eos_token_id=1,
        generator=torch.Generator().manual_seed(0),
    )
    return dataclasses.replace(made, causal=True)


def loss_of(teacher: Path, model: DiffusionGemma, batch: Batch) -> torch.Tensor:
    module = RetentionLoss(teacher, model, recipe(causal_steps=12).train, ALONE).train()
    denoiser, encoder = module(batch)
    assert denoiser == 0
    return encoder


def test_flags_follow_their_examples_into_the_batch_and_its_parts() -> None:
    retained = [True, False, False, True, False]
    batch = batch_of(retained)
    rows = dict(zip((tuple(row.prompt) for row in Fixed(5).conversations), retained, strict=True))
    for part in (batch, *batch.split(2)):
        for tokens, kept in zip(part.tokens_N.split(part.lengths), part.retained, strict=True):
            assert rows[tuple(tokens[:4].tolist())] == kept
    assert batch_of([False, False]).retained == ()


def test_the_loss_is_divergence_where_retained_and_cross_entropy_elsewhere(teacher: Path) -> None:
    """By hand, each example alone."""
    student, said_by = random_model(SHAPE, seed=4), random_model(SHAPE, seed=3)
    batch = batch_of([True, False, True, False])
    total, tokens = 0.0, 0
    parts = zip(batch.tokens_N.split(batch.lengths), batch.targets_N.split(batch.lengths), batch.retained, strict=True)
    for row, targets, kept in parts:
        inside = targets != IGNORED
        alone = TokenRows(row, (len(row),))
        with torch.no_grad():
            mine, its = (
                model.vocabulary.logits(encode(model, alone).hidden_ND[inside]).log_softmax(-1)
                for model in (student, said_by)
            )
        if kept:
            total += F.kl_div(mine, its, reduction="sum", log_target=True).item()
        else:
            total += F.nll_loss(mine, targets[inside], reduction="sum").item()
        tokens += int(inside.sum())
    assert loss_of(teacher, student, batch).item() == pytest.approx(total / tokens, rel=1e-4)


def test_a_student_that_is_its_teacher_has_no_gradient_from_what_is_retained(teacher: Path) -> None:
    student = random_model(SHAPE, seed=3).requires_grad_(True)
    loss = loss_of(teacher, student, batch_of([True] * 4))
    loss.backward()  # type: ignore[no-untyped-call]
    assert abs(loss.item()) < 1e-6
    assert max(p.grad.abs().max().item() for p in student.parameters() if p.grad is not None) < 1e-5
    other = random_model(SHAPE, seed=3).requires_grad_(True)
    loss_of(teacher, other, batch_of([True, False, True, True])).backward()  # type: ignore[no-untyped-call]
    assert max(p.grad.abs().max().item() for p in other.parameters() if p.grad is not None) > 1e-3


class Marked(Fixed):
    """All examples, of which half are retained."""

    fingerprint = "marked"

    def batch(self, step: int, size: int, *_: Any) -> list[Conversation]:
        rows = super().batch(step, size)
        return [dataclasses.replace(row, retained=row.prompt[0] % 2 == 0) for row in rows]


def run(teacher: Path, **changes: Any) -> Recipe:
    tiny = recipe(causal_steps=40, steps=40, learning_rate=3e-3)
    return dataclasses.replace(tiny, start=teacher, teacher=teacher, data=Marked(), **changes)


def test_a_run_learns_the_rest_and_keeps_what_is_retained(teacher: Path, tmp_path: Path) -> None:
    """Beside the same run without a teacher, for which every answer is to be learned."""
    folder = train(run(teacher), tmp_path / "run")
    alone = train(dataclasses.replace(run(teacher), teacher=None), tmp_path / "alone")
    before, after, other = (load(path) for path in (teacher, folder, alone))
    new, kept = batch_of([False] * 8), batch_of([True] * 8)
    odd = [row.prompt[0] % 2 == 1 for row in Fixed(8).conversations]
    assert any(odd)
    assert loss_of(teacher, after, new) < 0.8 * loss_of(teacher, before, new)
    assert loss_of(teacher, after, kept) < 0.7 * loss_of(teacher, other, kept)
    assert losses_of(tmp_path / "run")


def load(folder: Path) -> DiffusionGemma:
    return load_folder(folder, "cpu", "float32")


def test_another_teacher_is_another_run(teacher: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    save_folder(random_model(SHAPE, seed=9), other)
    assert identity_of(run(teacher)) != identity_of(dataclasses.replace(run(teacher), teacher=other))
    assert "teacher" not in identity_of(dataclasses.replace(run(teacher), teacher=None))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": recipe(causal_steps=3).train}, "causal_steps must be all steps"),
        ({"train": recipe(causal_steps=12, context_parallel=2).train}, "context_parallel must be 1"),
        ({"distill": 0.2}, "no policy, distill or vision"),
        ({"vision": "frozen"}, "no policy, distill or vision"),
        ({"policy": PolicyConfig()}, "no policy, distill or vision"),
    ],
)
def test_contradictions_are_refused(teacher: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        dataclasses.replace(run(teacher), **changes)


def test_skills_say_which_of_them_are_retained() -> None:
    mixture = Mixture(0, {"sorting": 1.0, "ranges": 1.0})
    plain, marked = (skill_data((mixture,), seed=1, retained=names) for names in ((), ("ranges",)))
    rows = marked.batch(0, 40, None)
    assert plain.fingerprint != marked.fingerprint
    assert 5 < sum(row.retained for row in rows) < 35
    assert [row.prompt for row in rows] == [row.prompt for row in plain.batch(0, 40, None)]
    assert not any(row.retained for row in plain.batch(0, 40, None))
