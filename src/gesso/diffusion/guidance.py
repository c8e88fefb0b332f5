"""Guides a canvas: away from what another prompt would say, and towards what a score prefers.

*Classifier-free* (D-CFG, arXiv 2412.10193; arXiv 2207.12598): the canvas goes through the model behind a second prompt
too, a negative or an empty one, in the same flat pass, and the logits are those of the second plus `scale` times the
difference. Scale 1 is no guidance, and takes no second pass; 0 is the second prompt alone.

*By a classifier* (D-CBG, same paper): `Classifier.gains` says by how much the log-probability of what is wanted would
change if a position held another token, and is added to the logits. `Differentiable` takes it from one gradient at the
canvas's prediction (first order), `BlackBox` from trying the likeliest tokens one by one. `Nested` gives parts of the
canvas classifiers of their own, each with an interval of its own (as hackable_diffusion's NestedGuidanceFn does for the
parts of its data).

Both hold between two noise levels only, where an interval is given (arXiv 2404.07724). What they change is logits:
pins, constraints, samplers and stopping rules see a prediction like any other.

    C canvas length   V vocabulary   D hidden
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from gesso.errors import OptionError
from gesso.options.user_code import failures_of

if TYPE_CHECKING:
    from torch import Tensor


class Scores(Protocol):
    """Gives all that logits processing knows of a vocabulary."""

    def logits(self, hidden_ND: "Tensor", /) -> "Tensor":
        """Returns scores of hidden states, [N, V] fp32, which the caller may change in place."""

    def mix(self, scores_NV: "Tensor", /) -> "Tensor":
        """Returns the self-conditioning of distributions, [N, D]."""


@runtime_checkable
class Classifier(Protocol):
    """Prefers some canvases to others."""

    def gains(self, logits_CV: "Tensor") -> "Tensor":
        """Returns what each token at each position would add to the score, nats, [C, V]; it changes nothing.

        Args:
            logits_CV: what the model predicts, untempered.
        """


@runtime_checkable
class TimedClassifier(Classifier, Protocol):
    """Prefers other canvases at other noise levels."""

    def at(self, time: float) -> Classifier | None:
        """Returns what guides a step at a noise level; None where nothing does."""


@dataclass(frozen=True)
class Part:
    """Guides some neighbouring positions of a canvas, between two noise levels."""

    classifier: Classifier
    """Is given the logits of these positions alone."""
    first: int = 0
    stop: int | None = None
    """Positions of the canvas; None is its end."""
    start: float = 1.0
    end: float = 0.0
    """Noise levels between which it holds."""

    def __post_init__(self) -> None:
        if self.first < 0 or (self.stop is not None and self.stop <= self.first):
            raise OptionError(f"a part needs 0 <= first < stop, got {self.first} and {self.stop}", option="classifier")
        if not 0 <= self.end < self.start <= 1:
            raise OptionError(
                f"a part needs 0 <= end < start <= 1, got {self.end} and {self.start}", option="classifier"
            )


@dataclass(frozen=True)
class Nested:
    """Guides each part of a canvas by a classifier of its own; where parts overlap, what they add is summed. A part may
    hold a `Nested` in its turn."""

    parts: tuple[Part, ...]

    def at(self, time: float) -> "Nested | None":
        """Returns the parts that hold at a noise level; None where none does."""
        held = []
        for part in self.parts:
            inner = _at(part.classifier, time) if part.end < time <= part.start else None
            if inner is not None:
                held.append(replace(part, classifier=inner))
        return Nested(tuple(held)) if held else None

    def gains(self, logits_CV: "Tensor") -> "Tensor":
        import torch

        gains_CV = torch.zeros_like(logits_CV)
        for part in self.parts:
            place = slice(part.first, part.stop)
            if len(logits_CV[place]):
                gains_CV[place] += checked_gains(part.classifier, logits_CV[place])
        return gains_CV


def checked_gains(classifier: Classifier, logits_CV: "Tensor") -> "Tensor":
    """Returns what a classifier, which may be the user's own, gains, as the logits' type.

    Raises:
        OptionError: it fails, or returns anything else than a tensor [C, V].
    """
    import torch

    with failures_of("classifier", "the classifier"):
        gains_CV = classifier.gains(logits_CV)
    if not isinstance(gains_CV, torch.Tensor) or gains_CV.shape != logits_CV.shape:
        got = list(gains_CV.shape) if isinstance(gains_CV, torch.Tensor) else f"{gains_CV!r:.60}"
        message = f"classifier: its gains must be a tensor of shape {list(logits_CV.shape)}, got {got}"
        raise OptionError(message, option="classifier")
    return gains_CV.to(logits_CV)


def _check_score(score: object) -> None:
    if not callable(score):
        raise OptionError(f"classifier: its score must be a function, got {score!r:.60}", option="classifier")


def _at(classifier: Classifier, time: float) -> Classifier | None:
    return classifier.at(time) if isinstance(classifier, TimedClassifier) else classifier


@dataclass(frozen=True)
class Differentiable:
    """Guides by the gradient of a score of token probabilities."""

    score: "Callable[[Tensor], Tensor]"
    """Takes probabilities [C, V] and returns one number; differentiable."""
    scale: float = 1.0

    def __post_init__(self) -> None:
        _check_score(self.score)

    def gains(self, logits_CV: "Tensor") -> "Tensor":
        import torch

        with torch.inference_mode(False), torch.enable_grad():
            shares_CV = logits_CV.clone().softmax(dim=-1).detach().requires_grad_()
            value = self.score(shares_CV)
            if not isinstance(value, torch.Tensor) or value.numel() != 1:
                got = list(value.shape) if isinstance(value, torch.Tensor) else f"{value!r:.60}"
                message = f"classifier: the score of a Differentiable must be a tensor of one number, got {got}"
                raise OptionError(message, option="classifier")
            gradient_CV = None
            if value.requires_grad:
                (gradient_CV,) = torch.autograd.grad(value, shares_CV, allow_unused=True)
        if gradient_CV is None:
            message = (
                "classifier: the score of a Differentiable has no gradient: it does not depend on the probabilities"
            )
            raise OptionError(message, option="classifier", hint="detach(), item() and torch.tensor() break it")
        return self.scale * gradient_CV


@dataclass(frozen=True)
class BlackBox:
    """Guides by a score of whole canvases, tried with another token at one position at a time.

    A step costs the score `top` - 1 calls for each position whose likeliest token has a probability below `sure`.
    """

    score: Callable[[Sequence[int]], float]
    """Takes the token ids of a canvas."""
    scale: float = 1.0
    top: int = 4
    """Tokens that are tried at a position; the others gain what the least of them does."""
    sure: float = 0.99

    def __post_init__(self) -> None:
        _check_score(self.score)
        if self.top < 1:
            raise OptionError(f"a BlackBox needs a top of at least 1, got {self.top}", option="classifier")

    def gains(self, logits_CV: "Tensor") -> "Tensor":
        import torch

        likeliest, ids_CT = logits_CV.softmax(dim=-1).topk(min(self.top, logits_CV.shape[1]), dim=-1)
        said = ids_CT[:, 0].tolist()
        base = self.score(said)
        gains_CV = torch.zeros_like(logits_CV)
        for place in (likeliest[:, 0] < self.sure).nonzero()[:, 0].tolist():
            before, after = said[:place], said[place + 1 :]
            others = (self.score([*before, token, *after]) - base for token in ids_CT[place, 1:].tolist())
            tried = [0.0, *others]
            gains_CV[place] = min(tried)
            gains_CV[place, ids_CT[place]] = torch.tensor(tried, dtype=gains_CV.dtype, device=gains_CV.device)
        return self.scale * gains_CV


@dataclass(frozen=True, slots=True)
class Guidance:
    """Holds how a request guides its canvases."""

    scale: float = 1.0
    """1 takes the prompt's prediction as it is."""
    start: float = 1.0
    end: float = 0.0
    """Noise levels between which it holds: the first step is at 1, and after the last comes 0."""
    classifier: Classifier | None = None

    def holds(self, time: float) -> bool:
        """Says whether a step at a noise level is guided at all."""
        return self.end < time <= self.start

    def doubles(self, time: float) -> bool:
        """Says whether a step at a noise level takes a second pass."""
        return self.scale != 1 and self.holds(time)

    def steers(self, time: float) -> bool:
        """Says whether a classifier guides a step at a noise level."""
        return self.holds(time) and self.classifier_at(time) is not None

    def classifier_at(self, time: float) -> Classifier | None:
        """Returns the classifier that guides a step at a noise level."""
        return None if self.classifier is None else _at(self.classifier, time)


class GuidedScores:
    """Scores pairs of hidden states, [N, 2 D]: those behind the prompt beside those behind the second one."""

    def __init__(self, vocabulary: Scores, scale: float) -> None:
        self._vocabulary = vocabulary
        self._scale = scale

    def logits(self, hidden_ND: "Tensor") -> "Tensor":
        own, other = (self._vocabulary.logits(part.contiguous()) for part in hidden_ND.chunk(2, dim=-1))
        return other + self._scale * (own - other)

    def mix(self, scores_NV: "Tensor") -> "Tensor":
        return self._vocabulary.mix(scores_NV)


class GivenScores:
    """Scores positions whose logits were made before: they stand in the place of hidden states."""

    def __init__(self, vocabulary: Scores) -> None:
        self._vocabulary = vocabulary

    def logits(self, logits_NV: "Tensor") -> "Tensor":
        return logits_NV.clone()

    def mix(self, scores_NV: "Tensor") -> "Tensor":
        return self._vocabulary.mix(scores_NV)


def guided_scores(guidance: Guidance, time: float, vocabulary: Scores, hidden_CD: "Tensor") -> "tuple[Scores, Tensor]":
    """Returns what scores a guided canvas, and what stands in the place of its hidden states.

    Args:
        hidden_CD: where the step takes a second pass, of both side by side, [C, 2 D].

    Raises:
        OptionError: a classifier fails, or its gains are no tensor [C, V] or leave no distribution of tokens
            somewhere.
    """
    scores: Scores = vocabulary
    if guidance.doubles(time):
        scores = GuidedScores(vocabulary, guidance.scale)
    if guidance.steers(time):
        classifier = guidance.classifier_at(time)
        assert classifier is not None
        logits_CV = scores.logits(hidden_CD)
        guided_CV = logits_CV + checked_gains(classifier, logits_CV)
        # A gain of -inf makes a token impossible; NaN, inf, and -inf for all of them are no distribution.
        if not bool(guided_CV.amax(dim=-1).isfinite().all()):
            message = "classifier: its gains must be numbers, or -inf for some of the tokens of a position"
            raise OptionError(message, option="classifier")
        return GivenScores(vocabulary), guided_CV
    return scores, hidden_CD
