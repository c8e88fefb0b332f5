"""Defines the result of a finished request."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from gesso.display import html
from gesso.text.tool_calls import ToolCall

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Holds the log-probability of a token under the causal pass of the same weights, given all that stands before
    it."""

    token: int
    text: str
    logprob: float
    """Nats, of the untempered distribution."""
    top: tuple[tuple[int, str, float], ...] = ()
    """The likeliest tokens at its place: id, text, log-probability."""


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """Holds the result of a finished request. Times are seconds of wall clock since the request was started."""

    text: str
    """The answer, without special tokens and without the stop string."""
    reasoning: str
    """The reasoning before the answer; empty where there was none."""
    token_ids: tuple[int, ...]
    """Tokens generated, those of `begin` and the stop token that ended them included."""
    finish_reason: FinishReason
    """`stop`: a stop token or stop string; `length`: max_new_tokens; `cancelled`: by the caller."""
    prompt_tokens: int
    completion_tokens: int
    denoising_steps: tuple[int, ...]
    """Passes of the denoiser, per canvas; with `verify` also its causal passes, but for the one that commits."""
    converged: tuple[bool, ...]
    """Whether each canvas was stable and confident before its steps were used up."""
    seed: int
    seconds_to_first_block: float
    """Seconds until the first canvas was finished; 0 where none was."""
    seconds: float
    seconds_to_prompt: float = 0.0
    """Seconds until the prompt was read; 0 where it never was."""
    tool_calls: tuple[ToolCall, ...] = ()
    warnings: tuple[str, ...] = ()
    """What went wrong with the output, such as a tool call that cannot be read."""
    logprobs: tuple[TokenLogprob, ...] = ()
    """Log-probabilities of every token generated behind `begin`, where the request asked for them."""
    prompt_logprobs: tuple[TokenLogprob, ...] = ()
    """Log-probabilities of every token of the prompt but the first, where the request asked for them."""
    probe_logprobs: tuple[float, ...] = ()
    """Log-probabilities of the sequences in `probe`, nats; empty where no step was made."""
    cached_tokens: int = 0
    """Prompt tokens restored from the prefix store."""
    reasoning_tokens: int = 0
    mode: Literal["canvas", "ar"] = "canvas"
    decision: str = ""
    """Why `mode: auto` chose the mode."""
    ignored: tuple[str, ...] = ()
    """JSON pointers of keywords and formats of the request's schema that are not known, and were not held to."""
    verify_rounds: tuple[int, ...] = ()
    """How often each canvas was denoised again, where the request asked for verification."""
    rejected_tokens: int = 0
    """Tokens that were re-noised for it, summed over rounds."""
    guidance_passes: int = 0
    """Passes of the canvases behind a second prompt, for classifier-free guidance; beside those in
    `denoising_steps`."""
    stop_string: str | None = None
    """The stop string that `text` ends before; None where the answer ended otherwise."""

    @property
    def canvases(self) -> int:
        """Returns the number of canvases worked on, a cancelled one included."""
        return len(self.denoising_steps)

    @property
    def passes(self) -> int:
        """Returns all passes of its canvases through the model: denoising steps, those of verification and guidance."""
        return sum(self.denoising_steps) + self.guidance_passes

    @property
    def tokens_per_forward(self) -> float:
        """Returns the tokens generated per pass."""
        return self.completion_tokens / max(1, self.passes)

    @property
    def tokens_per_second(self) -> float:
        """Returns the tokens generated per second, prefill included."""
        return self.completion_tokens / self.seconds if self.seconds > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields and derived figures, ready for JSON: what `gesso generate --json` prints."""
        derived = {
            "canvases": self.canvases,
            "passes": self.passes,
            "tokens_per_forward": round(self.tokens_per_forward, 3),
            "tokens_per_second": round(self.tokens_per_second, 2),
        }
        return {**asdict(self), **derived}

    def _repr_html_(self) -> str:
        """Returns the answer and how it came about, for a notebook."""
        parts = []
        if self.reasoning:
            parts.append(html.folded("reasoning", html.pre(self.reasoning)))
        parts.append(html.pre(self.text))
        parts += [html.pre(f"{call.name}({call.arguments})") for call in self.tool_calls]
        parts += [html.warning(text) for text in self.warnings]
        if self.finish_reason == "cancelled":
            parts.append(html.warning("cancelled: the answer ends here, unfinished"))
        canvases = [
            html.count(self.canvases, "canvas", "canvases"),
            html.count(sum(self.denoising_steps), "step"),
            f"{self.tokens_per_forward:.1f} tokens/forward",
        ]
        figures = [
            html.count(self.completion_tokens, "token"),
            *(canvases if self.mode == "canvas" else ["token by token"]),
            f"{self.seconds:.2f} s",
            f"seed {self.seed}",
            self.finish_reason,
        ]
        return html.block([*parts, html.line(figures)])
