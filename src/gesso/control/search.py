"""Searches for a better answer: several candidates from fresh seeds, and a choice among them.

A candidate is a whole answer, made by a request of its own; candidate i has the seed of the first one plus i. With a
grader, candidates are made until one is right. Whatever the grader leaves open is decided by `select`: the candidate
that the causal pass finds likeliest a token, or the answer that most candidates agree on (self-consistency, arXiv
2203.11171). A canvas settles on wrong answers as surely as on right ones, so its own confidence decides nothing.
"""

import random
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from gesso.control.grading import Augment, Grader, augmented, grade, passes, prompt_text, restored, with_prompt_text
from gesso.control.job import Job
from gesso.control.search_options import Select
from gesso.display import html
from gesso.engine.engine import Engine, Request
from gesso.engine.prompt import Prompt
from gesso.engine.result import GenerationResult
from gesso.engine.seeds import numbered_seed
from gesso.errors import OptionError
from gesso.generation import mode_of
from gesso.options import Choice, Integer
from gesso.text.graded import graded_text

MOST_CANDIDATES = 256


@dataclass(frozen=True, slots=True)
class Candidate:
    """Holds one answer of a search, with what was found of it."""

    result: GenerationResult
    score: float | None
    """What the grader says, 1 where it is right; None without a grader."""
    mean_logprob: float | None
    """Nats a token by the causal pass; None where nobody asked for it."""
    votes: int
    """Candidates that answer the same, itself included."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Holds the outcome of a search. Candidates stand in the order of their seeds."""

    candidates: tuple[Candidate, ...]
    best: Candidate
    select: Select
    passed: bool | None
    """Whether the grader finds the best one right; None without a grader."""
    denoising_passes: int
    """Denoising steps of all candidates, passes of verification included."""
    scoring_passes: int
    """Causal passes over finished candidates that only their likelihood needed."""

    @property
    def passes(self) -> int:
        """Returns all passes behind the prompts, commits of canvases not."""
        return self.denoising_passes + self.scoring_passes

    def ranked(self) -> list[Candidate]:
        """Returns the candidates, the best first."""
        return sorted(self.candidates, key=lambda candidate: _rank(candidate, self.select), reverse=True)

    def _repr_html_(self) -> str:
        """Returns the best answer and what was found of all, for a notebook."""
        rows = [
            (each.result.text, *map(_shown, (each.score, each.mean_logprob)), str(each.votes), str(each.result.seed))
            for each in self.ranked()
        ]
        heads = ("answer", "score", "nats a token", "votes", "seed")
        facts = [html.count(self.passes, "pass", "passes"), f"chosen by {self.select}"]
        return html.block([html.pre(self.best.result.text), html.table(heads, rows), html.line(facts)])

    def to_dict(self) -> dict[str, Any]:
        """Returns a JSON-ready account of the search, without the answers."""
        return {
            "candidates": [
                {
                    "seed": candidate.result.seed,
                    "score": candidate.score,
                    "mean_logprob": candidate.mean_logprob,
                    "votes": candidate.votes,
                    "denoising_steps": list(candidate.result.denoising_steps),
                }
                for candidate in self.candidates
            ],
            "select": self.select,
            "passed": self.passed,
            "denoising_passes": self.denoising_passes,
            "scoring_passes": self.scoring_passes,
        }


@dataclass(frozen=True, slots=True)
class _Form:
    """What a candidate is asked, and how its answer becomes one to what the search was asked."""

    prompt: Prompt
    restore: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Makes the requests of candidates, by their number."""

    prompt: Prompt
    text: str
    """Text of the prompt; empty where nobody reads it."""
    seeds: Sequence[int]
    options: Mapping[str, Any]
    adapter: str | None
    augment: Augment | None
    grader: Grader | None
    """Asked of every step's canvas."""

    def form(self, number: int) -> _Form:
        """Returns what a candidate is asked about: the first what the search was."""
        if self.augment is None or number == 0:
            return _Form(self.prompt, str)
        other = augmented(self.augment, self.text, random.Random(self.seeds[number]))
        prompt = None if other is None else with_prompt_text(self.prompt, other.prompt)
        return _Form(self.prompt, str) if other is None or prompt is None else _Form(prompt, other.restore)

    def request(self, number: int, form: _Form) -> Request:
        """Returns the request of a candidate."""
        own = {**self.options, "seed": self.seeds[number]}
        if (grader := self.grader) is not None:
            own["accept"] = lambda answer: passes(grade(grader, self.text, restored(form.restore, answer)))
        return Request(form.prompt, own, self.adapter)


def search(
    engine: Engine,
    prompt: Prompt,
    *,
    best_of: int = 8,
    select: Select | None = None,
    grader: Grader | None = None,
    at_once: int = 1,
    every_step: bool = True,
    adapter: str | None = None,
    augment: Augment | None = None,
    **options: Any,
) -> Job[SearchResult]:
    """Makes up to `best_of` candidates and chooses one.

    Args:
        select: decides between candidates that the grader finds equally good, or between all of them without one.
            None is `likelihood`, and beside a grader `consistency`, which needs no pass.
        grader: ends the search at the first candidate that it finds right: a function of the prompt's text and the
            answer's, which returns 1 or True for right, and less for less.
        at_once: candidates of a round where there is a grader: more finish sooner, and may be made for nothing.
        augment: makes other forms of the prompt for all candidates but the first: what a model does not see in one form
            of a problem it may see in another (test-time augmentation). Texts come back in the form that was asked
            about; tokens and log-probabilities stay those that were written.
        every_step: ask the grader of every step's canvas too: a candidate that is right is done, sure or not. What is
            written token by token has no canvas: it is graded at its end.
        options: see `Request`.

    Raises:
        OptionError: an impossible value, or a grader that fails.
    """
    chosen = _checked(engine, best_of, select, grader, at_once, augment, options)
    given = options.pop("seed", None)
    first = secrets.randbits(31) if given is None else given
    wants_logprobs = options.get("logprobs") is not None
    if chosen == "likelihood" and not wants_logprobs:
        options["logprobs"] = 0
    text = "" if grader is None and augment is None else prompt_text(engine, prompt)
    sees_steps = every_step and mode_of(engine.defaults, options) != "ar"
    seeds = [numbered_seed(first, number) for number in range(best_of)]
    wanted = _Candidates(prompt, text, seeds, options, adapter, augment, grader if sees_steps else None)
    results: list[GenerationResult] = []
    scores: list[float] = []
    while len(results) < best_of and not any(map(passes, scores)):
        left = best_of - len(results)
        numbers = range(len(results), len(results) + (left if grader is None else min(at_once, left)))
        forms = [wanted.form(number) for number in numbers]
        made = yield [wanted.request(number, form) for number, form in zip(numbers, forms, strict=True)]
        fresh = [
            replace(result, text=restored(form.restore, result.text)) for result, form in zip(made, forms, strict=True)
        ]
        results += fresh
        if grader is not None:
            scores += [grade(grader, text, graded_text(result)) for result in fresh]
    return choose_candidate(
        results, chosen, scores if grader is not None else None, likelihood_passes=not wants_logprobs
    )


def choose_candidate(
    results: list[GenerationResult],
    select: Select,
    scores: list[float] | None = None,
    *,
    likelihood_passes: bool = True,
) -> SearchResult:
    """Chooses among finished answers to one prompt.

    Args:
        scores: what a grader says of each.
        likelihood_passes: whether their log-probabilities were read for the choice alone, so that they count.
    """
    votes = Counter(graded_text(result).strip() for result in results)
    candidates = tuple(
        Candidate(
            result,
            None if scores is None else scores[place],
            _mean_logprob(result) if select == "likelihood" else None,
            votes[graded_text(result).strip()],
        )
        for place, result in enumerate(results)
    )
    best = max(candidates, key=lambda candidate: _rank(candidate, select))
    # All canvases but the last are encoded anyway, and token by token all are.
    read = select == "likelihood" and likelihood_passes
    return SearchResult(
        candidates=candidates,
        best=best,
        select=select,
        passed=None if best.score is None else passes(best.score),
        denoising_passes=sum(result.passes for result in results),
        scoring_passes=sum(result.mode == "canvas" for result in results) if read else 0,
    )


def _rank(candidate: Candidate, select: Select) -> tuple[float, float]:
    """What is greatest of the best one; of equals the first is taken."""
    chosen = candidate.mean_logprob if select == "likelihood" else candidate.votes
    assert chosen is not None
    return (0.0 if candidate.score is None else candidate.score), chosen


def _mean_logprob(result: GenerationResult) -> float:
    """The mean, not the sum, which would prefer short answers; that of no tokens is no worse than any."""
    return sum(token.logprob for token in result.logprobs) / len(result.logprobs) if result.logprobs else 0.0


def _is_deterministic(engine: Engine, options: dict[str, Any]) -> bool:
    """Says whether no seed changes an answer: canvases begin as noise, tokens one by one do not."""
    defaults, temperature = engine.defaults, options.get("temperature")
    return mode_of(defaults, options) == "ar" and (defaults.temperature if temperature is None else temperature) == 0


def _shown(number: float | None) -> str:
    return "" if number is None else f"{number:.3g}"


def _checked(
    engine: Engine,
    best_of: int,
    select: Select | None,
    grader: Grader | None,
    at_once: int,
    augment: Augment | None,
    options: dict[str, Any],
) -> Select:
    """Returns how candidates are chosen, and refuses what cannot be searched for; see `search`."""
    if grader is not None and not callable(grader):
        raise OptionError(f"grader must be a function, got {grader!r:.60}", option="grader")
    chosen: Select = select or ("likelihood" if grader is None else "consistency")
    Integer(minimum=1, maximum=MOST_CANDIDATES).check("best_of", best_of)
    Choice(get_args(Select)).check("select", chosen)
    Integer(minimum=1).check("at_once", at_once)
    if grader is not None and options.get("accept") is not None:
        raise OptionError("a search with a grader asks it of every step: leave out accept", option="accept")
    if chosen == "likelihood" and best_of > 1 and engine.config.mask_token_id is not None:
        raise OptionError(
            "the likeliest answer is found by a causal pass, which a model of masked blocks does not have",
            option="select",
            hint="select consistency takes the answer that most candidates agree on",
        )
    if best_of > 1 and augment is None and _is_deterministic(engine, options):
        raise OptionError(
            "written token by token at temperature 0, an answer is the same for every seed, and best_of has nothing to "
            "choose from: give a temperature above 0, or mode canvas",
            option="best_of",
        )
    return chosen
