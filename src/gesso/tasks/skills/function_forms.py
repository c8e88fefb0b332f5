"""Draws what a small Python function does, in words and in code."""

from collections.abc import Callable
from dataclasses import dataclass

from gesso.tasks.skills.slots import Slots

_COMPARISONS = {
    ">": ("greater than {n}", "larger than {n}", "more than {n}", "above {n}", "bigger than {n}"),
    "<": ("less than {n}", "smaller than {n}", "below {n}"),
    ">=": ("at least {n}", "{n} or more", "not less than {n}"),
    "<=": ("at most {n}", "{n} or less", "not more than {n}"),
    "==": ("equal to {n}", "exactly {n}"),
    "!=": ("not equal to {n}", "different from {n}"),
}
_OPERATIONS = {
    "+": ("{x} plus {n}", "the sum of {x} and {n}", "{x} increased by {n}", "{x} with {n} added"),
    "-": ("{x} minus {n}", "the difference of {x} and {n}", "{x} decreased by {n}", "{x} with {n} taken away"),
    "*": ("{x} times {n}", "the product of {x} and {n}", "{x} multiplied by {n}", "{n} times {x}"),
    "/": ("{x} divided by {n}", "the quotient of {x} and {n}", "{x} over {n}"),
    "//": ("{x} floor divided by {n}", "the floor division of {x} by {n}"),
    "%": ("{x} modulo {n}", "the remainder of {x} divided by {n}", "the rest of {x} divided by {n}"),
}
_OF_ONE = (
    (("the square of {x}", "{x} squared"), "{p} * {p}"),
    (("the cube of {x}", "{x} cubed"), "{p} * {p} * {p}"),
    (("the absolute value of {x}",), "abs({p})"),
    (("the negative of {x}", "minus {x}", "{x} negated"), "-{p}"),
    (("twice {x}", "double {x}", "{x} doubled"), "{p} * 2"),
    (("three times {x}", "triple {x}"), "{p} * 3"),
    (("half of {x}", "one half of {x}", "{x} halved"), "{p} / 2"),
    (("half of {x}, rounded down",), "{p} // 2"),
    (("the length of {x}", "how long {x} is"), "len({p})"),
    (("the first item of {x}", "the first element of {x}"), "{p}[0]"),
    (("the last item of {x}", "the last element of {x}"), "{p}[-1]"),
    (("{x} reversed", "{x} in reverse order"), "{p}[::-1]"),
    (("all but the first item of {x}", "{x} without its first item"), "{p}[1:]"),
    (("the largest item of {x}", "the maximum of {x}"), "max({p})"),
    (("the smallest item of {x}", "the minimum of {x}"), "min({p})"),
    (("True if {x} is even", "whether {x} is even"), "{p} % 2 == 0"),
    (("True if {x} is odd", "whether {x} is odd"), "{p} % 2 == 1"),
    (("True if {x} is negative", "whether {x} is negative"), "{p} < 0"),
)
_OF_ONE_MORE = (
    (("True if {x} is positive", "whether {x} is positive"), "{p} > 0"),
    (("{x} in upper case", "{x} in capitals", "the upper case version of {x}", "{x} uppercased"), "{p}.upper()"),
    (("{x} in lower case", "the lower case version of {x}", "{x} lowercased"), "{p}.lower()"),
    (("{x} without leading and trailing whitespace", "{x} stripped"), "{p}.strip()"),
    (("{x} as an integer", "{x} converted to an integer"), "int({p})"),
    (("{x} as a string", "{x} converted to a string"), "str({p})"),
    (("the words of {x}", "{x} split at white space"), "{p}.split()"),
    (("whether {x} is an empty string", "True if {x} is an empty string"), '{p} == ""'),
    (("the sum of {x}", "the sum of all numbers in {x}"), "sum({p})"),
    (("{x} sorted", "a sorted copy of {x}", "{x} in sorted order"), "sorted({p})"),
    (("the number of items in {x}", "how many items {x} has"), "len({p})"),
    (("the average of {x}", "the mean of {x}"), "sum({p}) / len({p})"),
    (("the second item of {x}",), "{p}[1]"),
    (("{x} unchanged", "{x} itself", "{x}"), "{p}"),
    (("{x} to the power of {n}", "{x} raised to {n}"), "{p} ** {n}"),
    (("{x} plus one", "{x} plus 1", "one more than {x}"), "{p} + 1"),
    (("{x} minus one", "{x} minus 1", "one less than {x}"), "{p} - 1"),
    (("{x} times {f}", "{x} multiplied by {f}"), "{p} * {f}"),
    (("{x} plus {f}", "the sum of {x} and {f}"), "{p} + {f}"),
    (("{x} divided by {f}",), "{p} / {f}"),
    (('"{w}, " plus {x}', 'the string "{w}, " followed by {x}', '"{w}, " + {x}'), '"{w}, " + {p}'),
    (('"{w} " plus {x}', '"{w} " followed by {x}'), '"{w} " + {p}'),
    (('{x} followed by "{w}"', '{x} with "{w}" at the end', '{x} plus "{w}"'), '{p} + "{w}"'),
    (('whether {x} starts with "{w}"', 'True if {x} begins with "{w}"'), '{p}.startswith("{w}")'),
    (('whether {x} ends with "{w}"', 'True if {x} ends in "{w}"'), '{p}.endswith("{w}")'),
    (('whether "{w}" is in {x}', 'True if {x} contains "{w}"'), '"{w}" in {p}'),
    (("the first {n} items of {x}", "the first {n} characters of {x}"), "{p}[:{n}]"),
)
_OF_TWO = (
    (("the sum of {both}",), "{p} + {q}"),
    (("the product of {both}",), "{p} * {q}"),
    (("the difference of {both}",), "{p} - {q}"),
    (("the larger of {both}", "the maximum of {both}", "the bigger of {both}"), "max({p}, {q})"),
    (("the smaller of {both}", "the minimum of {both}"), "min({p}, {q})"),
    (("True if {both} are equal", "whether {both} are equal"), "{p} == {q}"),
)
_OF_TWO_MORE = (
    (("{p} plus {q}", "{p} + {q}", "{p} and {q} added", "their sum"), "{p} + {q}"),
    (("{p} minus {q}", "{p} less {q}"), "{p} - {q}"),
    (("{p} times {q}", "{p} multiplied by {q}", "their product"), "{p} * {q}"),
    (("{p} divided by {q}", "{p} over {q}"), "{p} / {q}"),
    (("{p} modulo {q}", "the remainder of {p} divided by {q}"), "{p} % {q}"),
    (("{p} to the power of {q}", "{p} raised to {q}"), "{p} ** {q}"),
    (("the average of {both}", "the mean of {both}"), "({p} + {q}) / 2"),
    (("the absolute difference of {both}",), "abs({p} - {q})"),
    (("the logical and of {both}", "{p} and {q}"), "{p} and {q}"),
    (("the logical or of {both}", "{p} or {q}"), "{p} or {q}"),
    (("{p} followed by {q}", "the string {p} followed by the string {q}"), "{p} + {q}"),
    (("{p} and {q} joined by a space", "{p}, a space and {q}"), '{p} + " " + {q}'),
    (("True if {p} is in {q}", "whether {q} contains {p}"), "{p} in {q}"),
    (("True if {p} is greater than {q}", "whether {p} is larger than {q}"), "{p} > {q}"),
    (("True if {p} is less than {q}", "whether {p} is smaller than {q}"), "{p} < {q}"),
    (("the larger of the two", "the bigger one"), "max({p}, {q})"),
    (("the smaller of the two",), "min({p}, {q})"),
    (("item {q} of {p}", "the item of {p} at index {q}"), "{p}[{q}]"),
    (("the tuple of {both}",), "({p}, {q})"),
    (("the list of {both}",), "[{p}, {q}]"),
)
_OF_THREE = (
    (("the sum of {all}", "{p} plus {q} plus {r}"), "{p} + {q} + {r}"),
    (("the product of {all}", "{p} times {q} times {r}"), "{p} * {q} * {r}"),
    (("{p} minus {q} minus {r}",), "{p} - {q} - {r}"),
    (("{p} times {q} plus {r}",), "{p} * {q} + {r}"),
    (("the largest of {all}", "the maximum of {all}"), "max({p}, {q}, {r})"),
    (("the smallest of {all}",), "min({p}, {q}, {r})"),
    (("{q} if {p} is true, otherwise {r}",), "{q} if {p} else {r}"),
)
_CODE = {
    1: (
        "{p} * {n} + {m}", "{p} % {n} == 0", "{p} ** 2", "-{p}", "not {p}", "{p} / {n}", "({p} + {n}) * {m}",
        "{p} + {n}",
        "len({p})", "{p}[0]", "{p}[-1]", "{p}[::-1]", "{p}.upper()", "{p}.lower()", "str({p})", "abs({p})", "{p} > {n}",
        "{p} * {f} + {n}", "sum({p})", "sorted({p})", "{p} is None", "({p} - {n}) / {f}", "{p} * {f}", "{p} < {n}",
        '"{w}: " + {p}', "int({p})", "{p} == {n}", "{p}", "{p}.strip()", "{p} - {n}", "{p}.{w}", "{n} - {p}",
    ),
    2: (
        "{p} + {q}", "{p} - {q}", "{p} * {q}", "{p} / {q}", "({p} + {q}) / 2", "2 * ({p} + {q})", "{p} ** {q}",
        "{p} % {q}", "{p} // {q}", "max({p}, {q})", "min({p}, {q})", "{p} and {q}", "{p} or {q}", "{p} in {q}",
        "{p} == {q}", "{p} > {q}", '{p} + " " + {q}', "{p}[{q}]", "({p}, {q})", "[{p}, {q}]", "abs({p} - {q})",
        "{p} * {q} + {n}", "({p} - {q}) * {n}", "{p} * {p} + {q} * {q}", '{p} + "{w}" + {q}', "{p} * {n} + {q}",
    ),
    3: (
        "{p} + {q} + {r}", "{p} * {q} + {r}", "({p} + {q}) * {r}", "{p} - {q} - {r}", "{p} * {q} * {r}",
        "{p} if {q} else {r}", "({p} + {q} + {r}) / 3", "max({p}, {q}, {r})", "{p} + {q} - {r}",
    ),
}  # fmt: skip
"""Expressions of one, two and three arguments, which a request may give as they are."""
_LITERALS = (
    "True",
    "False",
    "None",
    "{n}",
    "{n}",
    "{f}",
    "-{n}",
    '"{w}"',
    '"{w}"',
    '"{n}"',
    '"{W}"',
    "[]",
    "[{n}, {m}]",
)


@dataclass(frozen=True, slots=True)
class Function:
    """Holds a function in words and in code."""

    name: str
    parameters: tuple[str, ...]
    what: str
    """What it returns, in terms of the parameters' names or of its arguments."""
    body: str

    @property
    def head(self) -> str:
        """Returns name and parameters, as in a definition."""
        return f"{self.name}({', '.join(self.parameters)})"

    @property
    def source(self) -> str:
        """Returns the definition."""
        return f"def {self.head}:\n    {self.body}"


def draw_function(slots: Slots, *, named: bool) -> Function:
    """Draws what it does, its name and, with `named`, what its parameters are called; `x` and `y` without it. All of
    it can be run by who grades it, and no part of it is given as code."""
    rng = slots.rng
    pair = rng.random() < 0.12
    parameters = tuple(slots.identifiers(2 if pair else 1, 1)) if named else ("x", "y") if pair else ("x",)
    name = _name(slots, parameters)
    values = {"p": parameters[0], "q": parameters[-1], "x": parameters[0] if named else "its argument"}
    values["both"] = " and ".join(parameters) if named else "its two arguments"
    if pair:
        words, code = rng.choice(_OF_TWO)
        return Function(name, parameters, rng.choice(words).format(**values), f"return {code.format(**values)}")
    what, body = rng.choices(_FORMS, _FORM_WEIGHTS)[0](slots, values["x"])
    return Function(name, parameters, what.format(**values), body.format(**values))


def draw_any_function(slots: Slots) -> Function:
    """Draws a function of one to three named arguments of any kind."""
    rng = slots.rng
    count = rng.choices((1, 2, 3), (0.5, 0.38, 0.12))[0]
    parameters = tuple(slots.identifiers(count, 1))
    words, code = rng.choice(((), _OF_ONE + _OF_ONE_MORE * 2, _OF_TWO + _OF_TWO_MORE * 2, _OF_THREE)[count])
    values = _values(slots, parameters)
    return Function(
        _name(slots, parameters), parameters, rng.choice(words).format(**values), f"return {code.format(**values)}"
    )


def draw_coded_function(slots: Slots) -> Function:
    """Draws the same, with an expression in the place of words."""
    rng = slots.rng
    count = rng.choices((1, 2, 3), (0.45, 0.4, 0.15))[0]
    parameters = tuple(slots.identifiers(count, 1))
    code = rng.choice(_CODE[count]).format(**_values(slots, parameters))
    return Function(_name(slots, parameters), parameters, code, f"return {code}")


def draw_constant_function(slots: Slots) -> Function:
    """Draws a function without arguments that returns a literal."""
    value = draw_literal(slots)
    return Function(_name(slots, ()), (), value, f"return {value}")


def draw_literal(slots: Slots) -> str:
    """Draws a Python literal: a number, a short text, a truth value, a list."""
    return slots.rng.choice(_LITERALS).format(**_values(slots, ()))


def _name(slots: Slots, parameters: tuple[str, ...]) -> str:
    while (name := slots.identifier()) in parameters:
        pass
    return name


def _values(slots: Slots, parameters: tuple[str, ...]) -> dict[str, str]:
    """What the fields of words and code stand for."""
    rng = slots.rng
    word = slots.word()
    values = {
        "n": str(_number(slots)),
        "m": str(_number(slots)),
        "f": f"{rng.randint(0, 20)}.{rng.choice((rng.randint(1, 9), rng.randint(11, 99)))}",
        "w": word,
        "W": word.capitalize(),
        **dict(zip("pqr", parameters, strict=False)),
    }
    if rng.random() < 0.4:
        values["w"] = values["W"]
    if parameters:
        values |= {"x": parameters[0], "both": " and ".join(parameters), "all": ", ".join(parameters[:-1])}
        values["all"] += f" and {parameters[-1]}"
    return values


_Form = Callable[[Slots, str], tuple[str, str]]


def _number(slots: Slots) -> int:
    return max(2, slots.number(4 if slots.rng.random() < 0.4 else 2))


def _operation(slots: Slots, x: str) -> tuple[str, str]:
    sign = slots.rng.choice(tuple(_OPERATIONS))
    number = _number(slots)
    what = slots.rng.choice(_OPERATIONS[sign]).format(x=x, n=number)
    return what, f"return {{p}} {sign} {number}"


def _two_operations(slots: Slots, x: str) -> tuple[str, str]:
    factor, number = _number(slots), _number(slots)
    words, sign = slots.rng.choice((("plus", "+"), ("minus", "-")))
    return f"{x} times {factor} {words} {number}", f"return {{p}} * {factor} {sign} {number}"


def _condition(slots: Slots) -> tuple[str, str]:
    sign = slots.rng.choice(tuple(_COMPARISONS))
    number = _number(slots)
    return slots.rng.choice(_COMPARISONS[sign]).format(n=number), f"{{p}} {sign} {number}"


def _comparison(slots: Slots, x: str) -> tuple[str, str]:
    words, code = _condition(slots)
    return f"{slots.rng.choice(('True if', 'whether'))} {x} is {words}", f"return {code}"


def _choice(slots: Slots, x: str) -> tuple[str, str]:
    words, code = _condition(slots)
    yes, no = slots.words(2)
    otherwise = slots.rng.choice(("otherwise", "else", "and otherwise"))
    return f'"{yes}" if {x} is {words}, {otherwise} "{no}"', f'return "{yes}" if {code} else "{no}"'


def _bound(slots: Slots, x: str) -> tuple[str, str]:
    number = _number(slots)
    words, name = slots.rng.choice((("at most", "min"), ("at least", "max")))
    return f"{x} but {words} {number}", f"return {name}({{p}}, {number})"


def _branch(slots: Slots, x: str) -> tuple[str, str]:
    words, code = _condition(slots)
    other = _number(slots)
    return f"{other} if {x} is {words}, otherwise {x}", f"if {code}:\n        return {other}\n    return {{p}}"


def _divisible(slots: Slots, x: str) -> tuple[str, str]:
    number = _number(slots)
    start = slots.rng.choice(("True if", "whether"))
    return f"{start} {x} is divisible by {number}", f"return {{p}} % {number} == 0"


def _of_one(slots: Slots, x: str) -> tuple[str, str]:
    words, code = slots.rng.choice(_OF_ONE)
    return slots.rng.choice(words).replace("{x}", x), f"return {code}"


_FORMS: tuple[_Form, ...] = (
    _operation, _two_operations, _comparison, _choice, _bound, _branch, _divisible, _of_one,
)  # fmt: skip
_FORM_WEIGHTS = (0.25, 0.07, 0.14, 0.12, 0.08, 0.08, 0.06, 0.2)
