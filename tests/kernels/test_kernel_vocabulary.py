"""The kernel's online-softmax pass over the vocabulary against the chunked one, in all that `predict` makes of it."""

import pytest
import torch
from torch import Tensor

from gesso.kernels import usable
from gesso.nn import vocabulary
from gesso.nn.vocabulary import Vocabulary, VocabularyPass

pytest.importorskip("triton")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
DTYPES = [torch.float32, torch.bfloat16]


def problem(rows: int, vocab: int, width: int, dtype: torch.dtype, sharpness: float = 0.3) -> tuple[Vocabulary, Tensor]:
    generator = torch.Generator().manual_seed(vocab)
    table = Vocabulary(vocab, width, 30.0).requires_grad_(False)
    table.weight.copy_(sharpness * torch.randn(vocab, width, generator=generator))
    hidden = torch.randn(rows, width, generator=generator)
    return table.to(DEVICE, dtype), hidden.to(DEVICE, dtype)


def both(
    table: Vocabulary, hidden: Tensor, temperature: Tensor, seed: int = 0
) -> tuple[VocabularyPass, VocabularyPass]:
    """By the kernel, and chunk by chunk."""
    uniform = torch.rand(len(hidden), generator=torch.Generator().manual_seed(seed))
    passes = []
    for with_kernel in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(vocabulary, "usable", lambda device, chosen=with_kernel: chosen)
            passes.append(table.predict(hidden, temperature.to(DEVICE), uniform))
    return passes[0], passes[1]


def check(found: VocabularyPass, expected: VocabularyPass, temperature: Tensor, dtype: torch.dtype) -> None:
    assert torch.equal(found.argmax_N, expected.argmax_N)
    assert torch.equal(found.sample_N, expected.sample_N)
    off = 2e-5 + 1e-5 / temperature.to(DEVICE)
    assert bool(((found.entropy_N - expected.entropy_N).abs() <= 20 * off * (1 + expected.entropy_N)).all())
    normaliser = expected.normaliser_N
    assert bool(((found.normaliser_N - normaliser).abs() <= off + 1e-6 * normaliser.abs()).all())
    size = expected.embedding_ND.float().abs().amax(dim=-1, keepdim=True)
    share = (found.embedding_ND.float() - expected.embedding_ND.float()).abs() / size
    assert bool((share <= 100 * off[:, None] + (1e-5 if dtype == torch.float32 else 2**-6)).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("rows", "vocab", "width"),
    [(16, 700, 48), (16, 1, 16), (32, 64, 112), (16, 255, 16), (16, 512, 64), (144, 300, 80), (16, 257, 176)],
)
def test_it_equals_the_chunked_pass(rows: int, vocab: int, width: int, dtype: torch.dtype) -> None:
    table, hidden = problem(rows, vocab, width, dtype)
    temperature = torch.linspace(0.3, 1.5, rows)
    check(*both(table, hidden, temperature), temperature, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_several_chunks_of_shares(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    from gesso.kernels import vocabulary as kernel

    monkeypatch.setattr(kernel, "CHUNK", 2 * kernel.VOCAB_TILE)
    table, hidden = problem(16, 5 * kernel.VOCAB_TILE + 33, 48, dtype)
    # Each chunk has higher scores than the one before for some rows, and lower ones for others.
    table.weight.mul_(torch.linspace(0.2, 3.0, len(table.weight), device=DEVICE)[:, None])
    temperature = torch.linspace(0.4, 0.8, 16)
    check(*both(table, hidden, temperature), temperature, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("temperature", [1e-4, 0.01, 30.0])
@pytest.mark.parametrize("sharpness", [0.02, 4.0])
def test_extreme_temperatures_and_scores_past_the_cap(dtype: torch.dtype, temperature: float, sharpness: float) -> None:
    table, hidden = problem(16, 600, 64, dtype, sharpness)
    temperatures = torch.full((16,), temperature)
    found, expected = both(table, hidden, temperatures)
    for field in (found.entropy_N, found.normaliser_N, found.embedding_ND):
        assert bool(torch.isfinite(field).all())
    # Where scores round to equals or nearly so, another order of adding up may choose another of them.
    scores = table.logits(hidden)
    for mine, other in ((found.argmax_N, expected.argmax_N), (found.sample_N, expected.sample_N)):
        apart = scores.gather(1, mine[:, None]) - scores.gather(1, other[:, None])
        assert bool(((mine == other) | (apart[:, 0].abs() <= 1e-5)).all())
    off = 2e-5 + 1e-5 / temperature
    assert bool(((found.normaliser_N - expected.normaliser_N).abs() <= off + 1e-6 * expected.normaliser_N.abs()).all())


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_equal_scores_the_lowest_index_is_the_argmax(dtype: torch.dtype) -> None:
    """In one tile, in neighbouring ones, and in a row where all are equal."""
    table, hidden = problem(16, 800, 32, dtype)
    best = hidden.new_zeros(32)
    best[:16] = 2.0
    hidden = best.repeat(16, 1)
    hidden[15] = 0.0
    table.weight[:, :16].clamp_(max=1.0)
    for place in (311, 300, 799, 599):
        table.weight[place] = best
    found, expected = both(table, hidden, torch.ones(16))
    assert found.argmax_N.tolist() == [300] * 15 + [0]
    assert torch.equal(found.argmax_N, expected.argmax_N)


def test_what_a_row_gets_is_its_own() -> None:
    table, hidden = problem(32, 500, 48, torch.float32)
    temperature = torch.linspace(0.4, 0.8, 32)
    together, _ = both(table, hidden, temperature)
    fewer, _ = both(table, hidden[:16], temperature[:16])
    torch.testing.assert_close(together.embedding_ND[:16], fewer.embedding_ND)
    torch.testing.assert_close(together.entropy_N[:16], fewer.entropy_N)


def test_no_kernel_is_used_off_cuda() -> None:
    assert not usable(torch.device("cpu"))
    assert not usable(torch.device("meta"))
    assert usable(torch.device("cuda"))


def test_the_embedding_may_be_left_out() -> None:
    table, hidden = problem(16, 300, 48, torch.float32)
    temperature, uniform = torch.full((16,), 0.7), torch.rand(16, generator=torch.Generator().manual_seed(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "usable", lambda _: True)
        whole, less = (table.predict(hidden, temperature.to(DEVICE), uniform, mix=mix) for mix in (True, False))
    assert less.embedding_ND.shape == (16, 0)
    assert torch.equal(less.sample_N, whole.sample_N)
    assert torch.equal(less.entropy_N, whole.entropy_N)
