"""Defines the result of a fill: a document without holes, and what else its holes may hold."""

from dataclasses import dataclass

from gesso.display import html


@dataclass(frozen=True, slots=True)
class FillCandidate:
    """Holds one text that a hole may hold."""

    text: str
    score: float
    """Nats: mean log-probability, by the causal pass, of the hole's tokens and of those after it that are given and
    read with it, the end of the answer included. What is filled token by token is ranked by their sum."""
    width: int
    """Tokens; the first of them may hold the space before the hole as well."""


@dataclass(frozen=True, slots=True)
class FilledHole:
    """Holds a filled hole: the best of its candidates, and the next best texts."""

    name: str
    text: str
    score: float
    width: int
    converged: bool
    """Whether its canvas was stable and confident in time."""
    complete: bool
    """False where it ends the document and was cut at its greatest length."""
    alternatives: tuple[FillCandidate, ...]


@dataclass(frozen=True, slots=True)
class FillResult:
    """Holds a document without holes."""

    text: str
    holes: tuple[FilledHole, ...]
    prompt_tokens: int
    """Tokens of the longest prompt."""
    denoising_steps: int
    """Denoising steps of all candidates together."""
    seed: int
    truncated: bool
    """Whether text too far from a hole was left out of what the model saw."""
    seconds: float

    def _repr_html_(self) -> str:
        """Returns the text, its holes and how they were found, for a notebook."""
        rows = [(hole.text, hole.name, f"{hole.score:.2f}", str(hole.width)) for hole in self.holes]
        facts = [html.count(self.denoising_steps, "step"), f"{self.seconds:.2f} s", f"seed {self.seed}"]
        facts += ["text far from a hole was left out"] if self.truncated else []
        heads = ("hole", "name", "nats a token", "tokens")
        return html.block([html.pre(self.text), html.table(heads, rows), html.line(facts)])
