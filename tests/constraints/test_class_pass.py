"""One pass over the vocabulary by classes, against the scores of all tokens at once."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import cases

from constraints.tables import automaton_of
from gesso.constraints.class_pass import ClassPass, TokenClasses
from gesso.constraints.inference import Lattice
from gesso.constraints.segments import Segments
from gesso.diffusion.canvas_state import Pins
from gesso.diffusion.logits_changes import Ban
from gesso.diffusion.logits_processing import LogitsProcessing, processed_pass
from gesso.engine.constraint import CanvasConstraintState
from gesso.nn.quant.base import Format, dequantize
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.vocabulary import QuantizedVocabulary
from gesso.nn.vocabulary import Vocabulary

WIDTH, ROWS = 24, 7
CPU = torch.device("cpu")


def make_vocabulary(size: int, seed: int, spread: float = 1.0) -> Vocabulary:
    vocabulary = Vocabulary(size, WIDTH, 30.0)
    table = torch.randn(size, WIDTH, generator=torch.Generator().manual_seed(seed))
    vocabulary.weight.data = table * spread
    return vocabulary


def make_classes(size: int, classes: int, seed: int) -> Any:
    """Classes of very different sizes, some tokens in none."""
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet(np.full(classes + 1, 0.4))
    class_V = generator.choice(classes + 1, size=size, p=shares) - 1
    class_V[generator.choice(size, classes, replace=False)] = np.arange(classes)  # none is empty
    return class_V


@given(st.integers(20, 900), st.integers(1, 12), st.integers(0, 2**16), st.sampled_from([64, 128]), st.data())
@settings(max_examples=cases(40, 400))
def test_summary_sample_and_mixture_are_those_of_all_scores(
    size: int, classes: int, seed: int, chunk: int, data: st.DataObject
) -> None:
    vocabulary = make_vocabulary(size, seed, data.draw(st.sampled_from([0.1, 1.0, 4.0])))
    class_V = make_classes(size, classes, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    hidden = torch.randn(ROWS, WIDTH, generator=generator)
    temperature = 0.4 + torch.rand(ROWS, generator=generator)
    factors = torch.randn(ROWS, classes, generator=generator).double() * 3
    factors[torch.rand(factors.shape, generator=generator) < 0.2] = -math.inf
    factors[:, 0] = 0.0
    uniform = torch.rand(ROWS, generator=generator)

    layout = TokenClasses(class_V, CPU, chunk)
    made = ClassPass(vocabulary, layout, hidden, temperature)
    scores = (vocabulary.logits(hidden) / temperature[:, None]).detach()
    total, entropy, best, token = Segments(class_V, classes, CPU).summary(scores)
    torch.testing.assert_close(made.summary.total, total, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(made.summary.entropy, entropy, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(made.summary.best, best, atol=1e-4, rtol=1e-5)
    gap = scores.gather(1, made.summary.token) - scores.gather(1, token)
    assert gap.abs().max() < 1e-4
    assert torch.equal(torch.from_numpy(class_V)[made.summary.token], torch.arange(classes).expand(ROWS, -1))

    column_V = torch.from_numpy(class_V)
    log_p = torch.where(column_V < 0, -math.inf, scores.double() + factors[:, column_V.clamp(min=0)])
    norm = log_p.logsumexp(dim=-1, keepdim=True)
    factors -= norm  # what a constraint gives: factors that make probabilities
    p = (log_p - norm).exp()
    sample, embedding = made.finish(factors, uniform)
    expected = p.float() @ vocabulary.weight.detach() * vocabulary.scale
    torch.testing.assert_close(embedding, expected, atol=2e-3, rtol=1e-3)
    # The sample is where the columns' running sum passes the number.
    order = layout.columns_T[layout.columns_T >= 0]
    sums = p[:, order].cumsum(dim=-1)
    place = (order == sample[:, None]).nonzero()[:, 1]
    above = sums.gather(1, place[:, None])[:, 0]
    below = above - p.gather(1, sample[:, None])[:, 0]
    assert ((below - 1e-4 <= uniform) & (uniform <= above + 1e-4)).all()
    assert (p.gather(1, sample[:, None]) > 0).all()


def test_of_equal_tokens_the_lowest_stands_for_its_class() -> None:
    vocabulary = make_vocabulary(400, 0)
    vocabulary.weight.data[:] = vocabulary.weight.data[0]
    class_V = np.arange(400) % 3
    made = ClassPass(vocabulary, TokenClasses(class_V, CPU, 64), torch.randn(4, WIDTH), torch.ones(4))
    assert made.summary.token.tolist() == [[0, 1, 2]] * 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("form", [Int8(), Int4(32)], ids=str)
def test_a_table_in_few_bits_is_read_as_what_its_bits_stand_for(form: Format, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    parts = form.quantize(torch.randn(400, 32, generator=generator))
    packed = QuantizedVocabulary(400, 32, 30.0, form, dtype)
    packed.load_state_dict(dict(zip(form.parts, parts, strict=True)))
    plain = Vocabulary(400, 32, 30.0).to(dtype)
    plain.weight.data = dequantize(parts, form, dtype)
    hidden, uniform = torch.randn(ROWS, 32, generator=generator).to(dtype), torch.rand(ROWS, generator=generator)
    layout = TokenClasses(make_classes(400, 5, 3), CPU, 64)
    passes = [ClassPass(table, layout, hidden, torch.full((ROWS,), 0.7)) for table in (packed, plain)]
    for name in ("total", "entropy", "best", "token"):
        assert torch.equal(*(getattr(one.summary, name) for one in passes)), name
    factors = -passes[0].summary.total.logsumexp(dim=-1, keepdim=True).expand(-1, 5)
    (sample, embedding), (expected, mixed) = (one.finish(factors.clone(), uniform) for one in passes)
    assert torch.equal(sample, expected)
    assert torch.equal(embedding, mixed)
    assert embedding.dtype == dtype


NEVER = [-1] * 9
AUTOMATON = automaton_of(
    [[-1, *[1] * 60, *[2] * 200, *NEVER], [-1, *[1] * 260, *NEVER], [-1, *[1] * 60, *[0] * 200, *NEVER]], [1], [0]
)


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("left", [9, 40])
def test_a_guide_predicts_what_it_says_of_held_scores(pinned: bool, left: int) -> None:
    width, generator = 12, torch.Generator().manual_seed(3)
    vocabulary = make_vocabulary(270, 5)
    hidden = torch.randn(width, WIDTH, generator=generator)
    pins = None
    if pinned:
        held = torch.zeros(width, dtype=torch.bool)
        held[[2, 5]] = True
        tokens = torch.zeros(width, dtype=torch.int64)
        tokens[2], tokens[5] = 7, 30
        pins = Pins(tokens, held, torch.zeros_like(held), ())
    guide = CanvasConstraintState(Lattice(AUTOMATON), AUTOMATON.start, left, width, pins)
    temperature, uniform = torch.full((width,), 0.7), torch.rand(width, generator=generator)
    fast = processed_pass(vocabulary, hidden, temperature, uniform, LogitsProcessing(), (), guide)
    # A ban of nothing takes the way over the scores.
    nothing = Ban(torch.zeros(width, dtype=torch.bool), ())
    slow = processed_pass(vocabulary, hidden, temperature, uniform, LogitsProcessing(), (nothing,), guide)
    assert torch.equal(fast.argmax_N, slow.argmax_N)
    torch.testing.assert_close(fast.entropy_N, slow.entropy_N, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(fast.embedding_ND, slow.embedding_ND, atol=2e-3, rtol=1e-3)
    if pins is not None:
        assert fast.sample_N[[2, 5]].tolist() == fast.argmax_N[[2, 5]].tolist() == [7, 30]
    fixed = slice(left, width)  # past the last token there is only filling
    assert torch.equal(fast.sample_N[fixed], slow.sample_N[fixed])
    likeliest = processed_pass(vocabulary, hidden, temperature, uniform, LogitsProcessing(temperature=0), (), guide)
    assert torch.equal(likeliest.sample_N, fast.argmax_N)


def test_samples_follow_the_marginals() -> None:
    vocabulary, draws = make_vocabulary(40, 8, spread=0.3), 4000
    class_V = make_classes(40, 3, 1)
    hidden = torch.randn(1, WIDTH, generator=torch.Generator().manual_seed(0)).expand(draws, -1)
    made = ClassPass(vocabulary, TokenClasses(class_V, CPU, 64), hidden, torch.ones(draws))
    column_V = torch.from_numpy(class_V)
    scores = torch.where(column_V < 0, -math.inf, vocabulary.logits(hidden[:1]).detach())
    p = scores.softmax(dim=-1)[0]
    factors = -scores.double().logsumexp(dim=-1).expand(draws)[:, None].expand(-1, 3)
    uniform = (torch.arange(draws) + 0.5) / draws
    sample, _ = made.finish(factors.clone(), uniform)
    shares = torch.bincount(sample, minlength=40) / draws
    torch.testing.assert_close(shares, p, atol=1.0 / draws + 1e-4, rtol=0)
