"""The table in few bits against the whole table that its bits stand for."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from gesso.kernels import BLOCK
from gesso.nn import cross_entropy, vocabulary
from gesso.nn.quant import vocabulary as quantized_vocabulary
from gesso.nn.quant.base import Format, dequantize
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.vocabulary import QuantizedVocabulary
from gesso.nn.vocabulary import Vocabulary, VocabularyPass

pytestmark = pytest.mark.numbers

FORMS: list[Format] = [Int8(), Int4(32)]
forms = pytest.mark.parametrize("form", FORMS, ids=str)
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
CPU = torch.device("cpu")


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def both(
    form: Format, vocab: int, width: int = 64, dtype: torch.dtype = torch.float32, seed: int = 0
) -> tuple[QuantizedVocabulary, Vocabulary]:
    """A packed table, and a whole one with its numbers."""
    parts = form.quantize(0.3 * random(vocab, width, seed=seed))
    packed = QuantizedVocabulary(vocab, width, 30.0, form, dtype)
    packed.load_state_dict(dict(zip(form.parts, parts, strict=True)))
    plain = Vocabulary(vocab, width, 30.0).to(dtype).requires_grad_(False)
    plain.weight.copy_(dequantize(parts, form, dtype))
    return packed, plain


def problem(rows: int, width: int = 64, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states, temperatures and uniform numbers."""
    generator = torch.Generator().manual_seed(rows)
    return (
        random(rows, width, seed=rows).to(dtype),
        torch.linspace(0.3, 1.5, rows),
        torch.rand(rows, generator=generator),
    )


def check_equal(found: VocabularyPass, expected: VocabularyPass) -> None:
    for name in ("sample_N", "argmax_N", "entropy_N", "normaliser_N", "embedding_ND"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name


@dtypes
@given(
    st.sampled_from(FORMS),
    st.integers(1, 9),
    st.integers(1, 400) | st.sampled_from([BLOCK, 3 * BLOCK + 1]),
    st.sampled_from([BLOCK, 2 * BLOCK, 2048]),
)
def test_a_pass_is_that_of_the_whole_table(dtype: torch.dtype, form: Format, rows: int, vocab: int, chunk: int) -> None:
    """To the last bit: chunks are read back to what the whole table holds."""
    packed, plain = both(form, vocab, dtype=dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "CPU_CHUNK", chunk)
        patch.setattr(vocabulary, "ROWS", 4)
        patch.setattr("gesso.kernels.host.available", lambda: False)
        found, expected = (table.predict(*problem(rows, dtype=dtype)) for table in (packed, plain))
    check_equal(found, expected)
    assert found.embedding_ND.dtype == dtype


@forms
@dtypes
def test_rows_are_those_of_the_whole_table(form: Format, dtype: torch.dtype) -> None:
    packed, plain = both(form, 150, dtype=dtype)
    tokens = torch.tensor([[3, 149, 0], [3, 7, 8]])
    assert torch.equal(packed.embed(tokens), plain.embed(tokens))
    assert packed.embed(tokens).dtype == packed.dtype == dtype
    assert torch.equal(packed.rows_between(64, 512), plain.rows_between(64, 512))
    assert packed.rows_between(64, 512).shape == (86, 64)
    assert packed.scale == plain.scale


@forms
@dtypes
def test_logits_and_mixtures_are_near(form: Format, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "CPU_CHUNK", BLOCK)
    packed, plain = both(form, 150, dtype=dtype)
    hidden = random(2, 5, 64).to(dtype)
    off = 1e-5 if dtype == torch.float32 else 0.05
    assert packed.logits(hidden).dtype == torch.float32
    torch.testing.assert_close(packed.logits(hidden), plain.logits(hidden), rtol=off, atol=off)
    logits = plain.logits(hidden)
    assert packed.mix(logits).dtype == dtype
    torch.testing.assert_close(packed.mix(logits), plain.mix(logits), rtol=off, atol=off)


@forms
def test_logits_have_a_gradient(form: Format) -> None:
    packed, plain = both(form, 150)
    inputs = [random(4, 64).requires_grad_() for _ in range(2)]
    for table, hidden in zip((packed, plain), inputs, strict=True):
        table.logits(hidden).square().sum().backward()
    assert inputs[1].grad is not None
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=1e-4, atol=1e-3)


@forms
@pytest.mark.parametrize("chunk", [BLOCK, 2048])
@pytest.mark.parametrize("rows", [1, 7, 100])
def test_cross_entropy_is_that_of_the_whole_table(
    form: Format, chunk: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary, "CPU_CHUNK", chunk)
    monkeypatch.setitem(cross_entropy.TRAINING_BYTES, "cpu", 4 * chunk * rows)
    packed, plain = both(form, 150)
    targets = torch.tensor([0, 63, 64, 65, 127, 128, 149] * 3)  # on both sides of chunks' borders
    inputs = [random(21, 64).requires_grad_() for _ in range(2)]
    losses = [table.cross_entropy(hidden, targets) for table, hidden in zip((packed, plain), inputs, strict=True)]
    torch.testing.assert_close(*losses)
    for loss in losses:
        (3 * loss).backward()
    assert inputs[1].grad is not None
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=1e-4, atol=1e-6)
    with torch.no_grad():
        torch.testing.assert_close(packed.cross_entropy(inputs[0], targets), losses[1])
    plainly = F.cross_entropy(packed.logits(inputs[0].detach()), targets)
    torch.testing.assert_close(losses[0].detach(), plainly)


def test_a_gradient_of_cross_entropy_refuses_to_be_differentiated() -> None:
    packed, hidden = both(Int8(), 150)[0], random(21, 64).requires_grad_()
    loss = packed.cross_entropy(hidden, torch.arange(21)).square()
    (first,) = torch.autograd.grad(loss, hidden, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        first.square().sum().backward()


def test_cross_entropy_under_autocast() -> None:
    packed, plain = both(Int8(), 150)
    inputs = [random(21, 64).requires_grad_() for _ in range(2)]
    targets = torch.arange(21) * 7
    for table, hidden in zip((packed, plain), inputs, strict=True):
        with torch.autocast("cpu", torch.bfloat16):
            loss = table.cross_entropy(hidden, targets)
        loss.backward()
    assert inputs[0].grad is not None
    assert inputs[1].grad is not None
    assert inputs[0].grad.dtype == torch.float32
    assert (inputs[0].grad - inputs[1].grad).norm() < 0.02 * inputs[1].grad.norm()


@forms
def test_rows_do_not_depend_on_their_neighbours(form: Format) -> None:
    packed, _ = both(form, 300)
    hidden, temperature, uniform = problem(20)
    together = packed.predict(hidden, temperature, uniform)
    for row in range(20):
        alone = packed.predict(hidden[row, None], temperature[row, None], uniform[row, None])
        for name in ("sample_N", "argmax_N", "entropy_N", "normaliser_N", "embedding_ND"):
            assert torch.equal(getattr(alone, name)[0], getattr(together, name)[row])


class Counting(Int8):
    """int8 that counts the rows that are read back."""

    read = 0

    def unpack(self, parts: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        Counting.read += len(parts[0])
        return Int8().unpack(parts, dtype)


@pytest.mark.parametrize(
    ("job", "read"),
    [
        (lambda table: table.embed(torch.tensor([[5, 6], [7, 5]])), 4),
        (lambda table: table.predict(*problem(32)), 300 + 32 * BLOCK),
        (lambda table: table.mix(torch.zeros(32, 300)), 300),
        (lambda table: table.logits(random(32, 64)), 300),
        (lambda table: table.cross_entropy(random(32, 64).requires_grad_(), torch.arange(32)), 2 * 300),
        (lambda table: table.cross_entropy(random(32, 64), torch.arange(32)), 300),
    ],
    ids=["embed", "predict", "mix", "logits", "gradient", "loss"],
)
def test_every_row_is_read_back_once(
    job: Callable[[QuantizedVocabulary], Tensor], read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many positions there are: what is drawn from is read once more, for every position its block."""
    monkeypatch.setattr(vocabulary, "CPU_CHUNK", BLOCK)
    monkeypatch.setattr("gesso.kernels.host.available", lambda: False)  # kernels read bits
    packed, _ = both(Int8(), 300)
    packed.form, Counting.read = Counting(), 0
    job(packed)
    assert Counting.read == read


def test_chunks_of_an_accelerator_are_smaller() -> None:
    packed, plain = both(Int8(), 9)
    assert packed.chunk(CPU) == plain.chunk(CPU) == vocabulary.CPU_CHUNK
    assert packed.chunk(torch.device("cuda")) == quantized_vocabulary.GPU_CHUNK < plain.chunk(torch.device("cuda"))
    assert quantized_vocabulary.GPU_CHUNK % BLOCK == 0


def test_it_holds_its_parts_and_no_table() -> None:
    packed, _ = both(Int4(32), 150)
    assert {name: tensor.shape for name, tensor in packed.state_dict().items()} == {
        "codes": (150, 32),
        "scales": (150, 2),
        "offsets": (150, 2),
    }
    assert not list(packed.parameters())
    with pytest.raises(AttributeError, match="weight"):
        packed.weight  # noqa: B018
    with pytest.raises(ValueError, match="64 input features are no multiple of the group size 128"):
        QuantizedVocabulary(150, 64, 30.0, Int4(128))


def test_casting_casts_what_is_read_back() -> None:
    packed, _ = both(Int8(), 150)
    assert packed.embed(torch.tensor([3])).dtype == torch.float32
    half = packed.to(torch.bfloat16)
    assert half.embed(torch.tensor([3])).dtype == half.dtype == torch.bfloat16
    assert half.codes.dtype == torch.int8


def test_like_keeps_shape_and_type() -> None:
    plain = Vocabulary(70, 32, 5.0).to(torch.bfloat16)
    made = QuantizedVocabulary.like(plain, Int8())
    assert (made.size, made.width, made.softcap, made.dtype) == (70, 32, 5.0, torch.bfloat16)
    assert made.codes.shape == (70, 32)


@given(st.sampled_from([Int8(), Int4(64)]), st.integers(1, 9), st.integers(1, 400), st.booleans())
def test_a_pass_by_kernels_is_near_it_and_a_row_depends_on_nothing_else(
    form: Format, rows: int, vocab: int, mix: bool
) -> None:
    packed, plain = both(form, vocab)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "CPU_CHUNK", 128)
        patch.setattr("gesso.nn.quant.vocabulary.CPU_TILE", 64 * 50)  # tiles that are no whole chunk
        hidden, temperature, uniform = problem(rows)
        found = packed.predict(hidden, temperature, uniform, mix=mix)
        alone = packed.predict(hidden[:1], temperature[:1], uniform[:1], mix=mix)
        expected = plain.predict(hidden, temperature, uniform, mix=mix)
    check_equal(found.first(1), alone)
    # Scores of a deviation of 2.4 are off by half a percent, and divided by a temperature of 0.3 and more.
    torch.testing.assert_close(found.normaliser_N, expected.normaliser_N, rtol=0.0, atol=0.15)
    torch.testing.assert_close(found.entropy_N, expected.entropy_N, rtol=0.0, atol=0.15)
    torch.testing.assert_close(found.embedding_ND, expected.embedding_ND, rtol=0.0, atol=0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_wide_table_of_bytes_is_mixed_as_the_whole_one_whatever_it_was_cast_to(dtype: torch.dtype) -> None:
    packed, plain = both(Int8(), 700, quantized_vocabulary.WIDE)
    hidden = 0.1 * random(20, quantized_vocabulary.WIDE, seed=1)
    rows = torch.ones(20), torch.full((20,), 0.3)
    with torch.inference_mode():
        expected = plain.predict(hidden, *rows).embedding_ND
        found = packed.to(dtype).predict(hidden.to(dtype), *rows).embedding_ND.float()
    assert (found - expected).norm() <= 0.02 * expected.norm()


def test_a_pass_that_counts_operations_counts_those_of_the_mixture() -> None:
    packed, _ = both(Int8(), 700, quantized_vocabulary.WIDE)
    hidden = random(20, quantized_vocabulary.WIDE, seed=1)
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        packed.predict(hidden, torch.ones(20), torch.full((20,), 0.3))
    assert counter.get_total_flops() >= 4 * len(hidden) * 700 * quantized_vocabulary.WIDE
