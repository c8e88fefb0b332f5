"""Turns one line of training data into conversations. Its errors name neither file nor line.

A line is one JSON object, of one of three kinds:

    {"messages": [...], "tools": [...]}       a chat: every assistant message is an example; tools may be left out
    {"prompt": "...", "completion": "..."}    a pair: one user message and its answer; "source" may be the text that
                                              the completion changes, which canvases then may start from
    {"text": "..."}                           plain text, for continued pre-training
"""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from gesso.config import ModelConfig
from gesso.errors import DataError, OptionError, TextError
from gesso.text.chat_template import ChatTemplate, Message
from gesso.text.tokenizer import Tokenizer
from gesso.train.batch import Conversation
from gesso.train.data_fields import (
    ASSISTANT,
    CLOSE_THOUGHT,
    EMPTY_THOUGHT,
    GENERATION_ONLY,
    OPEN_THOUGHT,
    parse_line,
    read_message,
    text_of,
)


@dataclass(frozen=True, slots=True)
class FileDataConfig:
    """Configures how lines become examples, and in which order they come.

    Raises:
        OptionError: an impossible value.
    """

    max_length: int
    """Tokens of prompt and answer together. Longer examples are left out; text is cut instead."""
    held_out: float = 0.0
    """Share of the lines kept for evaluation, chosen by a hash of each line."""
    thinking: Literal["keep", "strip"] = "keep"
    """keep: a turn with reasoning is prompted for with thinking on, and its reasoning is part of the answer."""
    raw_pairs: bool = False
    """Renders pairs without the chat template: bos and the prompt as it is, the completion as it is and eos."""
    bucketed: bool = True
    """Puts examples of like length into one batch."""
    seed: int = 0
    """Seed of the order alone; it decides nothing else."""

    def __post_init__(self) -> None:
        if self.max_length < 2:
            raise OptionError(f"max_length must be at least 2, got {self.max_length}", option="max_length")
        if not 0 <= self.held_out < 0.5:
            raise OptionError(f"held_out must be at least 0 and below 0.5, got {self.held_out}", option="held_out")
        if self.thinking not in ("keep", "strip"):
            raise OptionError(f"thinking {self.thinking!r} does not exist; known: keep, strip", option="thinking")
        if self.seed < 0:
            raise OptionError(f"seed must be at least 0, got {self.seed}", option="seed")


class Record(Protocol):
    """Gives the examples of a line that was parsed."""

    @property
    def parts(self) -> Sequence[int]:
        """Returns the numbers of its examples, in order."""

    def conversation(self, part: int) -> Conversation:
        """Returns one of its examples."""


class LineReader:
    """Turns lines into examples, as one model and one config want them. Its errors name neither file nor line."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        model: ModelConfig,
        stop_token_ids: Sequence[int],
        config: FileDataConfig,
    ) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.model = model
        self.stop_token_ids = frozenset(stop_token_ids)
        self.config = config
        self._images = frozenset(model.image_token_ids)
        texts = filter(None, map(tokenizer.piece, sorted(self.stop_token_ids)))
        self.stop = re.compile("|".join(map(re.escape, texts)) or r"(?!)")
        """Matches the tokens that end an answer in a rendered chat."""

    def read(self, line: bytes) -> Record:
        """Parses one line.

        Raises:
            DataError: it is no line of training data.
            TextError: its text has no tokens.
        """
        fields = parse_line(line)
        given = {name: value for name, value in fields.items() if value is not None}
        if "messages" in given and given.keys() <= {"messages", "tools"}:
            return self._chat(given["messages"], given.get("tools"))
        if given.keys() == {"prompt", "completion"}:
            return self._pair(text_of(given, "prompt"), text_of(given, "completion"))
        if given.keys() == {"prompt", "completion", "source"}:
            prompt = text_of(given, "prompt")
            old, new = (self._pair(prompt, text_of(given, name)) for name in ("source", "completion"))
            return Change(old, new)
        if given.keys() == {"text"}:
            return Text(self, self.encode_after_bos(text_of(given, "text")))
        raise DataError(
            "a line holds messages (and tools), or prompt and completion (and source), or text; "
            f"this one holds {', '.join(given) or 'nothing'}"
        )

    def _chat(self, messages: object, tools: object) -> "Chat":
        if self.template is None:
            raise DataError("this model has no chat template, and so takes no messages; give prompt and completion")
        if not isinstance(messages, list) or not messages:
            raise DataError("messages must be a list, and not empty")
        if tools is not None and not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
            raise DataError("tools must be a list of objects")
        read, parts = [], []
        for i, message in enumerate(messages):
            try:
                read.append(read_message(message, self.config.thinking))
            except DataError as error:
                raise DataError(f"message {i + 1}: {error}") from None
            if read[-1]["role"] in ASSISTANT and read[-1].pop("weight", 1):
                parts.append(i)
        if not parts:
            raise DataError("no assistant message to train on")
        if parts[0] == 0:
            raise DataError("message 1: nothing stands before this assistant message; give it weight 0 to keep it")
        return Chat(self, self.template, read, tools or None, parts)

    def _pair(self, prompt: str, completion: str) -> "Chat | RawPair":
        if self.template is None or self.config.raw_pairs:
            return RawPair(self, prompt, completion)
        return self._chat([{"role": "user", "content": prompt}, {"role": "assistant", "content": completion}], None)

    def encode(self, text: str) -> list[int]:
        """Returns the token ids of a text that the model can be trained on.

        Raises:
            DataError: the text holds an image, or a token outside the vocabulary.
        """
        ids = self.tokenizer.encode(text)
        if not self._images.isdisjoint(ids):
            raise DataError("the text holds the token of an image; only text is supported")
        if max(ids, default=0) >= self.model.vocab_size:
            raise DataError(f"token id {max(ids)} is outside the vocabulary of {self.model.vocab_size}")
        return ids

    def encode_after_bos(self, text: str) -> list[int]:
        """Returns the token ids of a text that bos is put before: one that the text itself begins with is left out.

        Raises:
            DataError: as for `encode`, or the text has no tokens.
        """
        ids = self.encode(text)
        ids = ids[1:] if ids[:1] == [self.model.bos_token_id] else ids
        if not ids:
            raise DataError("the text has no tokens")
        return ids


@dataclass(frozen=True, slots=True)
class Text:
    """Cuts plain text after bos where a canvas ends if it is too long, so that no piece but the last has a gap."""

    reader: LineReader
    ids: list[int]

    @property
    def _piece(self) -> int:
        """Returns the tokens of every piece but the last, which has up to `max_length` with bos and eos."""
        canvas, longest = self.reader.model.canvas_length, self.reader.config.max_length
        if longest < canvas + 2:
            raise OptionError(
                f"max_length {longest} is too short to cut text: {canvas + 2} holds one canvas, bos and eos",
                option="max_length",
            )
        return (longest - 2) // canvas * canvas

    @property
    def parts(self) -> Sequence[int]:
        over = len(self.ids) + 2 - self.reader.config.max_length
        return range(1 + -(-over // self._piece)) if over > 0 else range(1)

    def conversation(self, part: int) -> Conversation:
        model = self.reader.model
        if part < self.parts[-1]:
            piece = self.ids[part * self._piece : (part + 1) * self._piece]
            return Conversation([model.bos_token_id], piece, ends=False)
        rest = self.ids[part * self._piece :] if part else self.ids
        return Conversation([model.bos_token_id], [*rest, model.eos_token_id])


@dataclass(frozen=True, slots=True)
class RawPair:
    """Encodes prompt and completion as they are, between bos and eos; a completion that ends itself gets no eos."""

    reader: LineReader
    prompt: str
    completion: str

    @property
    def parts(self) -> Sequence[int]:
        return range(1)

    def conversation(self, part: int) -> Conversation:
        assert part == 0
        reader, model = self.reader, self.reader.model
        prompt = [model.bos_token_id, *reader.encode_after_bos(self.prompt)]
        answer = reader.encode(self.completion)
        stops = [token in reader.stop_token_ids for token in answer]
        if any(stops[:-1]):
            raise DataError(f"the completion goes on after {reader.tokenizer.piece(answer[stops.index(True)])}")
        return Conversation(prompt, answer if stops[-1] else [*answer, model.eos_token_id])


@dataclass(frozen=True, slots=True)
class Change:
    """Pairs a text with its change: the completion of `new` changes that of `old`."""

    old: "Chat | RawPair"
    new: "Chat | RawPair"

    @property
    def parts(self) -> Sequence[int]:
        return self.new.parts

    def conversation(self, part: int) -> Conversation:
        try:
            source = self.old.conversation(part).answer
        except DataError as error:
            raise DataError(f"source: {error}") from None
        return dataclasses.replace(self.new.conversation(part), source=source)


@dataclass(frozen=True, slots=True)
class Chat:
    """Holds messages in the form the chat template takes; thoughts are in `reasoning`, and nowhere else."""

    reader: LineReader
    template: ChatTemplate
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    parts: Sequence[int]
    """Which messages are answers to train on."""

    def conversation(self, part: int) -> Conversation:
        """Returns prompt and answer of message `part`.

        The prompt is the one the engine renders. The answer is what the template writes after it once the message is
        there, up to the token that ends it. A generation prompt may close or open a thought, which history does not
        show: then the two are compared without it.
        """
        try:
            prompt, answer = self._texts(part)
            return Conversation(self.reader.encode(prompt), self.reader.encode(answer))
        except (DataError, TextError) as error:
            raise DataError(f"message {part + 1}: {error}") from None

    def _texts(self, part: int) -> tuple[str, str]:
        before, message = self.messages[:part], self.messages[part]
        thought = message.get("reasoning", "")
        bare = {name: value for name, value in message.items() if name != "reasoning"}
        prompt = self._render(before, thought, add_generation_prompt=True)
        shown = self._render([*before, bare], thought)
        common = next(
            (prompt.removesuffix(end) for end in GENERATION_ONLY if shown.startswith(prompt.removesuffix(end))), None
        )
        if common is None:
            raise DataError("the chat template does not write it where its generation prompt ends")
        body, end = self._split(shown[len(common) :])
        if part + 1 < len(self.messages) and self.messages[part + 1]["role"] == "tool":
            # A result goes on in the turn of its call: the call ends with what the result begins with.
            followed = self._render([*before, bare, self.messages[part + 1]], thought)
            begun = self.reader.stop.match(followed, len(common + body))
            end = begun[0] if begun and followed.startswith(common + body) else end
        return prompt, self._opening(thought, prompt) + body + end

    def _render(self, messages: Sequence[Message], thought: str, add_generation_prompt: bool = False) -> str:
        return self.template.render(
            messages, thinking=bool(thought), tools=self.tools, add_generation_prompt=add_generation_prompt
        )

    def _split(self, written: str) -> tuple[str, str]:
        """Splits what the template wrote of a message into its text, and the token that ends it."""
        stop = self.reader.stop.search(written)
        if stop is None:
            raise DataError("the chat template ends it with no token that stops generation")
        if written[stop.end() :].strip():
            raise DataError(f"it goes on after {stop[0]}, which ends an answer")
        if not stop.start():
            raise DataError("the chat template writes nothing of it")
        return written[: stop.start()], stop[0]

    def _opening(self, thought: str, prompt: str) -> str:
        """Returns what an answer has before its content: the part of its reasoning that the prompt does not hold."""
        opened = prompt.endswith(OPEN_THOUGHT)
        if not thought and opened:
            raise DataError("the chat template asks for a thought that it does not have")
        if not thought:
            return ""
        if prompt.endswith(EMPTY_THOUGHT):
            raise DataError("the chat template leaves no room for its thought; strip the thoughts")
        if stop := self.reader.stop.search(thought):
            raise DataError(f"its thought goes on after {stop[0]}, which ends an answer")
        return f"{'' if opened else OPEN_THOUGHT}{thought}{CLOSE_THOUGHT}"


# The fields of a line
