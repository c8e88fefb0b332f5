"""The training passes against the model's own `encode` and `denoise`, the loss against a slow one, and gradients."""

import dataclasses
import random

import pytest
import torch
from oracle import SHAPES, Shape, random_model, variant
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import varlen

from gesso.models.diffusion_gemma import DiffusionGemma, initialise
from gesso.nn import cross_entropy
from gesso.train import attention, forward, two_pass
from gesso.train.batch import Batch, Conversation, make_batch
from gesso.train.config import TrainConfig
from train.test_attention import plain_flat

EOS = 1
NAMES = ["plain", "two_full_kv_heads", "window_1", "window_2", "all_full", "biased", "six_heads_three_kv"]


def batch_of(
    shape: Shape, seed: int = 0, examples: int = 9, probability: float = 0.5, canvases_per_example: int = 1
) -> Batch:
    """Rows of very different lengths, so that every group of padding is met."""
    draw = random.Random(seed)

    def some(length: int) -> list[int]:
        return [draw.randrange(shape.vocab) for _ in range(length)]

    conversations = [
        Conversation(some(draw.choice((1, 2, 5, 20, 50))), some(draw.choice((1, 7, 30, 70)))) for _ in range(examples)
    ]
    return make_batch(
        conversations,
        TrainConfig(steps=1, self_conditioning_probability=probability),
        canvas_length=shape.canvas,
        vocab_size=shape.vocab,
        eos_token_id=EOS,
        generator=torch.Generator().manual_seed(seed),
        canvases_per_example=canvases_per_example,
    )


def one_canvas_each(batch: Batch, k: int) -> Batch:
    """The k-th canvas of every example, in a batch of its own."""
    picks = torch.arange(len(batch.lengths)) * batch.canvases_per_example + k
    names = ("starts_B", "canvas_BC", "noisy_BC", "self_conditioned_B")
    return dataclasses.replace(batch, canvases_per_example=1, **{n: getattr(batch, n)[picks] for n in names})


def trainable(shape: Shape, seed: int = 0) -> DiffusionGemma:
    return random_model(shape, seed).train().requires_grad_(True)


def slow_rows(model: DiffusionGemma, batch: Batch) -> list[tuple[Tensor, Tensor]]:
    """By the model's own inference, row by row: encoder hidden states and canvas logits."""
    rows = []
    for i, row in enumerate(batch.tokens_N.split(list(batch.lengths))):
        hidden = model.encode(row[None], model.new_cache(1))[0]
        cache = model.new_cache(1)
        model.encode(row[None, : int(batch.starts_B[i])], cache)
        canvas = batch.noisy_BC[i : i + 1]
        logits = model.denoise(canvas, cache)
        if batch.self_conditioned_B[i]:
            logits = model.denoise(canvas, cache, model.self_conditioning_embeddings(logits))
        rows.append((hidden, logits[0]))
    return rows


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [0, 1])
@torch.no_grad()
def test_the_passes_equal_those_of_inference(name: str, seed: int) -> None:
    shape = SHAPES[name]
    model = random_model(shape, seed)
    batch = batch_of(shape, seed, probability=0.0)
    encoded = forward.encode(model, batch)
    hidden = forward.denoise(model, batch.noisy_BC, batch.starts_B, encoded, None)
    logits = model.logits(hidden).view(*batch.noisy_BC.shape, -1)
    rows = slow_rows(model, batch)
    assert (encoded.hidden_ND - torch.cat([row[0] for row in rows])).abs().max() <= 5e-5
    assert (logits - torch.stack([row[1] for row in rows])).abs().max() <= 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_fused_kernels_of_a_gpu_take_the_place_of_probabilities(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = SHAPES[name]
    batch = batch_of(shape, 3)
    found = []
    for fused in (False, True):
        model = trainable(shape, 3)
        for module in (forward, attention):
            monkeypatch.setattr(module, "has_fused_kernel", lambda _, fused=fused: fused)
        loss = two_pass.losses(model, batch)
        (loss.denoiser + loss.encoder).backward()
        found.append([loss.denoiser, loss.encoder, *(p.grad for p in model.parameters() if p.grad is not None)])
    for masked, causal in zip(*found, strict=True):
        torch.testing.assert_close(causal, masked, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_the_causal_pass_alone_attends_in_rows_laid_flat(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = SHAPES[name]
    batch = batch_of(shape, 3)
    monkeypatch.setattr(varlen, "varlen_attn", plain_flat)
    monkeypatch.setattr(forward, "has_fused_kernel", lambda _: True)
    found = []
    for flat in (False, True):
        model = trainable(shape, 3)
        monkeypatch.setattr(forward, "takes_flat", lambda _, flat=flat: flat)
        loss = two_pass.losses(model, batch, denoiser=False)
        loss.encoder.backward()
        found.append([loss.encoder, *(p.grad for p in model.parameters() if p.grad is not None)])
        encoded = forward.encode(model, batch, for_canvases=False)
        assert any(map(len, encoded.keys)) != flat
    for padded, laid_flat in zip(*found, strict=True):
        torch.testing.assert_close(laid_flat, padded, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("probability", [0.0, 0.5, 1.0])
@torch.no_grad()
def test_the_loss_equals_a_slow_one(name: str, probability: float) -> None:
    """Every token of the canvas counts, corrupted or clean or EOS behind the answer; so does every answer token."""
    shape = SHAPES[name]
    model = random_model(shape, 3)
    batch = batch_of(shape, 4, probability=probability)
    assert bool((batch.canvas_BC == EOS).any())
    found = two_pass.losses(model, batch)
    denoiser, encoder = [], []
    targets = batch.targets_N.split(list(batch.lengths))
    for i, (hidden, logits) in enumerate(slow_rows(model, batch)):
        for place, token in enumerate(batch.canvas_BC[i].tolist()):
            denoiser.append(-logits[place].log_softmax(-1)[token])
        scores = model.logits(hidden)
        for place, token in enumerate(targets[i].tolist()):
            if token != -100:
                encoder.append(-scores[place].log_softmax(-1)[token])
    assert found.denoiser.item() == pytest.approx(torch.stack(denoiser).mean().item(), abs=1e-4)
    assert found.encoder.item() == pytest.approx(torch.stack(encoder).mean().item(), abs=1e-4)


@torch.no_grad()
def test_self_conditioning_of_some_rows_only() -> None:
    """Whole groups may be left out of the first pass, and the rest must keep their own caches."""
    shape = SHAPES["plain"]
    model = random_model(shape, 1)
    batch = batch_of(shape, 7, examples=8, probability=0.0)
    assert len({length.bit_length() for length in batch.lengths}) > 2
    for chosen in ([0], [0, 7], list(range(7))):
        batch.self_conditioned_B.zero_()[chosen] = True
        slow = torch.stack([logits for _, logits in slow_rows(model, batch)])
        expected = F.cross_entropy(slow.flatten(0, 1), batch.canvas_BC.flatten())
        assert two_pass.losses(model, batch).denoiser.item() == pytest.approx(expected.item(), abs=1e-4)


@torch.no_grad()
def test_a_canvas_sees_neither_itself_nor_what_follows() -> None:
    shape = SHAPES["plain"]
    model = random_model(shape, 2)
    batch = batch_of(shape, 5, examples=5)

    def hidden(batch: Batch) -> Tensor:
        encoded = forward.encode(model, batch)
        flat = forward.denoise(model, batch.noisy_BC, batch.starts_B, encoded, None)
        return flat.view(*batch.noisy_BC.shape, -1)

    before = hidden(batch)
    begin = 0
    for i, length in enumerate(batch.lengths):
        start = int(batch.starts_B[i])
        for place, seen in ((start, False), (length - 1, False), (start - 1, True)):
            tokens = batch.tokens_N.clone()
            tokens[begin + place] = (tokens[begin + place] + 1) % shape.vocab
            changed = hidden(Batch(**{**_fields(batch), "tokens_N": tokens}))
            moved = (changed - before).abs().amax(dim=(1, 2))
            assert bool(moved[i] > 1e-3) == seen
            others = [row for row in range(len(batch.lengths)) if row != i]
            assert moved[others].max() < 1e-4
        begin += length


def _fields(batch: Batch) -> dict[str, object]:
    return {name: getattr(batch, name) for name in batch.__slots__}


@torch.no_grad()
def test_padding_and_filling_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = SHAPES["plain"]
    model = random_model(shape, 2)
    batch = batch_of(shape, 6)
    first = two_pass.losses(model, batch)
    monkeypatch.setattr(forward, "ROW_MULTIPLE", 7)
    monkeypatch.setattr(forward, "SHORTEST", 1, raising=False)
    second = two_pass.losses(model, batch)
    assert first.denoiser.item() == pytest.approx(second.denoiser.item(), abs=1e-5)
    assert first.encoder.item() == pytest.approx(second.encoder.item(), abs=1e-5)


# Gradients ------------------------------------------------------------------------------------------------------


def test_the_denoisers_gradient_reaches_the_encoder_through_the_cache() -> None:
    model = trainable(SHAPES["plain"], 1)
    scalars = [block.encoder_scalar.requires_grad_(True) for _, _, block in model.blocks()]
    batch = batch_of(SHAPES["plain"], 2)
    found = torch.autograd.grad(two_pass.losses(model, batch).denoiser, scalars, allow_unused=True)
    # What the last layer puts out is read by nobody, and the one before it through a norm, which undoes a scale.
    assert len(found) == 4
    assert all(gradient is not None and bool(gradient.abs() > 1e-4) for gradient in found[:2])
    assert found[3] is None or not found[3].any()


def test_the_denoisers_gradient_is_that_of_finite_differences() -> None:
    """Along a random direction of all weights."""
    shape = variant(SHAPES["plain"], layers="sf", hidden=16, vocab=40, canvas=8, window=4)
    model = random_model(shape, 1)
    batch = batch_of(shape, 3, examples=4, probability=0.0)
    generator = torch.Generator().manual_seed(5)
    weights = dict(model.named_parameters())
    direction = {n: torch.randn(p.shape, generator=generator) for n, p in weights.items()}

    def both() -> Tensor:
        found = two_pass.losses(model, batch)
        return found.denoiser + 0.7 * found.encoder

    model.requires_grad_(True)
    gradients = torch.autograd.grad(both(), list(weights.values()))
    slope = sum(float((g * direction[n]).sum()) for n, g in zip(weights, gradients, strict=True))
    step, values = 3e-4, []
    with torch.no_grad():
        for sign in (1, -2):
            for name, parameter in weights.items():
                parameter.add_(direction[name], alpha=sign * step)
            values.append(both().item())
    assert (values[0] - values[1]) / (2 * step) == pytest.approx(slope, rel=0.03)


def test_no_gradient_flows_through_the_first_pass() -> None:
    """The gradient is that of the second pass with its self-conditioning as a constant."""
    shape = SHAPES["plain"]
    model = trainable(shape, 4)
    batch = batch_of(shape, 8, probability=1.0)
    weights = list(model.parameters())
    found = torch.autograd.grad(two_pass.losses(model, batch).denoiser, weights, allow_unused=True)
    soft = []
    for i, row in enumerate(batch.tokens_N.split(list(batch.lengths))):
        cache = model.new_cache(1)
        model.encode(row[None, : int(batch.starts_B[i])], cache)
        soft.append(model.self_conditioning_embeddings(model.denoise(batch.noisy_BC[i : i + 1], cache))[0])
    constant = torch.cat(soft).detach()
    hidden = forward.denoise(model, batch.noisy_BC, batch.starts_B, forward.encode(model, batch), constant)
    loss = F.cross_entropy(model.vocabulary.logits(hidden), batch.canvas_BC.flatten())
    expected = torch.autograd.grad(loss, weights, allow_unused=True)
    names = [name for name, _ in model.named_parameters()]
    for name, a, b in zip(names, found, expected, strict=True):
        assert a is not None, name
        assert b is not None, name
        assert (a - b).abs().max() <= 2e-3 * (1e-2 + b.abs().max()), name


def test_every_weight_is_trained() -> None:
    shape = SHAPES["biased"]
    model = trainable(shape, 4)
    batch = batch_of(shape, 8)
    found = two_pass.losses(model, batch)
    (found.denoiser + found.encoder).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.any()), name


def test_an_untrained_model_knows_nothing() -> None:
    """At its first step a fresh model is about as wrong as the uniform distribution, and the same every time."""
    shape = variant(SHAPES["plain"], hidden=64, vocab=100)
    model = DiffusionGemma(shape.config())
    initialise(model, 0)
    batch = batch_of(shape, 1, examples=16)
    found = two_pass.losses(model, batch)
    uniform = torch.log(torch.tensor(100.0)).item()
    assert 0.7 * uniform <= found.encoder.item() <= 1.5 * uniform
    assert 0.5 * uniform <= found.denoiser.item() <= 1.5 * uniform
    again = DiffusionGemma(shape.config())
    initialise(again, 0)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_autocast_stays_near() -> None:
    shape = SHAPES["wide_canvas"]
    model = trainable(shape, 5)
    batch = batch_of(shape, 9)
    exact = two_pass.losses(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        rough = two_pass.losses(model, batch)
    assert rough.denoiser.dtype == rough.encoder.dtype == torch.float32
    assert rough.denoiser.item() == pytest.approx(exact.denoiser.item(), rel=0.02)
    assert rough.encoder.item() == pytest.approx(exact.encoder.item(), rel=0.02)
    rough.denoiser.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("name", ["plain", "window_2", "biased"])
def test_several_canvases_of_an_example_are_that_many_batches(name: str) -> None:
    """Loss and gradient of three canvases an example are the mean of three batches of one each."""
    shape = SHAPES[name]
    batch = batch_of(shape, canvases_per_example=3)
    whole, parts = trainable(shape), trainable(shape)
    loss = two_pass.losses(whole, batch)
    (loss.denoiser + loss.encoder).backward()
    found = []
    for k in range(3):
        part = two_pass.losses(parts, one_canvas_each(batch, k))
        ((part.denoiser + part.encoder) / 3).backward()
        found.append(part.denoiser.item())
    assert loss.denoiser.item() == pytest.approx(sum(found) / 3, rel=1e-5)
    for (label, one), other in zip(whole.named_parameters(), parts.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-5, msg=label)


def gradients(model: DiffusionGemma, batch: Batch, **options: bool) -> tuple[float, float, list[Tensor]]:
    loss = two_pass.losses(model, batch, **options)
    model.zero_grad()
    (loss.denoiser + loss.encoder).backward()
    return loss.denoiser.item(), loss.encoder.item(), [p.grad for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("name", ["plain", "window_2", "biased"])
def test_checkpointing_changes_nothing(name: str) -> None:
    model, batch = trainable(SHAPES[name]), batch_of(SHAPES[name], canvases_per_example=2)
    plain, again = gradients(model, batch), gradients(model, batch, checkpointing=True)
    assert plain[:2] == again[:2]
    assert all(torch.equal(a, b) for a, b in zip(plain[2], again[2], strict=True))


def test_checkpointing_keeps_less() -> None:
    shape = SHAPES["twelve_layers"]
    model, batch = trainable(shape), batch_of(shape)
    kept = []
    for checkpointing in (False, True):
        sizes: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, sizes=sizes: sizes.append(t.nbytes) or t, lambda t: t):
            two_pass.losses(model, batch, checkpointing=checkpointing)
        kept.append(sum(sizes))
    assert kept[1] < 0.3 * kept[0]


def test_scoring_in_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = SHAPES["plain"]
    model, batch = trainable(shape), batch_of(shape)
    whole = gradients(model, batch)
    monkeypatch.setattr(two_pass, "LOGIT_BYTES", 4 * shape.vocab * 7)
    monkeypatch.setitem(cross_entropy.TRAINING_BYTES, "cpu", 4 * shape.vocab * 7)
    chunked = gradients(model, batch)
    assert chunked[:2] == pytest.approx(whole[:2], rel=1e-5)
    for one, other in zip(whole[2], chunked[2], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)


def test_the_encoders_loss_can_be_left_out() -> None:
    shape = SHAPES["plain"]
    model, batch = trainable(shape), batch_of(shape)
    found = two_pass.losses(model, batch, encoder=False)
    assert found.encoder.item() == 0
    assert found.denoiser.item() == two_pass.losses(model, batch).denoiser.item()


def test_the_canvases_can_be_left_out() -> None:
    shape = SHAPES["plain"]
    model, batch = trainable(shape), batch_of(shape)
    found = two_pass.losses(model, batch, denoiser=False)
    assert found.denoiser.item() == 0
    assert found.encoder.item() == two_pass.losses(model, batch).encoder.item()
    found.encoder.backward()
    alone = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    two_pass.losses(model, batch).encoder.backward()
    assert alone
    for name, parameter in model.named_parameters():
        assert (parameter.grad is None) == (name not in alone)
        if parameter.grad is not None:
            torch.testing.assert_close(alone[name], parameter.grad)
