"""Defines a constraint as an object of its own: what it takes, why it refuses a text, what it ignored of a schema.

`constraint(...)` compiles the language of texts, without a model or tokenizer; `Engine.generate(constraint=...)` takes
the result, and compiles it for its tokens.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gesso.constraints import budget
from gesso.constraints.byte_table import ByteAutomaton
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.expression import choices as choices_expression
from gesso.constraints.grammar import parse_grammar
from gesso.constraints.json_schema import schema_expression
from gesso.constraints.regex import parse
from gesso.errors import OptionError

_SHOWN = 24
"""Characters of a text that a message shows."""


@dataclass(frozen=True, slots=True, eq=False)
class Constraint:
    """Holds a language of texts, compiled; made by `constraint`."""

    option: str
    """The option of `generate` that says the same."""
    value: Any
    """What that option is given."""
    texts: ByteAutomaton = field(repr=False)
    """The automaton over the bytes of the texts."""
    ignored: tuple[str, ...] = ()
    """JSON pointers of keywords and formats that say nothing here: unknown ones are annotations."""

    @property
    def size(self) -> int:
        """Returns the number of states of its automaton over bytes, each count of a counted repetition by itself."""
        return self.texts.size

    def accepts(self, text: str) -> bool:
        """Tells whether a text is one of those that can be generated."""
        return self.texts.accepted_part(_encode(text))[1]

    def explain(self, text: str) -> str | None:
        """Says where and why a text is refused, in one line; None where it is accepted."""
        data = _encode(text)
        done, accepted = self.texts.accepted_part(data)
        if accepted:
            return None
        place = len(data[:done].decode("utf-8", "ignore"))
        before = text[max(0, place - _SHOWN) : place]
        if done == len(data):
            return f"character {place}: the text ends behind {before!r}, where it is not complete"
        return f"character {place}: {text[place : place + 1]!r} cannot follow {before!r}"


def constraint(
    *,
    json_schema: Any = None,
    regex: str | None = None,
    grammar: str | None = None,
    choices: Sequence[str] | None = None,
    strict: bool = False,
) -> Constraint:
    """Compiles a constraint; exactly one is given.

    Args:
        json_schema: a dict or a bool; see `gesso.constraints.json_schema` for the texts that are taken.
        regex: the whole text matches it.
        grammar: see `gesso.constraints.grammar`.
        choices: the text is one of these.
        strict: refuses keywords and formats of a schema that are not known; else they are listed in `ignored`.

    Raises:
        OptionError: it cannot be read, has a part that is not supported, is too large, or allows no text.
    """
    given = {"json_schema": json_schema, "regex": regex, "grammar": grammar, "choices": choices}
    given = {name: value for name, value in given.items() if value is not None}
    if len(given) != 1:
        raise OptionError(f"constraint takes exactly one of json_schema, regex, grammar and choices, got {len(given)}")
    ((option, value),) = given.items()
    if option in ("regex", "grammar") and not isinstance(value, str):
        raise OptionError(f"{option} must be a text, got {value!r:.60}", option=option)
    if option == "choices" and not isinstance(value, Sequence):
        raise OptionError(f"choices must be a list of texts, got {value!r:.60}", option="choices")
    with budget.python_bounds(), budget.within(budget.Budget()):
        return compile_texts(option, value, strict=strict)


def _encode(text: str) -> bytes:
    """The bytes of a text; half a character comes to bytes that no constraint takes, and is no special token either.

    Raises:
        OptionError: it is no text.
    """
    if not isinstance(text, str):
        raise OptionError(f"a text is a string, got {text!r:.60}")
    return text.encode("utf-8", "surrogatepass")


def compile_texts(option: str, value: Any, *, strict: bool) -> Constraint:
    """Compiles the texts of a constraint within the budget in force.

    Args:
        option: the keyword of `constraint` that `value` belongs to.

    Raises:
        OptionError: see `constraint`.
    """
    ignored: tuple[str, ...] = ()
    if option == "json_schema":
        value = copy.deepcopy(value)  # which is the caller's, and may change
        expression, ignored = schema_expression(value, strict=strict)
    elif option == "regex":
        expression = parse(value)
    elif option == "grammar":
        expression = parse_grammar(value)
    else:
        if isinstance(value, str) or not all(isinstance(text, str) for text in value):
            raise OptionError(f"choices must be a list of texts, got {value!r:.60}")
        value = list(value)
        expression = choices_expression(value)
    texts = compile_bytes(expression)
    if texts.empty:
        raise OptionError(f"{option}: it allows no text at all")
    return Constraint(option, value, texts, ignored)
