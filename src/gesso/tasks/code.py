"""Asks for a small Python function from its description; graded by running it."""

import random
import re
from dataclasses import dataclass

from gesso.tasks.base import Example, Task
from gesso.tasks.run_code import UnsafeCodeError, load_function, outcome
from gesso.tasks.tried_arguments import tried_arguments
from gesso.tasks.words import NAME_NOUNS, NAME_VERBS, NUMBER_WORDS, OPPOSITES

_OPERATIONS = {
    "plus": ("+", "add"),
    "minus": ("-", "take"),
    "times": ("*", "scale"),
    "floor divided by": ("//", "split"),
    "modulo": ("%", "wrap"),
}
_COMPARISONS = {
    "greater than": ">", "less than": "<", "at least": ">=", "at most": "<=", "equal to": "==",
}  # fmt: skip
_OF_ONE = (
    ("the square of its argument", "x * x"),
    ("the cube of its argument", "x * x * x"),
    ("the absolute value of its argument", "abs(x)"),
    ("the negative of its argument", "-x"),
    ("the length of its argument", "len(x)"),
    ("the first item of its argument", "x[0]"),
    ("the last item of its argument", "x[-1]"),
    ("its argument reversed", "x[::-1]"),
    ("True if its argument is even", "x % 2 == 0"),
    ("True if its argument is odd", "x % 2 == 1"),
)
_OF_TWO = (
    ("sum", "x + y"),
    ("product", "x * y"),
    ("difference", "x - y"),
    ("larger", "max(x, y)"),
    ("smaller", "min(x, y)"),
)
NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
"""A whole number in a function's source, no part of a name or of another number."""
_FITTING_NAME_SHARE = 0.4
_SMALL_NUMBER_SHARE = 0.7
_TAILS = NUMBER_WORDS + NAME_NOUNS + tuple(word for pair in OPPOSITES for word in pair)


@dataclass(frozen=True, slots=True)
class _Function:
    """What a function returns, in words and in code; `name` is the one that fits it, if there is one."""

    returns: str
    body: str
    parameters: str = "x"
    name: str | None = None


class Code(Task):
    """Asks such as `Write a Python function add_seven that returns its argument plus 7.` -> its definition."""

    name = "code"

    def sample(self, rng: random.Random) -> Example:
        """Draws one of the forms; the name fits the description less than half of the time."""
        function = rng.choices(_FORMS, _FORM_WEIGHTS)[0](rng)
        name = draw_name(rng)
        if function.name is not None and rng.random() < _FITTING_NAME_SHARE:
            name = function.name
        prompt = f"Write a Python function {name} that returns {function.returns}."
        return Example(self.name, prompt, f"def {name}({function.parameters}):\n    {function.body}")

    def grade(self, example: Example, text: str) -> bool:
        """Accepts a function of the asked name that returns what the reference does on every input tried."""
        named = re.match(r"def (\w+)\(", example.answer)
        assert named is not None, "a reference answer starts with its definition"
        reference = load_function(example.answer, named[1])
        try:
            function = load_function(text.strip(), named[1])
        except UnsafeCodeError:
            return False
        tried = tried_arguments(reference, example.answer)
        return all(outcome(function, values) == outcome(reference, values) for values in tried)


def draw_name(rng: random.Random) -> str:
    """Draws a function's name of two words."""
    return f"{rng.choice(NAME_VERBS)}_{rng.choice(_TAILS)}"


def lone_numbers(source: str) -> list[str]:
    """Returns the numbers that stand in `source` once, so that an instruction can name them."""
    numbers = NUMBER.findall(source)
    return [number for number in numbers if numbers.count(number) == 1]


def _number(rng: random.Random) -> int:
    return rng.randint(2, 20) if rng.random() < _SMALL_NUMBER_SHARE else rng.randint(21, 99)


def _operation(rng: random.Random) -> _Function:
    words = rng.choice(tuple(_OPERATIONS))
    sign, verb = _OPERATIONS[words]
    number = _number(rng)
    name = f"{verb}_{NUMBER_WORDS[number]}" if number < len(NUMBER_WORDS) else None
    return _Function(f"its argument {words} {number}", f"return x {sign} {number}", name=name)


def _two_operations(rng: random.Random) -> _Function:
    factor, number = _number(rng), _number(rng)
    words = rng.choice(("plus", "minus"))
    body = f"return x * {factor} {_OPERATIONS[words][0]} {number}"
    return _Function(f"its argument times {factor} {words} {number}", body)


def _comparison(rng: random.Random) -> _Function:
    words, number = rng.choice(tuple(_COMPARISONS)), _number(rng)
    return _Function(f"True if its argument is {words} {number}", f"return x {_COMPARISONS[words]} {number}")


def _choice(rng: random.Random) -> _Function:
    words, number = rng.choice(tuple(_COMPARISONS)), _number(rng)
    pair = rng.choice(OPPOSITES)
    yes, no = pair if rng.random() < 0.5 else pair[::-1]
    returns = f'"{yes}" if its argument is {words} {number}, otherwise "{no}"'
    return _Function(returns, f'return "{yes}" if x {_COMPARISONS[words]} {number} else "{no}"', name=f"is_{yes}")


def _bound(rng: random.Random) -> _Function:
    number = _number(rng)
    words, function = rng.choice((("at most", "min"), ("at least", "max")))
    name = f"cap_{NUMBER_WORDS[number]}" if number < len(NUMBER_WORDS) else None
    return _Function(f"its argument but {words} {number}", f"return {function}(x, {number})", name=name)


def _branch(rng: random.Random) -> _Function:
    words, number, other = rng.choice(tuple(_COMPARISONS)), _number(rng), _number(rng)
    body = f"if x {_COMPARISONS[words]} {number}:\n        return {other}\n    return x"
    return _Function(f"{other} if its argument is {words} {number}, otherwise its argument", body)


def _divisible(rng: random.Random) -> _Function:
    number = _number(rng)
    return _Function(f"True if its argument is divisible by {number}", f"return x % {number} == 0")


def _of_one(rng: random.Random) -> _Function:
    returns, expression = rng.choice(_OF_ONE)
    return _Function(returns, f"return {expression}")


def _of_two(rng: random.Random) -> _Function:
    words, expression = rng.choice(_OF_TWO)
    return _Function(f"the {words} of its two arguments", f"return {expression}", parameters="x, y")


_FORMS = (
    _operation, _two_operations, _comparison, _choice, _bound, _branch, _divisible, _of_one, _of_two,
)  # fmt: skip
_FORM_WEIGHTS = (0.25, 0.08, 0.13, 0.15, 0.08, 0.07, 0.06, 0.10, 0.08)
