"""Canvases that the model drafts itself, against the same rounds gone through by hand with the model's inference."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import SHAPES, random_model
from torch import Tensor

from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.train import forward, two_pass
from gesso.train.batch import Batch
from gesso.train.self_generated import SelfGenerated
from train.test_forward import batch_of

ROUNDS = 3


def drafting(batch: Batch, vocab: int, probability: float = 0.7, seed: int = 6) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    drafts = SelfGenerated.draw(batch.canvas_BC.shape, probability, ROUNDS, vocab, generator)
    return dataclasses.replace(batch, self_generated=drafts)


def slow_draft(drafts: SelfGenerated, i: int, round_: int, logits_CV: Tensor) -> Tensor:
    """One round of canvas `i`, position by position."""
    share = logits_CV.double().softmax(-1)
    entropy = -(share * share.log()).sum(-1)
    accepted = int((entropy.argsort().argsort() < drafts.accepted_RB[round_, i] * (len(share) + 1)).sum())
    surest = entropy.argsort()[:accepted].tolist()
    canvas = drafts.noise_RBC[round_, i].clone()
    for place in surest:
        canvas[place] = int((share[place].cumsum(0) <= drafts.uniform_RBC[round_, i, place]).sum())
    return canvas


def slow_loss(model: DiffusionGemma, batch: Batch) -> float:
    drafts = batch.self_generated
    assert drafts is not None
    losses = []
    for i, row in enumerate(batch.tokens_N.split(list(batch.lengths))):
        cache = model.new_cache(1)
        model.encode(row[None, : int(batch.starts_B[i])], cache)
        canvas, soft = batch.noisy_BC[i : i + 1], None
        if batch.self_conditioned_B[i]:
            rounds = int(drafts.rounds_B[i])
            for round_ in range(max(1, rounds)):
                logits = model.denoise(canvas, cache, soft)
                soft = model.self_conditioning_embeddings(logits)
                if round_ < rounds:
                    canvas = slow_draft(drafts, i, round_, logits[0])[None]
        logits = model.denoise(canvas, cache, soft)[0]
        losses.append(-logits.log_softmax(-1).gather(1, batch.canvas_BC[i][:, None]))
    return torch.cat(losses).mean().item()


@pytest.mark.parametrize("name", ["plain", "window_2", "all_full", "six_heads_three_kv"])
@pytest.mark.parametrize("probability", [0.5, 1.0])
@torch.no_grad()
def test_the_loss_equals_a_slow_one(name: str, probability: float) -> None:
    shape = SHAPES[name]
    model = random_model(shape, 3)
    batch = drafting(batch_of(shape, 4, examples=14, probability=probability), shape.vocab)
    assert batch.self_generated is not None
    assert set(batch.self_generated.rounds_B[batch.self_conditioned_B].tolist()) >= {0, 1, ROUNDS}
    assert two_pass.losses(model, batch).denoiser.item() == pytest.approx(slow_loss(model, batch), abs=1e-4)


def test_nothing_changes_where_no_canvas_is_drafted() -> None:
    shape = SHAPES["plain"]
    model = random_model(shape, 1).train().requires_grad_(True)
    plain = batch_of(shape, 2)
    for batch in (drafting(plain, shape.vocab, probability=0.0), drafting(batch_of(shape, 2, probability=0.0), 9, 1.0)):
        expected = two_pass.losses(model, dataclasses.replace(batch, self_generated=None)).denoiser
        assert two_pass.losses(model, batch).denoiser.item() == pytest.approx(expected.item(), abs=1e-6)


def test_the_gradient_is_of_the_last_pass_alone() -> None:
    """As if the draft and its belief had been given: what made them gets none."""
    shape = SHAPES["plain"]
    model = random_model(shape, 1).train().requires_grad_(True)
    batch = drafting(batch_of(shape, 3, probability=1.0), shape.vocab, probability=1.0)
    two_pass.losses(model, batch).denoiser.backward()  # type: ignore[no-untyped-call]
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    encoded = forward.encode(model, batch)
    noisy_BC, self_conditioning_BCD = two_pass.first_passes(model, batch, encoded, uniform=False)
    assert not any(part.requires_grad for part in (noisy_BC, self_conditioning_BCD))
    hidden = forward.denoise(model, noisy_BC, batch.starts_B, encoded, self_conditioning_BCD.flatten(0, 1))
    model.vocabulary.cross_entropy(hidden, batch.canvas_BC.flatten()).backward()  # type: ignore[no-untyped-call]
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            assert torch.equal(parameter.grad, found[name]), name


def test_processes_that_share_layers_go_through_them_equally_often(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = SHAPES["plain"]
    model = random_model(shape, 1).train()
    passes: list[int] = []
    denoise = forward.denoise
    monkeypatch.setattr(two_pass, "denoise", lambda *a, **k: passes.append(1) or denoise(*a, **k))  # type: ignore[func-returns-value]
    for probability, seed in ((0.0, 1), (0.5, 2), (1.0, 3)):
        passes.clear()
        two_pass.losses(model, drafting(batch_of(shape, seed, probability=probability), shape.vocab), uniform=True)
        assert len(passes) == ROUNDS + 1


@given(st.integers(0, 1000), st.integers(1, 12))
def test_accepted_are_the_surest_and_the_rest_is_noise(seed: int, width: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    drafts = SelfGenerated.draw(torch.Size((4, width)), 0.8, 2, 50, generator)
    noisy, sample = torch.full((4, width), 100), torch.full((4, width), 200)
    entropy = torch.rand(4, width, generator=generator)
    canvas = drafts.canvas(1, noisy, sample, entropy)
    for i in range(4):
        if drafts.rounds_B[i] <= 1:
            assert canvas[i].tolist() == [100] * width
            continue
        accepted = canvas[i] == 200
        assert torch.equal(canvas[i][~accepted], drafts.noise_RBC[1, i][~accepted])
        assert accepted.sum() == min(width, -(-drafts.accepted_RB[1, i] * (width + 1) // 1))
        if 0 < accepted.sum() < width:
            assert entropy[i][accepted].max() <= entropy[i][~accepted].min()
    assert (drafts.accepted_RB[0] <= drafts.accepted_RB[1]).all()


def test_draws_are_as_asked() -> None:
    drafts = SelfGenerated.draw(torch.Size((4000, 2)), 0.6, ROUNDS, 50, torch.Generator().manual_seed(1))
    shares = [(drafts.rounds_B == rounds).double().mean().item() for rounds in range(ROUNDS + 1)]
    assert shares == pytest.approx([0.4, 0.2, 0.2, 0.2], abs=0.03)
    assert (int(drafts.noise_RBC.min()), int(drafts.noise_RBC.max())) == (0, 49)
    picked = drafts.rows(torch.tensor([7, 3]))
    assert torch.equal(picked.uniform_RBC, drafts.uniform_RBC[:, [7, 3]])
    assert picked.most == ROUNDS
