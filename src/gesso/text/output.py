"""Turns tokens into text: token by token, with the answer, the reasoning and the tool calls kept apart.

Nothing is shown that may still change: half of a character waits for its other bytes, text that may be the
beginning of a stop string waits until it is known not to be, and a tool call waits for its end.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

from gesso.errors import TextError
from gesso.text.tokenizer import HALF, Tokenizer
from gesso.text.tool_calls import CALL, CALL_END, ToolCall, parse_tool_call

CHANNEL, CHANNEL_END = "<|channel>", "<channel|>"
NAME = "thought"
"""Name of the channel that the reasoning stands in, on a line of its own before it."""
LONGEST_CHARACTER = 4
"""Tokens of the longest character, where each is one byte."""
HIDDEN = ("<pad>", "<eos>", "<bos>", "<|turn>", "<turn|>", CHANNEL, CHANNEL_END)
"""Special tokens that are structure, not text; others stay in the text."""


class IncrementalDecoder:
    """Decodes a growing list of tokens; what it has given out never changes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        """The last tokens whose text was given out, and those behind them."""
        self._shown = 0
        """How many of them were given out."""

    def feed(self, token: int) -> str:
        """Returns the text that `token` completes, perhaps none."""
        self._ids.append(token)
        if self._is_hopeless(token):
            return ""
        before = self._tokenizer.decode(self._ids[: self._shown])
        after = self._tokenizer.decode(self._ids)
        if after.endswith(HALF) or len(after) <= len(before):
            return ""
        del self._ids[: self._shown]
        self._shown = len(self._ids)
        return after[len(before) :]

    def _is_hopeless(self, token: int) -> bool:
        """Says of a part of a character behind many that became none that it need not be looked at: that would read
        all of them again, for each. It is when they are twice as many."""
        held = len(self._ids) - self._shown
        return held > LONGEST_CHARACTER and held & (held - 1) != 0 and self._tokenizer.piece(token).endswith(HALF)

    def flush(self) -> str:
        """Returns what is still held back: a character that never became whole."""
        before = self._tokenizer.decode(self._ids[: self._shown])
        after = self._tokenizer.decode(self._ids)
        self._ids, self._shown = [], 0
        return after[len(before) :]

    def fork(self) -> "IncrementalDecoder":
        """Returns a decoder that goes on from here by itself."""
        forked = copy(self)
        forked._ids = [*self._ids]
        return forked


class StopStrings:
    """Finds the first stop string in a stream of text."""

    def __init__(self, stop: Sequence[str], *, include: bool = False) -> None:
        """
        Args:
            include: whether what is found is part of the text before it.
        """
        self._stop = tuple(stop)
        self._include = include
        self._held = ""
        self.hit: str | None = None

    def feed(self, text: str) -> str:
        """Returns the text that is certainly before any stop string, and with `include` the one that is found."""
        self._held += text
        found = [(at, s) for s in self._stop if (at := self._held.find(s)) >= 0]
        if found:
            # The first that is complete, so that it does not matter in which pieces the text came.
            at, self.hit = min(found, key=lambda place: (place[0] + len(place[1]), place[0]))
            out, self._held = self._held[: at + len(self.hit) * self._include], ""
            return out
        keep = max((self._overlap(s) for s in self._stop), default=0)
        out, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return out

    def _overlap(self, stop: str) -> int:
        """Length of the longest end of what is held that begins `stop`."""
        longest = min(len(stop) - 1, len(self._held))
        return next((n for n in range(longest, 0, -1) if stop.startswith(self._held[-n:])), 0)

    def flush(self) -> str:
        """Returns what is still held back."""
        out, self._held = self._held, ""
        return out


@dataclass(frozen=True, slots=True)
class Delta:
    """Holds what one token added to the answer, to the reasoning and beside them."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    warnings: tuple[str, ...] = ()

    def __add__(self, later: "Delta") -> "Delta":
        return Delta(
            self.text + later.text,
            self.reasoning + later.reasoning,
            self.tool_calls + later.tool_calls,
            self.warnings + later.warnings,
        )


class OutputParser:
    """Parses one request's tokens into answer, reasoning and tool calls. Stop strings are looked for in the answer
    alone.

    A tool call that cannot be read, or that the output ends in, is answer text as it stands, with a warning. White
    space after a call is answer text only if more of the answer follows before the next call.
    """

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = (), *, include_stop: bool = False) -> None:
        special = tokenizer.special
        self._tokenizer = tokenizer
        self._hidden = {special[t] for t in HIDDEN if t in special}
        self._open = special.get(CHANNEL)
        self._close = special.get(CHANNEL_END)
        self._call_open = special.get(CALL) if CALL_END in special else None
        self._call_close = special.get(CALL_END)
        self._answer = IncrementalDecoder(tokenizer)
        self._reasoning_decoder: IncrementalDecoder | None = None
        self._header: str | None = None
        self._line_breaks = ""
        self._call: list[int] = []
        """Tokens of the call that is being written, from its first; empty outside of one."""
        self._space: str | None = None
        """White space that waits behind a call; None where the answer goes on."""
        self._stop = StopStrings(stop, include=include_stop)
        self.watches_stops = True
        """Whether stop strings are looked for in what comes next."""
        self.text = ""
        self.reasoning = ""
        self.tool_calls: tuple[ToolCall, ...] = ()
        self.warnings: tuple[str, ...] = ()
        self.reasoning_tokens = 0
        """Tokens of all reasoning so far: with their headers and what opens one anew, without the tokens that open and
        close them."""

    @property
    def stop_string(self) -> str | None:
        """Returns the stop string that was found, if one was."""
        return self._stop.hit

    @property
    def stopped(self) -> bool:
        """Tells whether a stop string was found."""
        return self.stop_string is not None

    @property
    def thinking(self) -> bool:
        """Tells whether the next token is part of the reasoning, or closes it."""
        return self._reasoning_decoder is not None

    def pass_over(self, tokens: Sequence[int]) -> None:
        """Reads tokens before the first that is told of: what they leave open the next ones go on with."""
        self.watches_stops = False
        for token in tokens:
            self.feed(token)
        self.watches_stops = True
        self.text, self.reasoning, self.tool_calls, self.warnings, self.reasoning_tokens = "", "", (), (), 0

    def fork(self) -> "OutputParser":
        """Returns a parser that goes on from here by itself, at a cost that does not grow with the answer."""
        forked = copy(self)
        forked._answer, forked._stop, forked._call = self._answer.fork(), copy(self._stop), [*self._call]
        reasoning = self._reasoning_decoder
        forked._reasoning_decoder = None if reasoning is None else reasoning.fork()
        return forked

    def feed(self, token: int) -> Delta:
        """Takes one token and returns what it adds."""
        if self._call:
            self._call.append(token)
            return self._add(self._take_call()) if token == self._call_close else Delta()
        if token == self._open:
            self.reasoning_tokens += self.thinking
            reasoning = "" if self._reasoning_decoder is None else self._end_reasoning(self._reasoning_decoder)
            self._reasoning_decoder, self._header, self._line_breaks = IncrementalDecoder(self._tokenizer), "", ""
            return self._add(Delta(reasoning=reasoning))
        if token == self._close and self._reasoning_decoder is not None:
            reasoning = self._end_reasoning(self._reasoning_decoder)
            self._reasoning_decoder = None
            return self._add(Delta(reasoning=reasoning))
        self.reasoning_tokens += self.thinking
        if token in self._hidden:
            return Delta()
        if self._reasoning_decoder is not None:
            return self._add(Delta(reasoning=self._after_header(self._reasoning_decoder.feed(token))))
        if token == self._call_open:
            self._call = [token]
            return Delta()
        return self._add(Delta(text=self._after_space(self._answer.feed(token))))

    def _after_header(self, text: str) -> str:
        """A channel begins with its name and a line break, which are not part of the reasoning; nor are the line
        breaks at its end, so they wait for more."""
        if self._header is not None:
            self._header += text
            if "\n" not in self._header:
                return ""
            text, self._header = self._header.split("\n", 1)[1], None
        text = self._line_breaks + text
        reasoning = text.rstrip("\n")
        self._line_breaks = text[len(reasoning) :]
        return reasoning

    def _end_reasoning(self, reasoning: IncrementalDecoder) -> str:
        """What is left of the reasoning at its end; one without a line break is all there is, unless it is the name."""
        text = self._after_header(reasoning.flush())
        header, self._header = self._header or "", None
        return text if NAME.startswith(header.strip()) else header

    def _after_space(self, text: str) -> str:
        """Answer text, less what waits behind a call or may begin a stop string."""
        if self._space is not None:
            text = self._space + text
            self._space = None if text.strip() else text
        if self._space is not None:
            return ""
        return self._stop.feed(text) if self.watches_stops else self._stop.flush() + text

    def _take_call(self) -> Delta:
        """The call that was just closed."""
        try:
            call = parse_tool_call(self._tokenizer.decode(self._call[1:-1]))
        except TextError as error:
            return self._give_up_call(str(error))
        self._call, self._space = [], ""
        # What may have begun a stop string stands before the call; had that been none, it would go on in its text.
        return Delta(self._stop.flush(), tool_calls=(call,))

    def _give_up_call(self, why: str) -> Delta:
        """The call as answer text."""
        tokens, self._call, text = self._call, [], ""
        for token in tokens:
            text += self._after_space(self._answer.feed(token))
            if self.stopped:
                break
        return Delta(text, warnings=(f"malformed tool call: {why}",))

    def flush(self) -> Delta:
        """Returns what was held back, at the end of the output."""
        call = self._give_up_call("the output ends before it does") if self._call else Delta()
        reasoning = "" if self._reasoning_decoder is None else self._end_reasoning(self._reasoning_decoder)
        text = "" if self.stopped else self._after_space(self._answer.flush()) + self._stop.flush()
        return self._add(call + Delta(text, reasoning))

    def _add(self, delta: Delta) -> Delta:
        self.text += delta.text
        self.reasoning += delta.reasoning
        self.tool_calls += delta.tool_calls
        self.warnings += delta.warnings
        return delta
