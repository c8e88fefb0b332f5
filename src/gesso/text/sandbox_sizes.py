"""Bounds what a template makes: how long a text, list or number becomes is computed before it is made."""

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MAX_ITEMS = 1_000_000
"""Items of a value that is written out or compared."""
MAX_SIZE = 2**25
"""Characters of a text, or items of a list, that a template makes; of the whole prompt, too."""
MAX_BITS = 2**16
"""Bits of a number that a template makes; Python writes out no number of so many."""
CHARACTERS = 100
"""Characters that are searched or compared in the time of an item."""
MAX_INDENT = 64
"""Characters by which a level of JSON is indented, and of what stands between its items."""
MAX_DIGITS = 1000
"""Digits behind the point that a number is rounded to."""
WIDENING = ("batch", "center", "expandtabs", "indent", "ljust", "rjust", "slice", "zfill")
"""Methods and filters whose numbers say how long their result becomes."""
_BYTES = ("encode", "to_bytes")
_NUMBER = 512
"""Characters of a number as `%f` writes it, at most."""
_LINK = 64
"""Characters of the marks around a link."""
_DIGITS = re.compile(r"\d+")
_PLACE = re.compile(r"%(?:\((?P<name>[^)]*)\))?[-#0 +]*(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?")


class TemplateLimitError(Exception):
    """Reports a template that computes more than a prompt can need."""


def check_size(size: int) -> None:
    """Refuses what would be too large."""
    if size > MAX_SIZE:
        raise TemplateLimitError(f"it makes a text or list of more than {MAX_SIZE:,} characters or items")


def check_bits(bits: int) -> None:
    """Refuses a number that would be too large: multiplying and dividing large ones takes minutes."""
    if bits > MAX_BITS:
        raise TemplateLimitError(f"it makes a number of more than {MAX_BITS:,} bits")


def written_size(value: Any) -> int:
    """Returns the characters that a value takes when it is written out, at least those of the texts in it.

    Raises:
        TemplateLimitError: there are too many items, of lists that hold one list twice say, or too many characters.
    """
    if isinstance(value, str):
        return len(value)
    if not isinstance(value, list | tuple | dict):
        return value.bit_length() // 3 if isinstance(value, int) else 0
    return _measured(value, "writes out")[1]


def compared_size(value: Any) -> int:
    """Returns how many items are looked at, at most, where a value is compared with another.

    Raises:
        TemplateLimitError: as `written_size`.
    """
    if isinstance(value, str):
        return len(value) // CHARACTERS
    if not isinstance(value, list | tuple | dict):
        return 0
    items, characters = _measured(value, "compares")
    return items + characters // CHARACTERS


def _measured(value: Any, doing: str) -> tuple[int, int]:
    """Counts the items in a list, tuple or dict and in those that it holds, and the characters of the texts."""
    stack, seen, size = [value], 0, 0
    while stack:
        inner = stack.pop()
        seen += len(inner)
        if seen > MAX_ITEMS:
            raise TemplateLimitError(f"it {doing} a value of more than {MAX_ITEMS:,} items")
        for item in (*inner, *inner.values()) if isinstance(inner, dict) else inner:
            if isinstance(item, list | tuple | dict):
                stack.append(item)
            elif isinstance(item, str):
                size += len(item)
        check_size(size)
    return seen, size


def check_operator(operator: str, left: Any, right: Any) -> None:
    """Refuses an operator whose result would be too large."""
    if operator == "*":
        for many, times in ((left, right), (right, left)):
            if isinstance(many, str | list | tuple) and isinstance(times, int):
                check_size(len(many) * times)
    elif operator == "+" and isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
        check_size(len(left) + len(right))
    elif operator == "%" and isinstance(left, str):
        _check_percent(left, right)
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length() * max(1, right) if operator == "**" else left.bit_length() + right.bit_length()
        check_bits(bits)


def check_method(name: str, owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuses a call of a method whose result would be too large, or bytes, which nothing measures."""
    if name in _BYTES:
        raise TemplateLimitError(f"it makes bytes with {name}, of which no prompt is")
    if not isinstance(owner, str):
        return
    if name == "format":
        _check_format(owner, args, kwargs)
    elif name == "format_map":
        _check_format(owner, (), args[0] if args and isinstance(args[0], Mapping) else {})
    else:
        _check_text(name, owner, args, kwargs)


def check_filter(name: str, value: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuses a filter whose result would be too large."""
    values = (*args, *kwargs.values())
    if name == "round":
        if any(isinstance(digits, int) and abs(digits) > MAX_DIGITS for digits in values):
            raise TemplateLimitError(f"it rounds to more than {MAX_DIGITS:,} digits")
    elif name == "tojson":
        between = (part for value in values for part in (value if isinstance(value, list | tuple) else (value,)))
        if any(isinstance(part, int | str) and _length(part) > MAX_INDENT for part in between):
            raise TemplateLimitError(f"it writes JSON with more than {MAX_INDENT} characters between two items")
    elif name == "format":
        _check_percent(str(value), kwargs or tuple(args))
    elif name == "join":
        separator = next((text for text in values if isinstance(text, str)), "")
        check_size(sum(len(item) + len(separator) if isinstance(item, str) else 64 for item in value))
    elif name == "wordwrap" and isinstance(value, str):
        check_size(len(value) * max((len(text) for text in values if isinstance(text, str)), default=1))
    elif name == "urlize" and isinstance(value, str):
        marks = _LINK + sum(len(text) for text in values if isinstance(text, str))
        check_size(len(value) + (len(value) + 3) // 4 * marks)
    elif isinstance(value, str):
        _check_text(name, value, args, kwargs)
    elif name in WIDENING:
        _check_numbers(values)


def _length(width: int | str) -> int:
    """Returns how long a width is, which is a number or a text."""
    return len(width) if isinstance(width, str) else width


def _check_numbers(values: Iterable[Any], times: int = 1) -> None:
    """Refuses widths that are too large; that of `indent` may be a text."""
    for value in values:
        if isinstance(value, int | str):
            check_size(_length(value) * times)


def _check_text(name: str, text: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    values = (*args, *kwargs.values())
    if name in WIDENING:
        _check_numbers(values, 1 + text.count("\t") + text.count("\n"))
    elif name == "replace" and len(values) >= 2 and all(isinstance(value, str) for value in values[:2]):
        check_size(len(text) + text.count(values[0]) * len(values[1]))
    elif name == "join" and values and isinstance(values[0], list | tuple):
        check_size(sum(len(text) + len(item) for item in values[0] if isinstance(item, str)))
    elif name == "translate" and values and isinstance(values[0], dict):
        check_size(len(text) * max((len(new) for new in values[0].values() if isinstance(new, str)), default=1))


def _check_percent(text: str, given: Any) -> None:
    """Refuses what `text % given` would make too long: by its widths, or by a value that it shows many times."""
    values = list(given.values()) if isinstance(given, Mapping) else [*given] if isinstance(given, tuple) else [given]
    places = list(_PLACE.finditer(text))
    widest = _widest(values) if "*" in text else 0
    widths = [digits for place in places for digits in place.group("width", "precision")]
    spaces = sum(widest if digits == "*" else _number(digits) for digits in widths)
    _check_formatted(text, spaces, [place["name"] for place in places], values)


def _check_format(text: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuses what `text.format(...)` would make too long."""
    values = [*args, *kwargs.values()]
    places = [(name, spec or "") for _, name, spec, _ in string.Formatter().parse(text) if name is not None]
    spaces = sum(_number(digits) for _, spec in places for digits in _DIGITS.findall(spec))
    nested = sum("{" in spec for _, spec in places)
    spaces += nested * _widest(values) if nested else 0
    _check_formatted(text, spaces, [re.split(r"[.\[]", name)[0] for name, _ in places], values)


def _check_formatted(text: str, spaces: int, names: Sequence[str | None], values: Sequence[Any]) -> None:
    """Checks a text of which so many characters are widths beside values, each shown as often as its name stands."""
    check_size(len(text) + spaces + _NUMBER * len(names))
    times = max(Counter(name for name in names if name).values(), default=1)
    check_size(len(text) + spaces + times * sum(written_size(value) for value in values))


def _widest(values: Iterable[Any]) -> int:
    """Returns the largest number among values or in texts among them, which may be meant as a width."""
    numbers = [abs(value) for value in values if isinstance(value, int)]
    numbers += [_number(digits) for value in values if isinstance(value, str) for digits in _DIGITS.findall(value)]
    return max(numbers, default=0)


def _number(digits: str | None) -> int:
    """Returns the number that digits stand for; a long one is too large whatever it is."""
    return int(digits or 0) if len(digits or "") < 20 else MAX_SIZE + 1
