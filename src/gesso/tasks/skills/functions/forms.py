"""Draws what a small Python function does, in words and in code."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from gesso.tasks.skills.functions.words import (
    CODE,
    COMPARISONS,
    LITERALS,
    OF_ONE,
    OF_ONE_MORE,
    OF_THREE,
    OF_TWO,
    OF_TWO_MORE,
    OPERATIONS,
)
from gesso.tasks.skills.lexicon import RESERVED
from gesso.tasks.skills.slots import Slots


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
    name = draw_name(slots, parameters)
    values = {"p": parameters[0], "q": parameters[-1], "x": parameters[0] if named else "its argument"}
    values["both"] = " and ".join(parameters) if named else "its two arguments"
    if pair:
        words, code = rng.choice(OF_TWO)
        return Function(name, parameters, rng.choice(words).format(**values), f"return {code.format(**values)}")
    what, body = rng.choices(_FORMS, _FORM_WEIGHTS)[0](slots, values["x"])
    return Function(name, parameters, what.format(**values), body.format(**values))


def draw_any_function(slots: Slots) -> Function:
    """Draws a function of one to three named arguments of any kind."""
    rng = slots.rng
    count = rng.choices((1, 2, 3), (0.5, 0.38, 0.12))[0]
    parameters = tuple(slots.identifiers(count, 1))
    words, code = rng.choice(((), OF_ONE * 2 + OF_ONE_MORE * 2, OF_TWO * 4 + OF_TWO_MORE * 2, OF_THREE)[count])
    values = _values(slots, parameters)
    return Function(
        draw_name(slots, parameters), parameters, rng.choice(words).format(**values), f"return {code.format(**values)}"
    )


def draw_coded_function(slots: Slots) -> Function:
    """Draws the same, with an expression in the place of words."""
    rng = slots.rng
    count = rng.choices((1, 2, 3), (0.45, 0.4, 0.15))[0]
    parameters = tuple(slots.identifiers(count, 1))
    code = rng.choice(CODE[count]).format(**_values(slots, parameters))
    return Function(draw_name(slots, parameters), parameters, code, f"return {code}")


def draw_constant_function(slots: Slots) -> Function:
    """Draws a function without arguments that returns a literal."""
    value = draw_literal(slots)
    return Function(draw_name(slots, ()), (), value, f"return {value}")


def draw_literal(slots: Slots) -> str:
    """Draws a Python literal: a number, a short text, a truth value, a list."""
    return slots.rng.choice(LITERALS).format(**_values(slots, ()))


def draw_name(slots: Slots, taken: Collection[str]) -> str:
    """Draws a function's name, none of those taken."""
    while (name := slots.identifier()) in taken:
        pass
    return name


def _values(slots: Slots, parameters: tuple[str, ...]) -> dict[str, str]:
    """What the fields of words and code stand for."""
    rng = slots.rng
    while (word := slots.word()) in RESERVED:  # `{p}.{w}` is an attribute
        pass
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
    sign = slots.rng.choice(tuple(OPERATIONS))
    number = _number(slots)
    what = slots.rng.choice(OPERATIONS[sign]).format(x=x, n=number)
    return what, f"return {{p}} {sign} {number}"


def _two_operations(slots: Slots, x: str) -> tuple[str, str]:
    factor, number = _number(slots), _number(slots)
    words, sign = slots.rng.choice((("plus", "+"), ("minus", "-")))
    return f"{x} times {factor} {words} {number}", f"return {{p}} * {factor} {sign} {number}"


def _condition(slots: Slots) -> tuple[str, str]:
    sign = slots.rng.choice(tuple(COMPARISONS))
    number = _number(slots)
    return slots.rng.choice(COMPARISONS[sign]).format(n=number), f"{{p}} {sign} {number}"


def _comparison(slots: Slots, x: str) -> tuple[str, str]:
    words, code = _condition(slots)
    return f"{slots.rng.choice(('True if', 'whether'))} {x} is {words}", f"return {code}"


def _choice(slots: Slots, x: str) -> tuple[str, str]:
    words, code = _condition(slots)
    yes, no = (f'"{word}"' for word in slots.words(2))
    if slots.rng.random() < 0.25:
        yes, no = map(str, slots.numbers(2, 2))
    otherwise = slots.rng.choice(("otherwise", "else", "and otherwise"))
    return f"{yes} if {x} is {words}, {otherwise} {no}", f"return {yes} if {code} else {no}"


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
    words, code = slots.rng.choice(OF_ONE)
    return slots.rng.choice(words).replace("{x}", x), f"return {code}"


_FORMS: tuple[_Form, ...] = (
    _operation, _two_operations, _comparison, _choice, _bound, _branch, _divisible, _of_one,
)  # fmt: skip
_FORM_WEIGHTS = (0.25, 0.07, 0.14, 0.12, 0.08, 0.08, 0.06, 0.2)
