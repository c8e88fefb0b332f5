"""Marginals and best canvases against the enumeration of all canvases."""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from thorough import cases
from torch import Tensor

from constraints.tables import automaton_of
from gesso.constraints.automaton import TokenAutomaton
from gesso.constraints.emissions import Emissions
from gesso.constraints.inference import Lattice
from gesso.constraints.segments import Segments
from gesso.errors import OptionError

NEAR = 1e-4


@dataclass(frozen=True)
class Case:
    automaton: TokenAutomaton
    scores_CV: Tensor
    starts: list[int]
    budget: int | None

    def valid(self) -> dict[tuple[int, ...], float]:
        """Every valid canvas with its log weight."""
        found = {}
        for tokens in itertools.product(range(self.scores_CV.shape[1]), repeat=len(self.scores_CV)):
            ends = [state for start in self.starts if (state := self.automaton.advance(start, tokens)) >= 0]
            # Several starts are alternatives, and so each counts.
            ways = sum(self.budget is None or self.automaton.distance_S[state] <= self.budget for state in ends)
            weight = sum(float(self.scores_CV[place, token]) for place, token in enumerate(tokens))
            if ways and weight > -math.inf:
                found[tokens] = weight + math.log(ways)
        return found


@st.composite
def make_cases(draw: st.DrawFn) -> Case:
    states, vocab, width = draw(st.integers(1, 4)), draw(st.integers(2, 5)), draw(st.integers(1, 5))
    generator = np.random.default_rng(draw(st.integers(0, 2**20)))
    table = generator.integers(0, states, size=(states, vocab))
    table[generator.random((states, vocab)) < draw(st.sampled_from([0.0, 0.3, 0.6]))] = -1
    accepting = draw(st.sets(st.integers(0, states - 1), min_size=1))
    ends = draw(st.lists(st.integers(0, vocab - 1), min_size=1, max_size=2, unique=True))
    try:
        automaton = automaton_of(table, accepting, ends)
    except OptionError:
        assume(False)
    scores = draw(st.sampled_from([1.0, 20.0, 500.0])) * torch.from_numpy(generator.normal(size=(width, vocab)))
    scores[torch.from_numpy(generator.random((width, vocab)) < draw(st.sampled_from([0.0, 0.2, 0.6])))] = -math.inf
    starts = [automaton.start]
    if draw(st.booleans()):
        starts = sorted(draw(st.sets(st.integers(0, automaton.done), min_size=1, max_size=3)))
    return Case(automaton, scores.float(), starts, draw(st.sampled_from([0, 0, 1, 2, 3, None])))


@given(case=make_cases())
@settings(max_examples=cases(250, 4000))
def test_it_is_the_enumeration(case: Case) -> None:
    valid = case.valid()
    lattice = Lattice(case.automaton)
    emissions = lattice.emissions(case.scores_CV)
    start = case.starts[0] if len(case.starts) == 1 else case.starts
    if not valid:
        with pytest.raises(OptionError, match="satisfies the constraint"):
            lattice.posterior(emissions, start, case.budget)
        return
    found = lattice.posterior(emissions, start, case.budget)
    total = np.logaddexp.reduce(list(valid.values()))
    marginal_CV = np.zeros(case.scores_CV.shape)
    for tokens, weight in valid.items():
        marginal_CV[range(len(tokens)), tokens] += math.exp(weight - total)
    log_CV = found.apply(case.scores_CV)
    assert log_CV.dtype == torch.float32
    np.testing.assert_allclose(log_CV.exp(), marginal_CV, atol=NEAR * max(1, abs(total) / 100))
    assert bool((log_CV[torch.from_numpy(marginal_CV) == 0] < -50).all())
    entropy_C = np.where(marginal_CV > 0, -marginal_CV * np.log(np.maximum(marginal_CV, 1e-300)), 0).sum(axis=1)
    np.testing.assert_allclose(found.entropy_C, entropy_C, atol=10 * NEAR)
    assert found.log_total == pytest.approx(total, rel=1e-6, abs=NEAR)

    canvas = tuple(found.canvas_C.tolist())
    weights = {tokens: case.scores_CV[range(len(tokens)), tokens].double().sum().item() for tokens in valid}
    assert weights[canvas] == pytest.approx(max(weights.values()), rel=1e-6, abs=1e-6)
    ends = [end for state in case.starts if (end := case.automaton.advance(state, canvas)) >= 0]
    assert ends
    assert case.budget is None or case.automaton.distance_S[ends].min() <= case.budget


# Tokens 0 and 1 end, 0 fills; the text is any number of 2s and 3s after a 2.
AUTOMATON = automaton_of([[-1, -1, 1, -1], [-1, -1, 1, 1]], [1], [0, 1])


def canvas(scores_CV: Tensor, budget: int | None, start: int = AUTOMATON.start) -> list[int]:
    lattice = Lattice(AUTOMATON)
    tokens: list[int] = lattice.posterior(lattice.emissions(scores_CV), start, budget).canvas_C.tolist()
    return tokens


def test_of_equal_canvases_the_lower_tokens_win() -> None:
    assert canvas(torch.zeros(4, 4), 0) == [2, 0, 0, 0]
    assert canvas(torch.zeros(4, 4), None) == [2, 0, 0, 0]
    scores = torch.zeros(3, 4)
    scores[:, :2] = -1.0
    assert canvas(scores, 1) == [2, 2, 2]


def test_the_budget_decides_whether_the_canvas_has_to_end() -> None:
    scores = torch.tensor([[-5.0, -5.0, 0.0, 0.0]]).expand(4, -1)
    assert canvas(scores, None) == canvas(scores, 1) == [2, 2, 2, 2]
    assert canvas(scores, 0) == [2, 2, 2, 0]
    assert canvas(scores, 0, AUTOMATON.done) == [0, 0, 0, 0]
    with pytest.raises(OptionError, match="it takes 2 tokens, 1 are left"):
        canvas(scores[:1], 0)
    assert canvas(scores[:1], 1) == [2]


def test_pins_are_tokens_without_an_alternative() -> None:
    scores = torch.zeros(5, 4)
    pinned = torch.full_like(scores, -math.inf)
    pinned[1, 3] = pinned[3, 1] = 0.0
    pinned[[0, 2, 4]] = 0.0
    assert canvas(scores + pinned, 0) == [2, 3, 2, 1, 0]
    lattice = Lattice(AUTOMATON)
    found = lattice.posterior(lattice.emissions(scores + pinned), AUTOMATON.start, 0)
    assert found.entropy_C.tolist() == pytest.approx([0, 0, math.log(2), 0, 0], abs=1e-6)
    pinned[2] = -math.inf
    pinned[2, 0] = 0.0
    with pytest.raises(OptionError, match="together with the tokens that are given"):
        canvas(scores + pinned, 0)


def test_a_position_where_nothing_may_stand_is_refused() -> None:
    scores = torch.zeros(3, 4)
    scores[1] = -math.inf
    with pytest.raises(OptionError, match="no text satisfies"):
        canvas(scores, 0)


def test_what_is_nearly_impossible_is_taken_when_nothing_else_is_valid() -> None:
    scores = torch.full((300, 4), -1e6)
    scores[:, 3] = 0.0
    assert canvas(scores, 0) == [2] + 298 * [3] + [0]
    lattice = Lattice(AUTOMATON)
    found = lattice.posterior(lattice.emissions(scores), AUTOMATON.start, 0)
    assert found.log_total == pytest.approx(-2e6, rel=1e-6)
    assert bool(found.entropy_C.isfinite().all())
    assert found.apply(scores).exp().sum(dim=-1).numpy() == pytest.approx(1.0, abs=0.2)


def test_rows_may_come_in_parts() -> None:
    scores = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    lattice = Lattice(AUTOMATON)
    whole = lattice.posterior(lattice.emissions(scores), AUTOMATON.start, 0)
    parts = lattice.posterior(Emissions.cat([lattice.emissions(part) for part in scores.split(7)]), AUTOMATON.start, 0)
    assert torch.equal(whole.canvas_C, parts.canvas_C)
    torch.testing.assert_close(whole.entropy_C, parts.entropy_C)
    applied = torch.cat([parts.apply(scores[begin : begin + 9], slice(begin, begin + 9)) for begin in range(0, 50, 9)])
    torch.testing.assert_close(applied, whole.apply(scores))
    assert torch.equal(applied.exp() > 0, applied > -math.inf)


def test_a_constant_added_to_a_position_changes_nothing() -> None:
    scores = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    lattice = Lattice(AUTOMATON)
    one = lattice.posterior(lattice.emissions(scores), AUTOMATON.start, 0)
    other = lattice.posterior(lattice.emissions(scores - 7 * torch.arange(6.0)[:, None]), AUTOMATON.start, 0)
    assert torch.equal(one.canvas_C, other.canvas_C)
    torch.testing.assert_close(
        one.apply(scores), other.apply(scores - 7 * torch.arange(6.0)[:, None]), atol=1e-4, rtol=0
    )


@given(case=make_cases())
@settings(max_examples=cases(150, 2000))
def test_of_equally_good_canvases_the_one_of_the_lowest_tokens_is_taken(case: Case) -> None:
    assume(len(case.starts) == 1)
    case = replace(case, scores_CV=case.scores_CV.sign())  # many ties, and sums that are exact
    best = {tokens: sum(float(case.scores_CV[c, v]) for c, v in enumerate(tokens)) for tokens in case.valid()}
    assume(best)
    lattice = Lattice(case.automaton)
    found = lattice.posterior(lattice.emissions(case.scores_CV), case.starts[0], case.budget)
    assert tuple(found.canvas_C.tolist()) == min(t for t, weight in best.items() if weight == max(best.values()))


@given(data=st.data(), groups=st.integers(1, 12), seed=st.integers(0, 2**20))
@settings(max_examples=cases(100, 1000))
def test_segments_are_plain_reductions(data: st.DataObject, groups: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    sizes = data.draw(st.lists(st.sampled_from([1, 1, 2, 9, 300, 3000]), min_size=groups, max_size=groups))
    owner = generator.permutation(np.repeat(np.arange(-1, groups), [data.draw(st.sampled_from([0, 5])), *sizes]))
    x = torch.from_numpy(generator.choice([0.0, 1.5, -3.0, -400.0, -math.inf], size=(2, len(owner)))).float()
    segments = Segments(owner, groups, torch.device("cpu"))
    total, entropy, best, place = segments.summary(x)
    torch.testing.assert_close(segments.logsumexp(x.double()), total, rtol=1e-5, atol=1e-5)
    for group in range(groups):
        members = np.flatnonzero(owner == group)
        part = x[:, members].double()
        torch.testing.assert_close(total[:, group], part.logsumexp(dim=-1), rtol=1e-5, atol=1e-5)
        assert torch.equal(best[:, group].double(), part.amax(dim=-1))
        for row in range(2):
            assert place[row, group] == members[int(np.argmax(part[row].numpy()))]
            if part[row].max() > -math.inf:
                share = part[row].softmax(dim=-1)
                assert float(entropy[row, group]) == pytest.approx(float(torch.special.entr(share).sum()), abs=1e-3)


@given(case=make_cases())
@settings(max_examples=cases(100, 2000))
def test_plain_products_agree_with_log_space(case: Case) -> None:
    assume(case.scores_CV.max() < 100)
    lattice = Lattice(case.automaton)
    emissions = lattice.emissions(case.scores_CV)
    first = np.full(len(case.automaton.next_SK), -math.inf)
    first[case.starts] = 0.0
    last = np.where(case.automaton.distance_S <= 2, 0.0, -math.inf)
    assume(bool((emissions.total > -math.inf).any(dim=-1).all()))
    plain = lattice._plain(lattice._windows.whole, emissions.total, first, last)
    factors, total = lattice._in_log_space(lattice._windows.whole, emissions.total, first, last)
    assume(total > -math.inf)
    if plain is None:  # every way is far below the best of some position
        shares = (factors + emissions.total).exp()
        assert bool(shares.isfinite().all())
        return
    shares = [torch.nan_to_num((factor + emissions.total).exp()) for factor in (plain[0], factors)]
    torch.testing.assert_close(*shares, atol=1e-9, rtol=1e-6)
    assert plain[1] == pytest.approx(total, rel=1e-9, abs=1e-9)


def test_what_plain_products_lose_is_found_in_log_space() -> None:
    """One way pays early and one late: in the middle each is as good as impossible on one side."""
    scores = torch.full((300, 4), -40.0)
    scores[:, 3] = 0.0
    # 0 starts; 2s lead through 1 to 39 to 40, where 3s are free; a 3 leads to 41, where they are free as well, and from
    # there 2s lead through 42 to 90 to 91, where the text may end.
    table = np.full((92, 4), -1)
    table[range(40), 2], table[40, 3] = range(1, 41), 40
    table[0, 3] = table[41, 3] = 41
    table[range(41, 91), 2] = range(42, 92)
    lattice = Lattice(automaton_of(table, [40, 91], [0, 1]))
    automaton, emissions = lattice.automaton, lattice.emissions(scores)
    first = np.full(len(automaton.next_SK), -math.inf)
    first[automaton.start] = 0.0
    last = np.where(automaton.distance_S <= 0, 0.0, -math.inf)
    assert lattice._plain(lattice._windows.whole, emissions.total, first, last) is None
    found = lattice.posterior(emissions, automaton.start, 0)
    assert found.canvas_C.tolist() == 40 * [2] + 259 * [3] + [0]
    assert bool(found.entropy_C.isfinite().all())
    assert found.log_total == pytest.approx(-1640, abs=0.7)  # the last token may be either end
