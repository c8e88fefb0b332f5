"""Draws functions whose heads or bodies have more than names and an expression: defaults, hints, docstrings, lines."""

import dataclasses
import re
from collections.abc import Callable

from gesso.tasks.skills.articles import with_articles
from gesso.tasks.skills.changes.bodies import definition, draw_expressed, draw_free_name, draw_sentence
from gesso.tasks.skills.functions.forms import Function, draw_any_function, draw_function, draw_literal, draw_name
from gesso.tasks.skills.slots import Slots

_TYPED = {
    "": r"[<>=]|\b(?:if|in|is|len|sum|str|int|split|True|startswith|endswith|isdigit|count|join|float|round)\b|"
    r"(?:max|min)\(\w+\)",
    "str": r"\.(?:upper|lower|strip|title|capitalize|replace)\(|\"",
    "list": r"\bsorted\b|\[[^\[\]]*:",
    "bool": r"\b(?:not|and|or)\b",
    "float": r" / |\d\.\d",
}
"""What is in the body of a function of which arguments and result are of a type; of none, first."""
_NUMERIC = r" [-+*/%]+ |return -|\b(?:abs|max|min)\("
_OF_TEXTS = r"\"|\.(?!\d)|\blen\(|\bint\(|p\["
_OF_LISTS_TOO = r"\b(?:len|sum|sorted|in)\b|p\[|\b(?:max|min)\(p\)"
Drawn = tuple[dict[str, str], str]
"""What the fields of a request stand for, and the definition."""
LISTS = ("prices", "numbers", "values", "items", "scores", "nums", "xs", "data", "marks", "costs", "weights", "ages",
          "amounts", "lengths", "points", "temps", "sizes", "list1", "lst", "arr", "heights", "grades")  # fmt: skip
_OF_LISTS = (
    (("their sum", "the sum of them", "their total", "the total", "the sum of all of them", "the sum"), "sum({p})"),
    (("their sum", "the sum of {p}", "the sum of all {p}"), "sum({p})"),
    (("their average", "the average", "their mean", "the mean of {p}", "the average of {p}"), "sum({p}) / len({p})"),
    (("the largest", "the largest of them", "the biggest one", "the maximum", "the largest of {p}"), "max({p})"),
    (("the smallest", "the smallest of them", "the minimum", "the smallest of {p}"), "min({p})"),
    (("how many there are", "their number", "how many {p} there are", "the count", "the number of {p}"), "len({p})"),
    (("them sorted", "the {p} sorted", "a sorted list", "{p} in sorted order"), "sorted({p})"),
    (("the first of them", "the first one", "the first of {p}"), "{p}[0]"),
    (("the last of them", "the last one", "the last of {p}"), "{p}[-1]"),
    (("them reversed", "the {p} in reverse order", "{p} backwards"), "{p}[::-1]"),
    (("the largest minus the smallest", "the largest of {p} minus the smallest"), "max({p}) - min({p})"),
    (("twice their sum", "double the sum of {p}"), "sum({p}) * 2"),
)  # fmt: skip


_TYPED_MORE: tuple[tuple[tuple[str, ...], str, tuple[str, ...], str], ...] = (
    (("int",), "int", ("{p} plus {n}", "{p} + {n}", "the sum of {p} and {n}"), "{p} + {n}"),
    (("int",), "int", ("{p} minus {n}", "{p} - {n}"), "{p} - {n}"),
    (("int",), "int", ("{p} times {n}", "{p} multiplied by {n}"), "{p} * {n}"),
    (("int",), "float", ("{p} divided by {n}", "{p} / {n}"), "{p} / {n}"),
    (("int",), "bool", ("whether {p} is even", "True if {p} is even"), "{p} % 2 == 0"),
    (("int",), "bool", ("whether {p} is greater than {n}", "True if {p} is above {n}"), "{p} > {n}"),
    (("int",), "bool", ("whether {p} is at least {n}", "True if {p} is {n} or more"), "{p} >= {n}"),
    (("float",), "bool", ("whether {p} is negative", "True if {p} is below zero"), "{p} < 0"),
    (("int",), "str", ("{p} as a string", "{p} converted to a string"), "str({p})"),
    (("str",), "int", ("the length of {p}", "how long {p} is"), "len({p})"),
    (("str",), "int", ("{p} as an integer", "{p} converted to int"), "int({p})"),
    (("str",), "float", ("{p} as a float", "{p} converted to float"), "float({p})"),
    (("str",), "str", ("{p} in upper case", "{p} in capitals"), "{p}.upper()"),
    (("str",), "str", ("{p} in lower case",), "{p}.lower()"),
    (("str",), "list", ("the words of {p}", "{p} split at white space"), "{p}.split()"),
    (("str",), "str", ('"{w} " plus {p}', '"{w} " followed by {p}'), '"{w} " + {p}'),
    (("str",), "bool", ('whether {p} starts with "{w}"',), '{p}.startswith("{w}")'),
    (("list",), "int", ("the number of items in {p}", "the length of {p}"), "len({p})"),
    (("list",), "int", ("the sum of {p}", "the sum of all numbers in {p}"), "sum({p})"),
    (("list[int]",), "int", ("the sum of {p}", "the total of {p}"), "sum({p})"),
    (("list",), "list", ("{p} sorted", "{p} in sorted order"), "sorted({p})"),
    (("list",), "float", ("the average of {p}", "the mean of {p}"), "sum({p}) / len({p})"),
    (("float", "int"), "float", ("{p} times {q}", "the product of {p} and {q}"), "{p} * {q}"),
    (("int", "int"), "int", ("the sum of {p} and {q}", "{p} plus {q}"), "{p} + {q}"),
    (("int", "int"), "int", ("{p} minus {q}", "{p} less {q}"), "{p} - {q}"),
    (("int", "int"), "int", ("the larger of {p} and {q}", "the maximum of {p} and {q}"), "max({p}, {q})"),
    (("int", "int"), "float", ("{p} divided by {q}",), "{p} / {q}"),
    (("float", "float"), "float", ("the average of {p} and {q}", "the mean of {p} and {q}"), "({p} + {q}) / 2"),
    (("float", "float"), "bool", ("whether {p} is greater than {q}", "True if {p} is larger than {q}"), "{p} > {q}"),
    (("str", "str"), "str", ("{p} followed by {q}", "{p} and {q} joined together"), "{p} + {q}"),
    (("str", "str"), "str", ("{p} and {q} joined by a space", "{p}, a space and {q}"), '{p} + " " + {q}'),
    (("str", "int"), "str", ("{p} repeated {q} times", "{p} times {q}"), "{p} * {q}"),
    (("str", "list"), "bool", ("whether {p} is in {q}", "True if {q} contains {p}"), "{p} in {q}"),
    (("str", "str"), "bool", ("whether {p} and {q} are equal", "True if {p} equals {q}"), "{p} == {q}"),
)
"""Types of arguments and of the result, what is returned in words, and in code."""


def draw_one(slots: Slots) -> Drawn:
    """Draws a function of one argument that is told in words."""
    while True:
        draw = draw_any_function(slots) if slots.rng.random() < 0.4 else draw_function(slots, named=True)
        if len(draw.parameters) == 1:
            return fields_of(draw), draw.source


def draw_default(slots: Slots) -> Drawn:
    """Draws a function whose last argument has a default."""
    while True:
        function = draw_any_function(slots)
        *others, last = function.parameters
        value = str(slots.number(2)) if slots.rng.random() < 0.6 else draw_literal(slots)
        if _can_default(value, re.sub(rf"\b{last}\b", "p", function.body)):
            break
    parameters = (*others, f"{last}={value}")
    source = definition(function.name, parameters, function.body)
    fields = fields_of(function) | {"last": last, "value": value, "args": ", ".join(parameters)}
    return fields | {"head": f"{function.name}({', '.join(parameters)})"}, source


def _can_default(value: str, body: str) -> bool:
    """Says whether what the body does with its argument `p` fits a default such as the value."""
    if re.search(r"[!=]= (?!\d)\w+$|\b(?:not|and|or|if)\b|return [(\[]\w+, ", body):
        return True
    if "is None" in body:
        return value == "None"
    if value[0] == '"':
        return re.search(_OF_TEXTS, body) is not None
    if value[0] == "[":
        return re.search(_OF_LISTS_TOO, body) is not None
    return value[-1].isdigit() and not re.search(f"{_OF_TEXTS}|{_OF_LISTS_TOO}", body)


def draw_hinted(slots: Slots) -> Drawn:
    """Draws a function whose arguments and result have type hints, all of the same type, which fits the result."""
    while True:
        function = draw_any_function(slots)
        if kind := _type_of(function, slots):
            break
    hinted = tuple(f"{name}: {kind}" for name in function.parameters)
    source = definition(function.name, hinted, function.body, returned=kind)
    head = source.removeprefix("def ").split("\n")[0].removesuffix(":")
    return fields_of(function) | {"type": kind, "head": head}, source


def _type_of(function: Function, slots: Slots) -> str:
    """The type of arguments and result, or nothing where these differ, as of a comparison."""
    of_text = re.search("string|followed|character|letter|repeated", function.what)
    if of_text and not re.search(_TYPED[""], function.body):
        return "str"
    for kind, code in _TYPED.items():
        if re.search(code, function.body):
            return kind
    return slots.rng.choice(("int", "int", "float")) if re.search(_NUMERIC, function.body) else ""


def draw_typed(slots: Slots) -> Drawn:
    """Draws a function whose arguments and result have type hints that may differ from each other."""
    rng = slots.rng
    types, returned, words, code = rng.choice(_TYPED_MORE)
    parameters = slots.identifiers(len(types), 1)
    name = slots.identifier()
    while name in parameters:
        name = slots.identifier()
    values = {"p": parameters[0], "q": parameters[-1], "n": max(2, slots.number(2)), "w": slots.word()}
    what, body = rng.choice(words).format(**values), f"return {code.format(**values)}"
    function = Function(name, tuple(parameters), what, body)
    hinted = tuple(f"{parameter}: {kind}" for parameter, kind in zip(parameters, types, strict=True))
    source = definition(name, hinted, body, returned=returned)
    told = " and ".join(
        f"{parameter} is {with_articles(f'a {kind}')}" for parameter, kind in zip(parameters, types, strict=True)
    )
    head = f"{name}({', '.join(hinted)})"
    fields = fields_of(function) | {
        "types": told,
        "type": returned,
        "a_type": with_articles(f"a {returned}"),
        "bare": head,
    }
    return fields | {"head": f"{head} -> {returned}"}, source


def draw_apart(slots: Slots) -> Drawn:
    """Draws a function whose name, arguments and result are told one after the other."""
    rng = slots.rng
    while True:
        function = draw_any_function(slots) if rng.random() < 0.8 else draw_function(slots, named=True)
        if len(function.parameters) > 1 or rng.random() < 0.5:
            break
    *others, last = function.parameters
    listed = f"{', '.join(others)} and {last}" if others else last
    if rng.random() < 0.35:
        listed = ", ".join(function.parameters)
    elif rng.random() < 0.12:
        listed = listed.replace(" and ", " & ")
    count = len(function.parameters)
    numbers = {
        "count": ("one", "two", "three")[count - 1],
        "s": "s" if count > 1 else "",
        "is": "are" if others else "is",
    }
    return fields_of(function) | {"listed": listed} | numbers, function.source


def draw_lines(slots: Slots) -> Drawn:
    """Draws a function of two lines, the first of which sets a local variable."""
    function = draw_expressed(slots, lambda f: bool(f.parameters))
    name, rng = draw_free_name(slots, function.source), slots.rng
    first = f"{name} = {function.body.removeprefix('return ')}"
    number = slots.number(2)
    second = rng.choice((f"return {name}", f"return {name} {rng.choice('+-*')} {number}", f"print({name})"))
    source = definition(function.name, function.parameters, first, second)
    return fields_of(function) | {"first": first, "second": second}, source


def draw_plural(slots: Slots) -> Drawn:
    """Draws a function of a list."""
    rng = slots.rng
    parameter = rng.choice(LISTS)
    words, code = rng.choice(_OF_LISTS)
    name = draw_name(slots, (parameter,))
    what = rng.choice(words).format(p=parameter)
    function = Function(name, (parameter,), what, f"return {code.format(p=parameter)}")
    return fields_of(function), function.source


def draw_identity(slots: Slots) -> Drawn:
    """Draws a function that returns its argument."""
    (parameter,) = slots.identifiers(1, 1)
    name = draw_name(slots, (parameter,))
    function = Function(name, (parameter,), parameter, f"return {parameter}")
    return fields_of(function), function.source


def draw_documented(slots: Slots) -> Drawn:
    """Draws a function with a docstring."""
    function, text = draw_any_function(slots), draw_sentence(slots)
    return fields_of(function) | {"text": text}, definition(
        function.name, function.parameters, f'"""{text}"""', function.body
    )


def draw_empty(slots: Slots) -> Drawn:
    """Draws a function that does nothing."""
    function = draw_any_function(slots)
    if slots.rng.random() < 0.3:
        function = dataclasses.replace(function, parameters=())
    function = dataclasses.replace(function, body="pass")
    return fields_of(function), function.source


def fields_of(function: Function) -> dict[str, str]:
    """Returns what the fields of a request for a function stand for."""
    args = ", ".join(function.parameters)
    return {"name": function.name, "args": args, "plain": args, "head": function.head, "what": function.what}


HEADED: dict[str, tuple[Callable[[Slots], Drawn], float]] = {
    "one": (draw_one, 0.07),
    "apart": (draw_apart, 0.14),
    "default": (draw_default, 0.055),
    "hinted": (draw_hinted, 0.04),
    "typed": (draw_typed, 0.055),
    "lines": (draw_lines, 0.085),
    "plural": (draw_plural, 0.06),
    "identity": (draw_identity, 0.02),
    "documented": (draw_documented, 0.035),
    "pass": (draw_empty, 0.02),
}
"""How each kind is drawn, and its share beside those of `gesso.tasks.skills.functions.skill`."""
