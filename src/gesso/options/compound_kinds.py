"""Defines the kinds of options whose values are sequences or mappings; see `gesso.options.kinds`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from operator import index
from pathlib import Path
from typing import Any

from gesso.errors import OptionError
from gesso.options.frozen import FrozenDict, freeze
from gesso.options.kinds import Plain, is_integer, is_number, refuse


@dataclass(frozen=True, slots=True)
class Texts:
    """Takes strings, none of them empty."""

    may_be_empty: bool = False
    label = "list of texts"
    bounds = ""

    def check(self, name: str, value: Any) -> tuple[str, ...]:
        texts = _parts(value)
        good = texts is not None and all(isinstance(text, str) and text for text in texts)
        if not good or not (texts or self.may_be_empty):
            refuse(name, "a sequence of strings that are not empty", value)
        for text in texts or ():
            if any("\ud800" <= character <= "\udfff" for character in text):
                raise OptionError(f"{name}: {text!r:.60} holds half a character (a surrogate)", option=name)
        return texts or ()


@dataclass(frozen=True, slots=True)
class TokenIds:
    """Takes token ids."""

    may_be_empty: bool = False
    label = "list of token ids"
    bounds = ""

    def check(self, name: str, value: Any) -> tuple[int, ...]:
        if not self.may_be_empty and _parts(value) == ():
            refuse(name, "a list of token ids, not empty", value)
        return _token_ids(name, value)


class PinnedTokens(Plain):
    """Takes token ids by position, None where a position is free."""

    label = "list of token ids and None"

    def check(self, name: str, value: Any) -> tuple[int | None, ...]:
        parts = _parts(value)
        if parts == ():
            refuse(name, "a list of token ids and None, not empty", value)
        if parts is None:
            refuse(name, "a sequence of token ids", value)
        ids = iter(_token_ids(name, [part for part in parts if part is not None]))
        return tuple(None if part is None else next(ids) for part in parts)


class TokenSequences(Plain):
    """Takes lists of token ids."""

    label = "list of lists of token ids"

    def check(self, name: str, value: Any) -> tuple[tuple[int, ...], ...]:
        sequences = _parts(value)
        if sequences is None or any(_parts(sequence) == () for sequence in sequences):
            refuse(name, "a list of lists of token ids, none of them empty", value)
        return tuple(_token_ids(name, sequence) for sequence in sequences)


@dataclass(frozen=True, slots=True)
class BiasMap:
    """Takes numbers by token id."""

    largest: float
    label = "mapping of token ids to numbers"

    @property
    def bounds(self) -> str:
        return f"numbers of at most {self.largest:g} in size"

    def check(self, name: str, value: Any) -> FrozenDict:
        if not isinstance(value, Mapping) or not all(_is_bias(*item) for item in value.items()):
            refuse(name, "a mapping of token ids to finite numbers", value)
        for token, bias in value.items():
            if abs(bias) > self.largest:
                message = f"{name} of token {token} must be at most {self.largest:g} in size, got {bias}"
                raise OptionError(message, option=name)
        return FrozenDict({int(token): float(bias) for token, bias in value.items()})


class JsonSchema(Plain):
    """Takes a JSON schema."""

    label = "JSON schema"

    def check(self, name: str, value: Any) -> FrozenDict | bool:
        if value is False:
            raise OptionError(f"{name} false allows nothing", option=name)
        if not isinstance(value, Mapping | bool):
            hint = "json.loads reads a text, and gesso.read_schema a file" if isinstance(value, str | Path) else None
            raise OptionError(f"{name} must be a schema (a mapping), got {value!r:.60}", option=name, hint=hint)
        return _frozen(name, value)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Files:
    """Takes a list of files, by their paths on the command line; in Python whatever a reader of such files takes."""

    what: str
    """What they are."""

    @property
    def label(self) -> str:
        return f"list of {self.what}"

    bounds = ""

    def check(self, name: str, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            refuse(name, f"a list of {self.what}", type(value).__name__)
        return tuple(value)


class Mappings(Plain):
    """Takes a list of JSON objects."""

    label = "list of mappings"

    def check(self, name: str, value: Any) -> tuple[FrozenDict, ...]:
        parts = _parts(value)
        if parts is None or not all(isinstance(part, Mapping) for part in parts):
            refuse(name, "a list of mappings", value)
        return tuple(_frozen(name, part) for part in parts)


@dataclass(frozen=True, slots=True)
class WordOrMapping:
    """Takes a word, or a JSON object. Whoever reads them checks what they mean."""

    words: tuple[str, ...]
    what: str
    """What the object is."""
    bounds = ""

    @property
    def label(self) -> str:
        return f"{', '.join(self.words)} or {self.what}"

    def check(self, name: str, value: Any) -> Any:
        if not isinstance(value, Mapping) and value not in self.words:
            refuse(name, f"{', '.join(self.words)} or {self.what}", value)
        return _frozen(name, value)


def _frozen(name: str, value: Any) -> Any:
    try:
        return freeze(value)
    except RecursionError:
        raise OptionError(f"{name} is nested too deeply", option=name) from None


def _is_bias(token: object, bias: object) -> bool:
    # Not math.isfinite: it fails at an integer that no float can hold.
    return is_integer(token) and token >= 0 and is_number(bias) and -inf < bias < inf


def _parts(value: object) -> tuple[Any, ...] | None:
    """The elements of a sequence; None where it is none, a string included."""
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) else None


def _token_ids(name: str, value: object) -> tuple[int, ...]:
    parts = _parts(value)
    try:
        ids = tuple(-1 if isinstance(part, bool) else index(part) for part in parts or ())
    except TypeError:
        ids = (-1,)
    if parts is None or min(ids, default=0) < 0:
        refuse(name, "a sequence of token ids", value)
    return ids
