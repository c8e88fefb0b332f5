"""The fused pass over the vocabulary against the plain computation, which holds all logits, in fp64."""

import copy
from dataclasses import dataclass

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from gesso.kernels import BLOCK
from gesso.nn import cross_entropy, vocabulary
from gesso.nn.quant.base import Format
from gesso.nn.quant.integer import Int8
from gesso.nn.quant.vocabulary import QuantizedVocabulary
from gesso.nn.vocabulary import TableSlice, Vocabulary, VocabularyPass

pytestmark = pytest.mark.numbers

JUST_BELOW_ONE = 1.0 - 2.0**-24


@dataclass(frozen=True)
class Case:
    """Sizes and seed of one drawn problem."""

    rows: int
    vocab: int
    width: int
    chunk: int
    rows_at_once: int
    temperatures: tuple[float, ...]
    sharpness: float
    seed: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rows = draw(st.integers(1, 9))
    vocab = draw(st.integers(1, 700) | st.sampled_from([BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK, 1]))
    temperature = st.sampled_from([1e-4, 1e-3, 0.01, 0.4, 0.8, 1.0, 3.0])
    return Case(
        rows=rows,
        vocab=vocab,
        width=draw(st.integers(1, 24)),
        chunk=draw(st.sampled_from([BLOCK, 2 * BLOCK, 2048])),
        rows_at_once=draw(st.sampled_from([1, 2, 256])),
        temperatures=tuple(draw(st.lists(temperature, min_size=rows, max_size=rows))),
        sharpness=draw(st.sampled_from([0.05, 0.3, 1.5])),
        seed=draw(st.integers(0, 2**20)),
    )


def problem(case: Case, dtype: torch.dtype = torch.float32) -> tuple[Vocabulary, Tensor, Tensor]:
    """The table, hidden states [N, D] and the fp64 logits divided by the temperatures [N, V]."""
    generator = torch.Generator().manual_seed(case.seed)
    table = Vocabulary(case.vocab, case.width, 30.0)
    with torch.no_grad():
        table.weight.copy_(case.sharpness * torch.randn(case.vocab, case.width, generator=generator))
    table = table.to(dtype).requires_grad_(False)
    hidden = torch.randn(case.rows, case.width, generator=generator).to(dtype)
    scores = 30.0 * torch.tanh(hidden.double() @ table.weight.double().T / 30.0)
    return table, hidden, scores / torch.tensor(case.temperatures, dtype=torch.float64)[:, None]


def predict(case: Case, table: Vocabulary, hidden: Tensor, uniform: Tensor) -> VocabularyPass:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "CPU_CHUNK", case.chunk)
        patch.setattr(vocabulary, "ROWS", case.rows_at_once)
        return table.predict(hidden, torch.tensor(case.temperatures), uniform)


def slack(case: Case) -> Tensor:
    """How far fp32 scores, divided by each row's temperature, may be off, [N]."""
    return 2e-5 + 4e-6 * (1 + case.sharpness * case.width) / torch.tensor(case.temperatures, dtype=torch.float64)


@given(cases())
def test_statistics_are_those_of_the_plain_softmax(case: Case) -> None:
    table, hidden, z = problem(case)
    found = predict(case, table, hidden, torch.rand(case.rows))
    off = slack(case)
    best = z.amax(dim=-1)
    assert bool((best - z.gather(1, found.argmax_N[:, None])[:, 0] <= off).all())
    p = z.softmax(dim=-1)
    entropy = -(p * z.log_softmax(dim=-1)).sum(dim=-1)
    assert bool(((found.entropy_N - entropy).abs() <= 20 * off * (1 + entropy)).all())
    assert bool((found.entropy_N > -1e-4).all())
    normaliser = z.logsumexp(dim=-1)
    assert bool(((found.normaliser_N - normaliser).abs() <= off + 1e-6 * normaliser.abs()).all())
    mixed = (p @ table.weight.double()) * case.width**0.5
    assert bool(((found.embedding_ND - mixed).abs().amax(dim=-1) <= 100 * off * case.sharpness + 1e-4).all())
    for field in (found.entropy_N, found.normaliser_N, found.embedding_ND):
        assert bool(torch.isfinite(field).all())


@given(
    cases(),
    st.sampled_from([0.0, 1e-7, 0.25, 0.5, 0.999, JUST_BELOW_ONE, 1.0]) | st.floats(0, JUST_BELOW_ONE, width=32),
)
@example(Case(1, 1, 1, 64, 256, (1.0,), 0.3, 0), JUST_BELOW_ONE)
def test_the_sample_is_the_inverse_distribution_function(case: Case, uniform: float) -> None:
    table, hidden, z = problem(case)
    sample = predict(case, table, hidden, torch.full((case.rows,), uniform)).sample_N
    assert sample.dtype == torch.int64
    assert bool(((sample >= 0) & (sample < case.vocab)).all())
    cumulative = z.softmax(dim=-1).cumsum(dim=-1)
    above = cumulative.gather(1, sample[:, None])[:, 0]
    below = above - z.softmax(dim=-1).gather(1, sample[:, None])[:, 0]
    off = 20 * slack(case)
    assert bool((below <= uniform + off).all())
    assert bool((above >= uniform - off).all())


@pytest.mark.parametrize("temperature", [1e-4, 0.005, 0.05, 0.4])
@pytest.mark.parametrize("uniform", [0.0, 1e-6, 0.5, 0.97, 1 - 2.0**-20, JUST_BELOW_ONE])
def test_an_impossible_token_is_never_drawn(temperature: float, uniform: float) -> None:
    """However cold, and however close to the end of a block's mass the number falls."""
    rows = 400
    case = Case(rows, 300, 512, 128, 256, (temperature,) * rows, 0.1, 0)
    table, hidden, z = problem(case)
    sample = predict(case, table, hidden, torch.full((rows,), uniform)).sample_N
    behind = z.amax(dim=-1) - z.gather(1, sample[:, None])[:, 0]
    assert behind.max() <= 40, "e**-40 is far below what a number of 24 bits can ask for"


@given(cases(), st.integers(0, 99))
def test_chunks_change_no_result(case: Case, seed: int) -> None:
    table, hidden, _ = problem(case)
    uniform = torch.rand(case.rows, generator=torch.Generator().manual_seed(seed))
    found = predict(case, table, hidden, uniform)
    whole = table.predict(hidden, torch.tensor(case.temperatures), uniform)
    off = 20 * slack(case).float()
    assert bool(((found.entropy_N - whole.entropy_N).abs() <= off * (1 + whole.entropy_N)).all())
    assert bool(((found.normaliser_N - whole.normaliser_N).abs() <= off + 1e-6 * whole.normaliser_N.abs()).all())


def test_rows_do_not_depend_on_their_neighbours() -> None:
    case = Case(8, 300, 16, 128, 256, (0.4, 0.8) * 4, 0.3, 3)
    table, hidden, _ = problem(case)
    uniform = torch.rand(8, generator=torch.Generator().manual_seed(1))
    together = predict(case, table, hidden, uniform)
    for row in range(8):
        alone = table.predict(hidden[row : row + 1], torch.tensor(case.temperatures[row : row + 1]), uniform[row, None])
        assert together.sample_N[row] == alone.sample_N[0]
        assert together.argmax_N[row] == alone.argmax_N[0]
        assert abs(together.entropy_N[row] - alone.entropy_N[0]) <= 1e-4


@pytest.mark.parametrize("vocab", [1811, 2048, 2100])
def test_nor_do_their_last_bits(vocab: int) -> None:
    """Also where the vocabulary is no multiple of anything: `mini` has 1,811 tokens."""
    generator = torch.Generator().manual_seed(2)
    table = Vocabulary(vocab, 64, 30.0).requires_grad_(False)
    table.weight.copy_(0.1 * torch.randn(vocab, 64, generator=generator))
    hidden, uniform = torch.randn(240, 64, generator=generator), torch.rand(240, generator=generator)
    together = table.predict(hidden, torch.full((240,), 0.6), uniform)
    for count in (1, 4, 7, 16, 17, 31, 33, 64, 80, 96):  # at 96 it showed, with two threads
        alone = table.predict(hidden[:count], torch.full((count,), 0.6), uniform[:count])
        for name in ("sample_N", "argmax_N", "entropy_N", "normaliser_N", "embedding_ND"):
            assert torch.equal(getattr(alone, name), getattr(together, name)[:count]), (count, name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_samples_have_the_right_frequencies(dtype: torch.dtype) -> None:
    """Evenly spaced numbers in [0, 1) hit every token as often as it is likely."""
    case = Case(1, 150, 16, 128, 256, (0.7,), 0.5, 5)
    table, hidden, z = problem(case, dtype)
    draws = 4096
    uniform = (torch.arange(draws) + 0.5) / draws
    found = table.predict(hidden.expand(draws, -1), torch.full((draws,), 0.7), uniform)
    frequency = found.sample_N.bincount(minlength=case.vocab) / draws
    wrong = 0.5 * (frequency - z.softmax(dim=-1)[0]).abs().sum()
    assert wrong <= (0.015 if dtype == torch.float32 else 0.08)


def test_bfloat16_stays_near() -> None:
    case = Case(6, 500, 32, 128, 4, (0.4, 0.6, 0.8, 1.0, 0.4, 0.8), 0.3, 8)
    table, hidden, z = problem(case, torch.bfloat16)
    found = predict(case, table, hidden, torch.rand(6))
    p = z.softmax(dim=-1)
    entropy = -(p * z.log_softmax(dim=-1)).sum(dim=-1)
    assert found.embedding_ND.dtype == torch.bfloat16
    assert found.entropy_N.dtype == torch.float32
    assert bool(((found.entropy_N - entropy).abs() <= 0.05).all())
    mixed = (p @ table.weight.double()) * 32**0.5
    assert bool(((found.embedding_ND.double() - mixed).abs() <= 0.05).all())


@given(cases(), st.integers(0, 99))
def test_the_embedding_may_be_left_out(case: Case, seed: int) -> None:
    table, hidden, _ = problem(case)
    uniform = torch.rand(case.rows, generator=torch.Generator().manual_seed(seed))
    whole, less = (table.predict(hidden, torch.tensor(case.temperatures), uniform, mix=mix) for mix in (True, False))
    assert less.embedding_ND.shape == (case.rows, 0)
    for name in ("sample_N", "argmax_N", "entropy_N", "normaliser_N"):
        assert torch.equal(getattr(whole, name), getattr(less, name))


@given(cases())
def test_the_parts_agree_with_each_other(case: Case) -> None:
    table, hidden, z = problem(case)
    temperature = torch.tensor(case.temperatures)[:, None]
    logits = table.logits(hidden)
    assert logits.dtype == torch.float32
    assert bool((logits.abs() <= 30.0).all())
    assert bool(((logits / temperature - z).abs().amax(dim=-1) <= slack(case)).all())
    mixed = predict(case, table, hidden, torch.zeros(case.rows)).embedding_ND
    gap = (table.mix(logits / temperature) - mixed).abs().amax(dim=-1)
    assert bool((gap <= 100 * slack(case) * case.sharpness + 1e-4).all())


@pytest.mark.parametrize("form", [None, Int8()], ids=str)
def test_denormal_numbers_are_not_mixed(form: Format | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a trained model makes of a low temperature: most of the vocabulary is 87 to 103 nats below the best."""
    table = Vocabulary(300, 32, softcap=30.0).requires_grad_(False)
    table.weight.copy_(torch.randn(300, 32, generator=torch.Generator().manual_seed(0)) / 10)
    table.weight[:, 0] = 1.0
    hidden_ND = table.weight[:2] * 30
    hidden_ND[:, 0] = -10.0
    if form is not None:
        packed = QuantizedVocabulary.like(table, form)
        for part, value in zip(packed.parts, form.quantize(table.weight), strict=True):
            part.copy_(value)
        table = packed
    weights: list[Tensor] = []
    kind = type(table.slice(0, 1))
    mix = kind.mix

    def spied(table: TableSlice, weights_Nn: Tensor) -> Tensor:
        weights.append(weights_Nn.clone())
        return mix(table, weights_Nn)

    monkeypatch.setattr(kind, "mix", spied)
    temperature_N = torch.full((2,), 0.11)
    found = table.predict(hidden_ND, temperature_N, torch.full((2,), 0.5))
    p_NV = torch.cat(weights, dim=1)
    tempered_NV = table.logits(hidden_ND).double() / 0.11
    below_NV = tempered_NV - tempered_NV.amax(dim=-1, keepdim=True)
    assert ((below_NV < -87.4) & (below_NV > -103)).sum() > 20
    assert not ((p_NV > 0) & (p_NV < 1e-30)).any()
    torch.testing.assert_close(found.normaliser_N, tempered_NV.logsumexp(dim=-1).float(), rtol=1e-4, atol=1e-4)


def test_embeddings_are_scaled_by_the_rounded_root() -> None:
    table = Vocabulary(9, 3072, 30.0)
    torch.nn.init.normal_(table.weight)
    tokens = torch.tensor([[3, 8], [0, 3]])
    assert torch.equal(table.embed(tokens), table.weight[tokens] * 3072**0.5)
    half = table.to(torch.bfloat16)
    assert half.scale == 55.5, "sqrt(3072) = 55.43 is 55.5 in bfloat16, and the reference multiplies by that"
    assert torch.equal(half.embed(tokens), half.weight[tokens] * 55.5)


def test_logits_keep_their_gradient() -> None:
    table = Vocabulary(9, 4, 5.0)
    torch.nn.init.normal_(table.weight)
    hidden = torch.randn(3, 4, requires_grad=True)
    table.logits(hidden).sum().backward()
    slope = 1 - (hidden @ table.weight.T / 5.0).tanh() ** 2
    assert hidden.grad is not None
    assert torch.allclose(hidden.grad, slope @ table.weight, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 7, 100])
@pytest.mark.parametrize("softcap", [2.0, 30.0])
def test_cross_entropy_is_that_of_the_logits(rows: int, softcap: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Value and both gradients, whatever the chunks."""
    vocab, generator = 53, torch.Generator().manual_seed(0)
    monkeypatch.setitem(cross_entropy.TRAINING_BYTES, "cpu", 4 * vocab * rows)
    found = Vocabulary(vocab, 16, softcap)
    with torch.no_grad():
        found.weight.copy_(torch.randn(vocab, 16, generator=generator))
    expected = copy.deepcopy(found)
    hidden = torch.randn(30, 16, generator=generator)
    targets = torch.randint(vocab, (30,), generator=generator)
    inputs = [hidden.clone().requires_grad_() for _ in range(2)]
    loss = found.cross_entropy(inputs[0], targets)
    other = F.cross_entropy(expected.logits(inputs[1]), targets)
    torch.testing.assert_close(loss, other)
    (3 * loss).backward()
    (3 * other).backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found.weight.grad, expected.weight.grad, rtol=1e-4, atol=1e-6)
    with torch.no_grad():
        torch.testing.assert_close(found.cross_entropy(hidden, targets), other)


def test_a_gradient_of_cross_entropy_refuses_to_be_differentiated() -> None:
    """It is made in the forward pass: a second derivative of it would lack most terms."""
    table, hidden = Vocabulary(20, 8, 30.0), torch.randn(5, 8).requires_grad_()
    torch.nn.init.normal_(table.weight)
    loss = table.cross_entropy(hidden, torch.arange(5)).square()
    (first,) = torch.autograd.grad(loss, hidden, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        first.square().sum().backward()


def test_a_frozen_table_gets_no_gradient() -> None:
    table = Vocabulary(20, 8, 30.0).requires_grad_(False)
    torch.nn.init.normal_(table.weight)
    hidden = torch.randn(5, 8).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        table.cross_entropy(hidden, torch.arange(5)).backward()
    assert hidden.grad is not None
    assert hidden.grad.dtype == torch.float32
    assert table.weight.grad is None


def test_random_numbers_of_the_host_serve_another_device() -> None:
    """A device pads rows to a multiple of its own."""
    table = Vocabulary(300, 16, 30.0).to("meta")
    for rows in (1, 5, 40):
        found = table.predict(torch.empty(rows, 16, device="meta"), torch.ones(rows), torch.rand(rows))
        assert found.sample_N.device.type == "meta"
        assert found.sample_N.shape == (rows,)


def test_hidden_states_of_another_type_are_read_in_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """As autocast leaves them; a kernel multiplies rows of one type alone."""
    table = Vocabulary(300, 16, 30.0).requires_grad_(False)
    hidden = torch.randn(3, 16, generator=torch.Generator().manual_seed(0)).bfloat16()
    given: list[torch.dtype] = []
    whole = Vocabulary._softmax_pass

    def watched(self: Vocabulary, hidden_ND: Tensor, *rest: Tensor, **options: bool) -> object:
        given.append(hidden_ND.dtype)
        return whole(self, hidden_ND, *rest, **options)

    monkeypatch.setattr(Vocabulary, "_softmax_pass", watched)
    table.predict(hidden, torch.ones(3), torch.rand(3))
    assert given == [torch.float32]


@pytest.mark.parametrize("temperature", [1e-6, 1e-8, 1e-10])
def test_where_one_token_is_possible_it_is_drawn_however_cold(temperature: float) -> None:
    """The second product's scores differ in their last places, which so low a temperature makes much of."""
    generator = torch.Generator().manual_seed(0)
    table = Vocabulary(512, 700, 30.0)
    table.weight.data = torch.randn(512, 700, generator=generator) * 700**-0.5
    wanted = torch.randint(512, (256,), generator=generator)
    hidden = 40 * table.weight.data[wanted] + 3 * torch.randn(256, 700, generator=generator)
    found = table.predict(hidden, torch.full((256,), temperature), torch.rand(256, generator=generator))
    sure = found.entropy_N < 1e-6
    assert sure.sum() > 200
    assert torch.equal(found.sample_N[sure], found.argmax_N[sure])
