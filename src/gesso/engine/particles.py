"""Denoises several canvases of one prompt as particles, of which the promising ones are copied over the others.

Life cycle: P requests for the same prompt, each with a seed of its own, take their steps in one batch. After every
`resample_every` of them each particle's predicted text is scored; its weight is multiplied by exp(reward_scale *
(score - its score before)). Where the weights have become too uneven (the effective number of particles is below half
of those that run), particles are drawn anew in proportion to them (systematic resampling): whoever is not drawn goes on
from a copy of another's canvas, with random numbers of its own (sequential Monte Carlo; Feynman-Kac steering, arXiv
2501.06848). A canvas that is finished leaves with its answer, whose own score completes its weight: so weighted answers
are of the model's distribution times exp(reward_scale * score), ever more nearly with more particles.

Only canvases are copied, not what is committed: an answer has one canvas.
"""

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gesso.display import html
from gesso.engine.engine import Engine, Request
from gesso.engine.engine_core import EngineCore
from gesso.engine.prompt import Prompt
from gesso.engine.request_state import RequestState
from gesso.engine.resampling import normalised, relative, systematic
from gesso.engine.result import GenerationResult
from gesso.engine.seeds import numbered_seed
from gesso.errors import OptionError
from gesso.options import Function, Integer, Number
from gesso.options.user_code import failures_of
from gesso.text.graded import graded_text

MOST_PARTICLES = 256

Score = Callable[[str], float]
"""Takes the text of an answer, finished or as it would be now; higher is better."""


@dataclass(frozen=True, slots=True)
class ParticlesResult:
    """Holds the answers of all particles that finished, in the order in which they did."""

    results: tuple[GenerationResult, ...]
    scores: tuple[float, ...]
    """Scores of the same answers."""
    weights: tuple[float, ...]
    """Importance weights of the same answers, which sum to 1."""
    denoising_passes: int
    """Denoising steps that were taken, of all particles; the results' own `denoising_steps` are those of their whole
    ancestry, which particles share."""
    batches: int
    """Passes of the model, each over all particles that ran."""
    resamplings: int
    copies: int
    """Canvases that were replaced by another's."""
    enough: float | None = None
    """The score that would have ended the run."""

    @property
    def passed(self) -> bool | None:
        """Says whether the best answer reached that score; None where there was none."""
        return None if self.enough is None else max(self.scores) >= self.enough

    @property
    def best(self) -> GenerationResult:
        """Returns the answer of the highest score, the first one of equals."""
        return self.results[max(range(len(self.results)), key=lambda place: self.scores[place])]

    def _repr_html_(self) -> str:
        """Returns the best answer, and score and weight of all, for a notebook."""
        parts = zip(self.results, self.scores, self.weights, strict=True)
        rows = [(each.text, f"{score:.3g}", f"{weight:.3g}", str(each.seed)) for each, score, weight in parts]
        facts = [html.count(self.denoising_passes, "denoising pass", "denoising passes")]
        facts += [html.count(self.resamplings, "resampling")]
        heads = ("answer", "score", "weight", "seed")
        return html.block([html.pre(self.best.text), html.table(heads, rows), html.line(facts)])

    def to_dict(self) -> dict[str, Any]:
        """Returns a JSON-ready account of the run, without the answers."""
        return {
            "particles": [
                {
                    "seed": result.seed,
                    "score": score,
                    "weight": weight,
                    "ancestry_steps": sum(result.denoising_steps),
                }
                for result, score, weight in zip(self.results, self.scores, self.weights, strict=True)
            ],
            "passed": self.passed,
            "denoising_passes": self.denoising_passes,
            "batches": self.batches,
            "resamplings": self.resamplings,
            "copies": self.copies,
        }


@dataclass(eq=False, slots=True)
class _Particle:
    state: RequestState
    score: float | None = None
    log_weight: float = 0.0


def particles(
    engine: Engine,
    prompt: Prompt,
    *,
    number: int = 8,
    resample_every: int = 4,
    reward_scale: float = 10.0,
    score: Score | None = None,
    enough: float | None = None,
    **options: Any,
) -> ParticlesResult:
    """Runs particles to their end.

    Args:
        number: of particles.
        resample_every: steps between two resamplings.
        reward_scale: how much more a better score weighs; 0 never resamples.
        score: of a predicted text, a finite number; without one it is the canvas's own certainty: minus its mean
            entropy, in nats.
        enough: ends the run with the first finished answer of this score; what the others would say is given up.
        options: see `Request`.

    Raises:
        OptionError: no engine, an impossible value or score, or an option that needs more than one canvas.
    """
    if not isinstance(engine, Engine):
        raise OptionError.no_engine(engine)
    _check(number, resample_every, reward_scale, score, enough)
    given = options.pop("seed", None)
    first = secrets.randbits(31) if given is None else given
    seeds = [numbered_seed(first, place) for place in range(number)]
    if options.get("max_new_tokens") is None:
        canvas_length = options.get("canvas_length") or engine.defaults.canvas_length
        options["max_new_tokens"] = canvas_length or engine.config.canvas_length
    if options.get("mode") == "ar":
        raise OptionError("particles need canvases: leave mode ar out", option="mode")
    if options.get("mode") in (None, "auto"):
        options["mode"] = "canvas"
    states = [engine.start(Request(prompt, {**options, "seed": seed})) for seed in seeds]
    _check_canvas(states[0])
    run = _Run(engine, [_Particle(state) for state in states], reward_scale, score, enough, seeds[0])
    try:
        while not run.core.idle:
            run.step(resample_every)
            if run.found_enough:
                break
        return run.result()
    finally:
        run.core.close()


class _Run:
    """One run of particles."""

    def __init__(
        self,
        engine: Engine,
        population: list[_Particle],
        reward_scale: float,
        score: Score | None,
        enough: float | None,
        seed: int,
    ) -> None:
        self._population = population
        self._reward_scale = reward_scale
        self._score = score
        self._enough = enough
        self._generator = torch.Generator().manual_seed(seed)
        self._results: list[GenerationResult] = []
        self.scores: list[float] = []
        self._log_weights: list[float] = []
        self._since = self._resamplings = self._copies = 0
        self.core = EngineCore(engine.runner, max_running=len(population), chunk=engine.chunk)
        for particle in population:
            self.core.scheduler.add(particle.state)

    @property
    def found_enough(self) -> bool:
        """Says whether a finished answer has the score that ends the run."""
        return self._enough is not None and any(score >= self._enough for score in self.scores)

    def step(self, resample_every: int) -> None:
        """Takes one iteration; resamples where it is time to."""
        self.core.step()
        for particle in [particle for particle in self._population if particle.state.finished]:
            self._population.remove(particle)
            self._results.append(particle.state.result())
            certainty = -particle.state.canvas.entropy_C.mean().item()
            self.scores.append(certainty if self._score is None else self._asked(graded_text(self._results[-1])))
            self._log_weights.append(self._weight(particle, self.scores[-1]))
        running = [
            particle for particle in self._population if particle.state.canvas.steps and not particle.state.pending
        ]
        if len(running) < max(2, len(self._population)):
            return
        self._since += 1
        if self._since >= resample_every and self._reward_scale > 0:
            self._since = 0
            self._weigh(running)
            self._resample(running)

    def _weigh(self, running: Sequence[_Particle]) -> None:
        for particle in running:
            found = self._score_of(particle)
            particle.log_weight, particle.score = self._weight(particle, found), found

    def _weight(self, particle: _Particle, score: float) -> float:
        """Returns a particle's log-weight with a new score: what its last one gave is taken back.

        Raises:
            OptionError: weights cannot hold the score.
        """
        weight = particle.log_weight + self._reward_scale * (score - (particle.score or 0.0))
        if not math.isfinite(weight):
            message = f"a score times reward_scale must be a finite number, got {score} times {self._reward_scale}"
            raise OptionError(message, option="score")
        return weight

    def _score_of(self, particle: _Particle) -> float:
        canvas = particle.state.canvas
        if self._score is None:
            return -canvas.entropy_C.mean().item()
        return self._asked(particle.state.output.text_with(canvas.argmax_C.tolist()))

    def _asked(self, text: str) -> float:
        """Returns what the user's own function says of a text.

        Raises:
            OptionError: it fails, or returns no number.
        """
        assert self._score is not None
        with failures_of("score", "the score"):
            return float(self._score(text))

    def _resample(self, running: Sequence[_Particle]) -> None:
        """Draws the particles anew where half of them or fewer carry the weight."""
        weights, highest = relative([particle.log_weight for particle in running])
        total = sum(weights)
        if total**2 / sum(weight**2 for weight in weights) >= len(running) / 2:
            return
        drawn = systematic([weight / total for weight in weights], torch.rand((), generator=self._generator).item())
        self._resamplings += 1
        lost = [particle for particle, count in zip(running, drawn, strict=True) if count == 0]
        spare = [particle for particle, count in zip(running, drawn, strict=True) for _ in range(count - 1)]
        for target, source in zip(lost, spare, strict=True):
            target.state.canvas.copy_from(source.state.canvas)
            target.score = source.score
            self._copies += 1
        # Equal among themselves, and comparable with those that have left.
        mean = highest + math.log(total / len(running))
        for particle in running:
            particle.log_weight = mean

    def result(self) -> ParticlesResult:
        """Returns what was found so far."""
        counters = self.core.counters
        return ParticlesResult(
            tuple(self._results),
            tuple(self.scores),
            normalised(self._log_weights),
            counters.canvas_steps,
            counters.steps,
            self._resamplings,
            self._copies,
            self._enough,
        )


def _check(number: int, resample_every: int, reward_scale: float, score: Score | None, enough: float | None) -> None:
    Integer(minimum=2, maximum=MOST_PARTICLES).check("number", number)
    Integer(minimum=1).check("resample_every", resample_every)
    Number(minimum=0).check("reward_scale", reward_scale)
    if score is not None:
        Function().check("score", score)
    if enough is not None:
        Number().check("enough", enough)


def _check_canvas(state: RequestState) -> None:
    config = state.config
    if config.verify not in (0, "auto"):
        raise OptionError("particles do not go with verify: it must be 0 or auto", option="verify")
    if config.thinking_budget is not None:
        message = "particles have one canvas: leave thinking_budget out, which may begin another"
        raise OptionError(message, option="thinking_budget")
    if config.max_new_tokens > state.canvas.width:
        message = (
            f"particles have one canvas, of {state.canvas.width} tokens: max_new_tokens is {config.max_new_tokens}"
        )
        raise OptionError(message, option="max_new_tokens")
