"""Asks for a small Python function under any name; graded by running it."""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

from gesso.tasks.base import Example
from gesso.tasks.run_code import UnsafeCodeError, constants, load_function, outcome
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots, read_phrasings

_UNNAMED = read_phrasings("functions", "unnamed")
_NAMED = read_phrasings("functions", "named")

_COMPARISONS = {
    ">": ("greater than {n}", "larger than {n}", "more than {n}", "above {n}"),
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
    (("the cube of {x}",), "{p} * {p} * {p}"),
    (("the absolute value of {x}",), "abs({p})"),
    (("the negative of {x}", "minus {x}"), "-{p}"),
    (("twice {x}", "double {x}"), "{p} * 2"),
    (("three times {x}", "triple {x}"), "{p} * 3"),
    (("half of {x}", "one half of {x}"), "{p} / 2"),
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
_OF_TWO = (
    (("the sum of {both}",), "{p} + {q}"),
    (("the product of {both}",), "{p} * {q}"),
    (("the difference of {both}",), "{p} - {q}"),
    (("the larger of {both}", "the maximum of {both}"), "max({p}, {q})"),
    (("the smaller of {both}", "the minimum of {both}"), "min({p}, {q})"),
    (("True if {both} are equal", "whether {both} are equal"), "{p} == {q}"),
)
_PLAIN_INTEGERS = (-101, -7, -2, -1, 0, 1, 2, 3, 8, 100)
_SEQUENCES: tuple[Any, ...] = ("a", "ab", "hello", [3], [1, 2, 3], [4, 4, 0, 1])


@dataclass(frozen=True, slots=True)
class Function:
    """Holds a function in words and in code."""

    name: str
    parameters: tuple[str, ...]
    what: str
    """What it returns, in terms of the parameters' names or of its arguments."""
    body: str

    @property
    def source(self) -> str:
        """Returns the definition."""
        return f"def {self.name}({', '.join(self.parameters)}):\n    {self.body}"


def draw_function(slots: Slots, *, named: bool) -> Function:
    """Draws what it does, its name and, with `named`, what its parameters are called; `x` and `y` without it."""
    rng = slots.rng
    pair = rng.random() < 0.12
    parameters = tuple(slots.identifiers(2 if pair else 1, 1)) if named else ("x", "y") if pair else ("x",)
    name = slots.identifier()
    while name in parameters:
        name = slots.identifier()
    values = {"p": parameters[0], "q": parameters[-1], "x": parameters[0] if named else "its argument"}
    values["both"] = " and ".join(parameters) if named else "its two arguments"
    if pair:
        words, code = rng.choice(_OF_TWO)
        return Function(name, parameters, rng.choice(words).format(**values), f"return {code.format(**values)}")
    what, body = rng.choices(_FORMS, _FORM_WEIGHTS)[0](slots, values["x"])
    return Function(name, parameters, what.format(**values), body.format(**values))


def grade_function(reference: str, text: str) -> bool:
    """Says whether `text` is a function of the reference's name that does the same on every input tried."""
    name = reference[4 : reference.index("(")]
    expected = load_function(reference, name)
    try:
        function = load_function(text.strip(), name)
    except UnsafeCodeError:
        return False
    inputs = _inputs(expected, reference)
    return all(outcome(function, values) == outcome(expected, values) for values in inputs)


class Functions(Skill):
    """Asks such as `Define grelt_max(fig) returning fig plus 371` -> its definition."""

    name = "functions"
    phrasings: ClassVar = {"plain": _UNNAMED, "with arguments": _NAMED}

    def draw(self, slots: Slots) -> Example:
        """Draws a function; half of the time its arguments have names."""
        named = slots.rng.random() < 0.5
        function = draw_function(slots, named=named)
        args = (" and " if slots.rng.random() < 0.1 else ", ").join(function.parameters)
        ask = slots.choice(_NAMED if named else _UNNAMED, name=function.name, args=args, what=function.what)
        prompt = slots.frame(ask).replace("??", "?")
        return Example(self.name, prompt, function.source, kind=slots.kind("named" if named else "plain"))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts a function of the asked name that returns what the reference does on every input tried."""
        return grade_function(example.answer, text)


def _inputs(reference: Callable[..., Any], source: str) -> list[tuple[Any, ...]]:
    integers = set(_PLAIN_INTEGERS)
    for number in constants(source):
        integers |= {number - 1, number, number + 1, -number, 2 * number, 3 * number + 1}
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.FunctionDef)
    if len(definition.args.args) == 2:
        return list(product(sorted(integers), repeat=2))
    if outcome(reference, (1,))[0] == "raised":
        return [(value,) for value in _SEQUENCES]
    return [(value,) for value in sorted(integers)]


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
