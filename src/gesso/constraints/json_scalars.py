"""Writes strings and numbers of a plain schema as texts."""

import operator
from fractions import Fraction
from math import ceil, floor

from gesso.constraints.expression import (
    NEVER,
    Expression,
    Repeat,
    Text,
    difference,
    intersection,
    repeat,
    sequence,
    union,
)
from gesso.constraints.json_document import Document
from gesso.constraints.json_formats import FORMATS, WIDE, format_expression
from gesso.constraints.json_keywords import Plain, decimal, type_of
from gesso.constraints.json_numbers import (
    TOLD_APART,
    Bound,
    Digits,
    any_number,
    decimal_multiples,
    integers,
    nearer,
    numbers,
    whole_divisor,
    whole_multiples,
)
from gesso.constraints.json_text import JsonForm
from gesso.constraints.regex import parse, parse_search
from gesso.errors import OptionError

_BOUNDS = {
    "minimum": operator.ge,
    "exclusiveMinimum": operator.gt,
    "maximum": operator.le,
    "exclusiveMaximum": operator.lt,
}


class Scalars:
    """Holds the texts of the strings and numbers under plain schemas."""

    def __init__(self, document: Document, form: JsonForm) -> None:
        self.document, self.form = document, form

    def string(self, schema: Plain, pointer: str) -> Expression:
        parts: list[Expression] = []
        least, most = int(schema.get("minLength", 0)), schema.get("maxLength")
        if most is not None and most < least:
            return NEVER
        if least or most is not None:
            parts.append(repeat(self.form.character, least, None if most is None else int(most)))
        parts += [self.form.inside(self.pattern(text, pointer)) for text, holds in schema.get("pattern", ()) if holds]
        parts += [self.form.inside(format_expression(name)) for name in schema.get("format", ()) if name in FORMATS]
        told = schema.get("pattern", ())
        denied = [self.form.inside(self.pattern(text, pointer, True)) for text, holds in told if not holds]
        denied += [self.form.inside(parse(WIDE[name])) for name in schema.get("notFormat", ())]
        if not parts and not denied:
            return self.form.any_string
        body = intersection(*parts) if parts else Repeat(self.form.character)
        return self.form.quoted(difference(body, union(denied)))

    def pattern(self, text: str, pointer: str, wide: bool = False) -> Expression:
        """Returns the texts in which a pattern matches."""
        try:
            return parse_search(text, wide)
        except OptionError as error:
            raise OptionError(f"{pointer}/pattern: {error}") from None

    def allows(self, value: float, schema: Plain) -> bool:
        """Tells whether one number is within the bounds of a plain schema and a multiple as it asks for."""
        exact = decimal(value)
        within = all(holds(exact, decimal(schema[key])) for key, holds in _BOUNDS.items() if key in schema)
        steps = schema.get("multipleOf", ())
        return within and all(((Fraction(exact) / Fraction(step)).denominator == 1) == holds for step, holds in steps)

    def number(self, name: str, schema: Plain, pointer: str) -> Expression:
        lows = [
            Bound(decimal(schema[key]), key != "minimum") for key in ("minimum", "exclusiveMinimum") if key in schema
        ]
        highs = [
            Bound(decimal(schema[key]), key != "maximum") for key in ("maximum", "exclusiveMaximum") if key in schema
        ]
        low = max(lows, key=lambda bound: (bound.value, bound.exclusive), default=None)
        high = min(highs, key=lambda bound: (bound.value, not bound.exclusive), default=None)
        low, high, most = nearer(low, high)
        steps = [step for step, holds in schema.get("multipleOf", ()) if holds]
        denied = [step for step, holds in schema.get("multipleOf", ()) if not holds]
        others = {type_of(value) for value in schema.get("notEnum", ())}
        exact = all(bound.is_exact for bound in (low, high) if bound is not None)
        told_apart = [] if exact and not others & {"integer", "number"} else [TOLD_APART]
        whole = name == "integer" or any(step == int(step) for step in steps)
        if whole and any(whole_divisor(step) == 1 for step in denied):
            return NEVER
        try:
            if whole:
                first = None if low is None else floor(low.value) + 1 if low.exclusive else ceil(low.value)
                last = None if high is None else ceil(high.value) - 1 if high.exclusive else floor(high.value)
                texts = integers(first, last, Digits(self.form.max_digits).within(most))
                texts = intersection(texts, *(whole_multiples(step) for step in steps if whole_divisor(step) > 1))
                texts = difference(texts, union(map(whole_multiples, denied)))
                # A fraction of zero makes no difference, but to draft 4, and where it is read as another number.
                point = name == "number" or not self.document.only_plain_integers
                texts = sequence(texts, repeat(Text(".0"), 0, 1)) if point else texts
                return intersection(texts, *told_apart) if point else texts
            if not (lows or highs or steps or denied or schema.get("notEnum")):
                return any_number(self.form.digits)
            texts = numbers(low, high, self.form.digits.within(most))
            texts = intersection(texts, *map(decimal_multiples, steps), *told_apart)
            return difference(texts, union(map(decimal_multiples, denied)))
        except OptionError as error:
            raise OptionError(f"{pointer}: {error}") from None
