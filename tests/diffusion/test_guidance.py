"""Guidance of logits: what it adds, where it holds, and what it must not touch."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gesso.diffusion.guidance import (
    BlackBox,
    Classifier,
    Differentiable,
    Guidance,
    GuidedScores,
    Nested,
    Part,
    guided_scores,
)
from gesso.errors import OptionError
from gesso.nn.vocabulary import Vocabulary

WIDTH, VOCAB = 6, 11


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return make_vocabulary()


def make_vocabulary() -> Vocabulary:
    made = Vocabulary(VOCAB, 5, 30.0)
    torch.nn.init.normal_(made.weight, generator=torch.Generator().manual_seed(0))
    return made


def hidden(seed: int) -> Tensor:
    return torch.randn(WIDTH, 5, generator=torch.Generator().manual_seed(seed))


@given(st.floats(0, 20, width=32))
def test_logits_are_the_second_ones_and_so_many_times_the_difference(scale: float) -> None:
    vocabulary = make_vocabulary()
    own, other = hidden(1), hidden(2)
    with torch.no_grad():
        found = GuidedScores(vocabulary, scale).logits(torch.cat((own, other), dim=-1))
        expected = vocabulary.logits(other) + scale * (vocabulary.logits(own) - vocabulary.logits(other))
        alone = vocabulary.logits(other)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-3)
    if scale == 0:
        assert torch.equal(found, alone)


@given(st.floats(0.01, 1), st.floats(0, 0.99), st.integers(1, 12), st.floats(0, 5))
def test_it_holds_between_two_levels_only(start: float, end: float, steps: int, scale: float) -> None:
    guidance = Guidance(scale, start, end)
    for step in range(1, steps + 1):
        time = (steps - step + 1) / steps
        assert guidance.holds(time) == (end < time <= start)
        assert guidance.doubles(time) == (scale != 1 and end < time <= start)
        assert not guidance.steers(time)


def test_outside_of_the_levels_nothing_is_made_of_hidden_states(vocabulary: Vocabulary) -> None:
    states = hidden(1)
    for guidance, time in ((Guidance(), 0.5), (Guidance(3.0, 0.4, 0.2), 0.5), (Guidance(3.0, 0.4, 0.2), 0.2)):
        scores, found = guided_scores(guidance, time, vocabulary, states)
        assert scores is vocabulary
        assert found is states


def test_the_gradient_of_a_score_is_added(vocabulary: Vocabulary) -> None:
    weights_CV = torch.randn(WIDTH, VOCAB, generator=torch.Generator().manual_seed(5))
    classifier = Differentiable(lambda shares_CV: (shares_CV * weights_CV).sum(), scale=2.0)
    assert isinstance(classifier, Classifier)
    with torch.inference_mode():
        plain = vocabulary.logits(hidden(1))
        scores, stood = guided_scores(Guidance(classifier=classifier), 1.0, vocabulary, hidden(1))
        assert torch.allclose(scores.logits(stood), plain + 2.0 * weights_CV, atol=1e-5)
        scores.logits(stood).fill_(0)
        assert not torch.equal(scores.logits(stood), torch.zeros_like(plain)), "the caller may spoil what it gets"


def test_a_black_box_is_tried_where_the_model_is_not_sure() -> None:
    logits_CV = torch.zeros(3, 5)
    logits_CV[0, 2] = 50.0  # sure
    logits_CV[1, :3] = torch.tensor([3.0, 2.0, 1.0])
    logits_CV[2, 2:] = torch.tensor([1.0, 2.0, 3.0])
    calls: list[list[int]] = []

    def score(tokens: Any) -> float:
        calls.append(list(tokens))
        return float(tokens[1] == 1) + 10 * float(tokens[2] == 2) - float(tokens[1] == 2)

    gains = BlackBox(score, scale=3.0, top=3).gains(logits_CV)
    assert calls[0] == [2, 0, 4]
    assert sorted(calls[1:]) == [[2, 0, 2], [2, 0, 3], [2, 1, 4], [2, 2, 4]], (
        "one position at a time, none that is sure"
    )
    assert gains[0].tolist() == [0.0] * 5
    assert gains[1].tolist() == [0.0, 3.0, -3.0, -3.0, -3.0], "what is not tried gains what the worst does"
    assert gains[2].tolist() == [0.0, 0.0, 30.0, 0.0, 0.0]


class Likes:
    """Adds a number to one token everywhere."""

    def __init__(self, token: int, nats: float) -> None:
        self.token, self.nats = token, nats

    def gains(self, logits_CV: Tensor) -> Tensor:
        gains_CV = torch.zeros_like(logits_CV)
        gains_CV[:, self.token] = self.nats
        return gains_CV


def test_nested_parts_are_guided_each_by_its_own() -> None:
    inner = Nested((Part(Likes(2, 4.0), 0, 1), Part(Likes(1, 1.0), start=0.3)))
    guidance = Guidance(classifier=Nested((Part(Likes(0, 2.0), 1, 3), Part(inner, 3, start=0.5))))
    expected = torch.zeros(6, 5)
    expected[1:3, 0] = 2.0
    found = guidance.classifier_at(0.8)
    assert found is not None
    assert found.gains(torch.zeros(6, 5)).equal(expected)
    expected[3, 2] = 4.0
    found = guidance.classifier_at(0.5)
    assert found is not None
    assert found.gains(torch.zeros(6, 5)).equal(expected)
    expected[3:, 1] = 1.0
    found = guidance.classifier_at(0.2)
    assert found is not None
    assert found.gains(torch.zeros(6, 5)).equal(expected)
    assert found.gains(torch.zeros(2, 5)).equal(expected[:2]), "a narrower canvas has fewer parts"


def test_a_step_that_no_part_guides_costs_what_it_always_does() -> None:
    late = Guidance(classifier=Nested((Part(Likes(0, 1.0), start=0.4, end=0.2),)))
    assert [late.steers(time) for time in (1.0, 0.5, 0.4, 0.3, 0.2, 0.1)] == [False, False, True, True, False, False]
    assert not Guidance(start=0.3, classifier=late.classifier).steers(0.4)
    assert isinstance(late.classifier, Classifier)


@pytest.mark.parametrize("wrong", [{"first": -1}, {"first": 3, "stop": 3}, {"start": 0.2, "end": 0.5}, {"start": 1.5}])
def test_an_impossible_part_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="a part needs"):
        Part(Likes(0, 1.0), **wrong)


def test_a_score_without_a_gradient_is_refused() -> None:
    other = torch.ones((), requires_grad=True)
    for score in (lambda shares_CV: shares_CV.detach().sum(), lambda _: other * 2):
        with pytest.raises(OptionError, match="the score of a Differentiable has no gradient"):
            Differentiable(score).gains(torch.zeros(3, 5))


def test_a_black_box_tries_one_token_at_least() -> None:
    assert BlackBox(lambda _: 1.0, top=1).gains(torch.zeros(3, 5)).equal(torch.zeros(3, 5))
    with pytest.raises(OptionError, match="a BlackBox needs a top of at least 1, got 0") as caught:
        BlackBox(lambda _: 1.0, top=0)
    assert caught.value.option == "classifier"


@pytest.mark.parametrize("nats", [float("nan"), float("inf")])
def test_gains_that_leave_no_distribution_are_refused(vocabulary: Vocabulary, nats: float) -> None:
    with torch.no_grad(), pytest.raises(OptionError, match="gains must be numbers"):
        guided_scores(Guidance(classifier=Likes(2, nats)), 1.0, vocabulary, hidden(1))
    with torch.no_grad():
        scores, stood = guided_scores(Guidance(classifier=Likes(2, -float("inf"))), 1.0, vocabulary, hidden(1))
        assert bool((scores.logits(stood)[:, 2] == -float("inf")).all()), "a token may be impossible"


class Given:
    """Gains whatever it is given."""

    def __init__(self, gains: object) -> None:
        self._gains = gains

    def gains(self, logits_CV: torch.Tensor) -> torch.Tensor:
        if isinstance(self._gains, Exception):
            raise self._gains
        return self._gains  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("classifier", "message"),
    [
        (Given("x"), "its gains must be a tensor of shape .*, got 'x'"),
        (Given(None), "its gains must be a tensor of shape .*, got None"),
        (Given(torch.zeros(3)), r"its gains must be a tensor of shape .*, got \[3\]"),
        (Nested((Part(Given(torch.zeros(1, 1))),)), r"its gains must be a tensor of shape .*, got \[1, 1\]"),
        (Given(ZeroDivisionError("by zero")), "^the classifier failed: ZeroDivisionError: by zero"),
        (Differentiable(lambda shares_CV: 5.0), "tensor of one number, got 5.0"),  # type: ignore[arg-type, return-value]
        (Differentiable(lambda shares_CV: shares_CV.sum(-1)), r"tensor of one number, got \["),
        (BlackBox(lambda tokens: "x", sure=1.0), "^the classifier failed: TypeError"),  # type: ignore[arg-type, return-value]
    ],
)
def test_a_classifier_that_gives_something_else_is_the_options_fault(
    vocabulary: Vocabulary, classifier: Classifier, message: str
) -> None:
    with pytest.raises(OptionError, match=message) as error:
        guided_scores(Guidance(classifier=classifier), 1.0, vocabulary, hidden(1))
    assert error.value.option == "classifier"


@pytest.mark.parametrize("kind", [Differentiable, BlackBox])
def test_a_score_is_a_function(kind: Any) -> None:
    with pytest.raises(OptionError, match="its score must be a function, got 5"):
        kind(5)
