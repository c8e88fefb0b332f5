"""Tokens in, text out: token by token, with the answer and the thoughts kept apart.

Nothing is shown that may still change: half of a character waits for its other bytes, and text that may be the
beginning of a stop string waits until it is known not to be.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gesso.text.tokenizer import Tokenizer

CHANNEL, CHANNEL_END = "<|channel>", "<channel|>"
HIDDEN = ("<pad>", "<eos>", "<bos>", "<|turn>", "<turn|>", CHANNEL, CHANNEL_END)
"""Special tokens that are structure, not text; others, such as tool calls, stay in the text."""


class IncrementalDecoder:
    """Decodes a growing list of tokens; what it has given out never changes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._context = self._shown = 0

    def feed(self, token: int) -> str:
        """The text that `token` completes, perhaps none."""
        self._ids.append(token)
        before = self._tokenizer.decode(self._ids[self._context : self._shown])
        after = self._tokenizer.decode(self._ids[self._context :])
        if after.endswith("\ufffd") or len(after) <= len(before):
            return ""
        self._context, self._shown = self._shown, len(self._ids)
        return after[len(before) :]

    def flush(self) -> str:
        """What is still held back: a character that never became whole."""
        before = self._tokenizer.decode(self._ids[self._context : self._shown])
        after = self._tokenizer.decode(self._ids[self._context :])
        self._context = self._shown = len(self._ids)
        return after[len(before) :]


class StopStrings:
    """Finds the first stop string in a stream of text."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = tuple(stop)
        self._held = ""
        self.hit: str | None = None

    def feed(self, text: str) -> str:
        """The text that is certainly before any stop string."""
        self._held += text
        found = [(at, s) for s in self._stop if (at := self._held.find(s)) >= 0]
        if found:
            # The first that is complete, so that it does not matter in which pieces the text came.
            at, self.hit = min(found, key=lambda place: (place[0] + len(place[1]), place[0]))
            out, self._held = self._held[:at], ""
            return out
        keep = max((self._overlap(s) for s in self._stop), default=0)
        out, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return out

    def _overlap(self, stop: str) -> int:
        """Length of the longest end of what is held that begins `stop`."""
        longest = min(len(stop) - 1, len(self._held))
        return next((n for n in range(longest, 0, -1) if stop.startswith(self._held[-n:])), 0)

    def flush(self) -> str:
        out, self._held = self._held, ""
        return out


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of the answer and of the thoughts."""

    text: str = ""
    reasoning: str = ""


class OutputParser:
    """One request's tokens to its answer and reasoning. Stop strings are looked for in the answer alone."""

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._hidden = {tokenizer.special[t] for t in HIDDEN if t in tokenizer.special}
        self._open = tokenizer.special.get(CHANNEL)
        self._close = tokenizer.special.get(CHANNEL_END)
        self._answer = IncrementalDecoder(tokenizer)
        self._thought: IncrementalDecoder | None = None
        self._header: str | None = None
        self._line_breaks = ""
        self._stop = StopStrings(stop)
        self.text = ""
        self.reasoning = ""

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found."""
        return self._stop.hit is not None

    def feed(self, token: int) -> Delta:
        """Take one token; returns what it adds."""
        if token == self._open:
            self._thought, self._header, self._line_breaks = IncrementalDecoder(self._tokenizer), "", ""
            return Delta()
        if token == self._close and self._thought is not None:
            tail = self._thought.flush()
            self._thought = None
            return self._add(Delta(reasoning=self._after_header(tail)))
        if token in self._hidden:
            return Delta()
        if self._thought is not None:
            return self._add(Delta(reasoning=self._after_header(self._thought.feed(token))))
        return self._add(Delta(text=self._stop.feed(self._answer.feed(token))))

    def _after_header(self, text: str) -> str:
        """A channel begins with its name and a line break, which are not part of the thought; nor are the line
        breaks at its end, so they wait for more."""
        if self._header is not None:
            self._header += text
            if "\n" not in self._header:
                return ""
            text, self._header = self._header.split("\n", 1)[1], None
        text = self._line_breaks + text
        thought = text.rstrip("\n")
        self._line_breaks = text[len(thought) :]
        return thought

    def flush(self) -> Delta:
        """What was held back, at the end of the output."""
        reasoning = "" if self._thought is None else self._after_header(self._thought.flush())
        text = "" if self.stopped else self._stop.feed(self._answer.flush()) + self._stop.flush()
        return self._add(Delta(text, reasoning))

    def _add(self, delta: Delta) -> Delta:
        self.text += delta.text
        self.reasoning += delta.reasoning
        return delta
