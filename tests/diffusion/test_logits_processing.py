"""Shaped passes against the plain computation in fp64, token by token, and against the fused pass where they meet."""

import math
from dataclasses import dataclass, fields, replace

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from gesso.diffusion import logits_processing as module
from gesso.diffusion.logits_processing import LogitsProcessing, processed_pass
from gesso.generation import LARGEST_BIAS
from gesso.kernels import BLOCK
from gesso.nn.vocabulary import Vocabulary, VocabularyPass

NEAR = 1e-4


def make_table(vocab: int, width: int, seed: int, dtype: torch.dtype = torch.float32) -> Vocabulary:
    table = Vocabulary(vocab, width, 30.0)
    with torch.no_grad():
        table.weight.copy_(0.7 * torch.randn(vocab, width, generator=torch.Generator().manual_seed(seed)))
    return table.to(dtype).requires_grad_(False)


def make_hidden(rows: int, width: int, seed: int) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed + 1))


def flat_table(vocab: int) -> Vocabulary:
    """Every token scores 0."""
    table = Vocabulary(vocab, 4, 30.0)
    with torch.no_grad():
        table.weight.fill_(1.0)
    return table


# Against the plain computation


@dataclass(frozen=True)
class Plain:
    """One row, in fp64: what is kept in order of rank, with its shares, and the plain results."""

    kept: list[int]
    probabilities: list[float]
    sampling: list[float]
    """Shares in the order of ids, the sample's temperature applied."""
    margin: float
    """How near a cut is to falling elsewhere."""


def plain_row(logits: list[float], temperature: float, processing: LogitsProcessing) -> Plain:
    for token, bias in processing.bias:
        logits[token] += bias
    z = [value / temperature for value in logits]
    ranked = sorted(range(len(z)), key=lambda token: (-z[token], token))
    margin = math.inf
    if 0 < processing.top_k < len(z):
        margin = z[ranked[processing.top_k - 1]] - z[ranked[processing.top_k]]
        ranked = ranked[: processing.top_k]
    weights = [math.exp(z[token] - z[ranked[0]]) for token in ranked]
    if processing.top_p < 1:
        before, kept = 0.0, 0
        for weight in weights:
            margin = min(margin, abs(before - processing.top_p))
            if before >= processing.top_p:
                break
            before, kept = before + weight / sum(weights), kept + 1
        if kept < len(ranked):
            margin = min(margin, z[ranked[kept - 1]] - z[ranked[kept]])
        ranked, weights = ranked[:kept], weights[:kept]
    if processing.min_p:
        least = processing.min_p * weights[0]
        margin = min(margin, *(abs(weight - least) for weight in weights)) if processing.min_p < 1 else margin
        weights = [weight for weight in weights if weight >= least]
        ranked = ranked[: len(weights)]
    heat = processing.temperature or 1e-9
    sampling = [math.exp((z[token] - z[ranked[0]]) / heat) if token in ranked else 0.0 for token in range(len(z))]
    return Plain(
        ranked, [weight / sum(weights) for weight in weights], [share / sum(sampling) for share in sampling], margin
    )


PROCESSINGS = st.builds(
    LogitsProcessing,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    top_p=st.sampled_from([0.05, 0.5, 0.9, 1.0]) | st.floats(0.01, 1.0),
    top_k=st.sampled_from([0, 0, 1, 2, 5, 64, 1000]),
    min_p=st.sampled_from([0.0, 0.0, 0.001, 0.3, 1.0]),
    bias=st.dictionaries(st.integers(0, 9), st.sampled_from([-100.0, -2.0, 0.5, 7.0, 100.0]), max_size=4).map(
        lambda bias: tuple(bias.items())
    ),
)


@given(
    processing=PROCESSINGS,
    vocab=st.sampled_from([10, BLOCK, BLOCK + 1, 200]),
    temperatures=st.lists(st.sampled_from([0.1, 0.4, 0.8, 1.5]), min_size=1, max_size=5),
    seed=st.integers(0, 2**20),
)
def test_a_shaped_pass_is_the_plain_computation(
    processing: LogitsProcessing, vocab: int, temperatures: list[float], seed: int
) -> None:
    table, hidden = make_table(vocab, 6, seed), make_hidden(len(temperatures), 6, seed)
    uniform = torch.rand(len(temperatures), generator=torch.Generator().manual_seed(seed))
    found = processed_pass(table, hidden, torch.tensor(temperatures), uniform, processing)
    scores = 30.0 * torch.tanh(hidden.double() @ table.weight.double().T / 30.0)
    for row, temperature in enumerate(temperatures):
        plain = plain_row(scores[row].tolist(), temperature, processing)
        assume(plain.margin > NEAR)
        entropy = -sum(p * math.log(p) for p in plain.probabilities if p > 0)
        assert int(found.argmax_N[row]) == plain.kept[0]
        assert float(found.entropy_N[row]) == pytest.approx(entropy, abs=NEAR)
        biased = scores[row].clone()
        for token, bias in processing.bias:
            biased[token] += bias
        normaliser = (biased[plain.kept] / temperature).logsumexp(dim=0)
        assert float(found.normaliser_N[row]) == pytest.approx(float(normaliser), rel=1e-5, abs=NEAR)
        shares = torch.tensor(plain.probabilities, dtype=torch.float64)
        mixed = shares @ table.weight.double()[plain.kept] * 6**0.5
        assert bool(((found.embedding_ND[row] - mixed).abs() <= 10 * NEAR).all())
        sample = int(found.sample_N[row])
        assert sample in plain.kept
        if processing.temperature == 0:
            assert sample == plain.kept[0]
        else:
            below = sum(plain.sampling[:sample])
            assert below - NEAR <= float(uniform[row]) <= below + plain.sampling[sample] + NEAR


# Against the fused pass


@pytest.mark.parametrize(
    ("vocab", "dtype"), [(7, torch.float32), (300, torch.float32), (5000, torch.float32), (300, torch.bfloat16)]
)
def test_without_shaping_it_is_the_fused_pass(vocab: int, dtype: torch.dtype) -> None:
    rows = 400
    table, hidden = make_table(vocab, 16, vocab, dtype), make_hidden(rows, 16, vocab).to(dtype)
    temperature = torch.tensor([0.05, 0.4, 0.8, 1.0]).repeat(rows // 4)
    uniform = torch.rand(rows, generator=torch.Generator().manual_seed(0))
    uniform[:8] = torch.tensor([0.0, 1 - 2.0**-24]).repeat_interleave(4)
    found = processed_pass(table, hidden, temperature, uniform, LogitsProcessing())
    fused = table.predict(hidden, temperature, uniform)
    # Scores are off by some bits of the soft-cap, and divided by the temperature.
    near_N = 2e-5 / temperature if dtype == torch.float32 else torch.full((rows,), 0.05)
    assert torch.equal(found.argmax_N, fused.argmax_N)
    assert torch.equal(found.sample_N, fused.sample_N)
    for name in ("entropy_N", "normaliser_N", "embedding_ND"):
        ours, theirs = getattr(found, name), getattr(fused, name)
        assert ours.dtype == theirs.dtype
        near = near_N.view(-1, *[1] * (ours.dim() - 1))
        assert bool(((ours - theirs).abs() <= near * (1 + theirs.abs())).all())


def test_what_keeps_everything_changes_nothing() -> None:
    table, hidden = make_table(300, 16, 3), make_hidden(8, 16, 3)
    temperature, uniform = torch.full((8,), 0.6), torch.rand(8, generator=torch.Generator().manual_seed(1))
    neutral = processed_pass(table, hidden, temperature, uniform, LogitsProcessing())
    unmixed = processed_pass(table, hidden, temperature, uniform, LogitsProcessing(), mix=False)
    assert unmixed.embedding_ND.shape == (len(hidden), 0)
    assert torch.equal(unmixed.sample_N, neutral.sample_N)
    for processing in (LogitsProcessing(top_k=300), LogitsProcessing(top_k=10**6), LogitsProcessing(bias=((3, 0.0),))):
        check_equal(processed_pass(table, hidden, temperature, uniform, processing), neutral)


# One option at a time


def run(table: Vocabulary, hidden: Tensor, processing: LogitsProcessing, temperature: float = 0.5) -> VocabularyPass:
    rows = len(hidden)
    uniform = (torch.arange(rows) + 0.5) / rows
    return processed_pass(table, hidden, torch.full((rows,), temperature), uniform, processing)


@pytest.mark.parametrize(
    "processing",
    [
        LogitsProcessing(top_k=1),
        LogitsProcessing(top_p=1e-9),
        LogitsProcessing(top_p=1e-308),
        LogitsProcessing(top_k=1, top_p=0.5),
        LogitsProcessing(min_p=1.0),
        LogitsProcessing(min_p=5e-324, top_k=1),
    ],
)
def test_one_token_is_certain(processing: LogitsProcessing) -> None:
    table, hidden = make_table(200, 8, 0), make_hidden(64, 8, 0)
    found = run(table, hidden, processing)
    best = table.logits(hidden).argmax(dim=-1)
    assert torch.equal(found.argmax_N, best)
    assert torch.equal(found.sample_N, best)
    assert torch.equal(found.entropy_N, torch.zeros(64))
    torch.testing.assert_close(found.embedding_ND, table.embed(best))


def test_the_temperature_moves_the_samples_and_not_the_prediction() -> None:
    table, hidden = make_table(200, 8, 0), make_hidden(1, 8, 0).expand(512, -1)
    neutral = run(table, hidden, LogitsProcessing())
    kinds = []
    for temperature in (0.0, 1e-300, 0.3, 1.0, 2.0):
        found = run(table, hidden, LogitsProcessing(temperature=temperature))
        check_equal(replace(found, sample_N=neutral.sample_N), neutral)
        kinds.append(len(found.sample_N.unique()))
    assert kinds[:2] == [1, 1]
    assert kinds == sorted(kinds)
    assert kinds[2] < kinds[3] < kinds[4]
    assert torch.equal(run(table, hidden, LogitsProcessing(temperature=0)).sample_N, neutral.argmax_N)
    hot = run(table, hidden, LogitsProcessing(temperature=2.0), temperature=0.5)
    assert torch.equal(hot.sample_N, run(table, hidden, LogitsProcessing(), temperature=1.0).sample_N)


def test_a_bias_bans_or_forces_a_token() -> None:
    table, hidden = make_table(200, 8, 0), make_hidden(64, 8, 0)
    best = sorted(set(run(table, hidden, LogitsProcessing()).argmax_N.tolist()))
    for size in (100.0, LARGEST_BIAS):
        without = run(table, hidden, LogitsProcessing(bias=tuple((token, -size) for token in best)))
        assert not set(best) & {*without.argmax_N.tolist(), *without.sample_N.tolist()}
        forced = run(table, hidden, LogitsProcessing(bias=((7, size),)), temperature=1e-4)
        assert {*forced.argmax_N.tolist(), *forced.sample_N.tolist()} == {7}
        assert torch.equal(forced.entropy_N, torch.zeros(64))
        for outcome in (without, forced):
            assert all(bool(getattr(outcome, field.name).isfinite().all()) for field in fields(outcome))


@pytest.mark.parametrize(
    ("processing", "kept"),
    [
        (LogitsProcessing(top_k=3), [0, 1, 2]),
        (LogitsProcessing(top_p=0.35), [0, 1, 2, 3]),
        (LogitsProcessing(top_k=4, top_p=0.6), [0, 1, 2]),
        (LogitsProcessing(top_k=3, bias=((0, -9.0), (7, 1e-3))), [1, 2, 7]),
        (LogitsProcessing(top_k=2, bias=((8, 1e-3), (5, 1e-3), (9, 1e-3))), [5, 8]),
        (LogitsProcessing(min_p=1.0), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (LogitsProcessing(min_p=0.999, bias=((0, -9.0), (7, -2e-3))), [1, 2, 3, 4, 5, 6, 8, 9]),
        (LogitsProcessing(top_k=3, min_p=0.5, bias=((1, -1.0), (2, -1.0), (3, -1.0))), [0, 4, 5]),
    ],
)
def test_of_equal_tokens_the_lower_ids_are_kept(processing: LogitsProcessing, kept: list[int]) -> None:
    found = run(flat_table(10), torch.zeros(100, 4), processing, temperature=1.0)
    assert found.sample_N.unique().tolist() == kept
    assert bool((found.entropy_N - math.log(len(kept))).abs().max() <= 1e-5)


@pytest.mark.parametrize("uniform", [0.0, 2.0**-24, 1 - 2.0**-24])
def test_a_token_that_was_cut_is_never_drawn(uniform: float) -> None:
    vocab = 3 * BLOCK + 5
    table = flat_table(vocab)
    for only in (0, BLOCK - 1, BLOCK, 2 * BLOCK + 9, vocab - 1):
        bias = ((only, 3.0), ((only + 1) % vocab, 2.0))
        found = processed_pass(
            table, torch.zeros(1, 4), torch.ones(1), torch.tensor([uniform]), LogitsProcessing(top_k=2, bias=bias)
        )
        assert int(found.sample_N) in (only, (only + 1) % vocab)


# Rows


def check_equal(one: VocabularyPass, other: VocabularyPass) -> None:
    for field in fields(VocabularyPass):
        assert torch.equal(getattr(one, field.name), getattr(other, field.name)), field.name


SHAPED = LogitsProcessing(temperature=0.8, top_p=0.9, top_k=40, bias=((3, 2.0),))


def test_few_rows_at_a_time_are_as_good_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table, hidden = make_table(300, 16, 1), make_hidden(50, 16, 1)
    whole = run(table, hidden, SHAPED)
    for rows in (1, 7, 49):
        monkeypatch.setattr(module, "ROWS", rows)
        parts = run(table, hidden, SHAPED)
        assert torch.equal(parts.sample_N, whole.sample_N)
        assert torch.equal(parts.argmax_N, whole.argmax_N)
        for name in ("entropy_N", "normaliser_N", "embedding_ND"):
            torch.testing.assert_close(getattr(parts, name), getattr(whole, name), rtol=1e-5, atol=1e-5)


@pytest.mark.numbers
def test_a_row_does_not_depend_on_its_neighbours() -> None:
    table, hidden = make_table(300, 16, 1), make_hidden(50, 16, 1)
    others = make_hidden(50, 16, 9)
    others[20] = hidden[20]
    one, other = run(table, hidden, SHAPED), run(table, others, SHAPED)
    for field in fields(VocabularyPass):
        assert torch.equal(getattr(one, field.name)[20], getattr(other, field.name)[20])


def test_no_gradient_is_kept() -> None:
    table = make_table(20, 4, 0).requires_grad_(True)
    found = run(table, make_hidden(3, 4, 0).requires_grad_(), SHAPED)
    assert not found.embedding_ND.requires_grad
    assert not found.entropy_N.requires_grad


# What may be asked for


@pytest.mark.parametrize(
    ("processing", "neutral", "needs_logits"),
    [
        (LogitsProcessing(), True, False),
        (LogitsProcessing(temperature=0), False, False),
        (LogitsProcessing(temperature=0.5), False, True),
        (LogitsProcessing(top_p=0.5), False, True),
        (LogitsProcessing(top_k=1), False, True),
        (LogitsProcessing(min_p=0.1), False, True),
        (LogitsProcessing(bias=((1, 1.0),)), False, True),
        (LogitsProcessing(temperature=0, top_k=5), False, True),
    ],
)
def test_which_pass_is_needed(processing: LogitsProcessing, neutral: bool, needs_logits: bool) -> None:
    assert (processing.neutral, processing.needs_logits) == (neutral, needs_logits)
    assert hash(processing) == hash(replace(processing))
