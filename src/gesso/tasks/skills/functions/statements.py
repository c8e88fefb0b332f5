"""Draws functions of statements told in words: of steps, loops and things to print; with f-strings; and lambdas."""

import dataclasses
from collections.abc import Callable

from gesso.tasks.skills.changes.bodies import definition, draw_free_name
from gesso.tasks.skills.functions.forms import Function, draw_any_function, draw_function, draw_name
from gesso.tasks.skills.functions.heads import LISTS, Drawn, fields_of
from gesso.tasks.skills.functions.telling import draw_telling
from gesso.tasks.skills.slots import Slots

_LOCAL_NAMES = ("result", "total", "answer", "res", "out", "tmp", "value", "ret", "s", "r")
_ITEM_NAMES = ("x", "n", "item", "i", "v", "num", "el", "p", "value", "s")
_CONDITIONS = (
    ("even", "{i} % 2 == 0"), ("odd", "{i} % 2 == 1"), ("positive", "{i} > 0"), ("negative", "{i} < 0"),
    ("greater than {n}", "{i} > {n}"), ("more than {n}", "{i} > {n}"), ("above {n}", "{i} > {n}"),
    ("less than {n}", "{i} < {n}"), ("below {n}", "{i} < {n}"), ("at least {n}", "{i} >= {n}"),
    ("at most {n}", "{i} <= {n}"), ("equal to {n}", "{i} == {n}"), ("not equal to {n}", "{i} != {n}"),
    ("divisible by {n}", "{i} % {n} == 0"),
)  # fmt: skip
_MAPPED = (
    ("doubled", "times 2", "{i} * 2"), ("squared", "squared", "{i} * {i}"), ("plus {n}", "plus {n}", "{i} + {n}"),
    ("minus {n}", "minus {n}", "{i} - {n}"), ("times {n}", "times {n}", "{i} * {n}"),
    ("multiplied by {n}", "multiplied by {n}", "{i} * {n}"), ("halved", "divided by 2", "{i} / 2"),
    ("in upper case", "in upper case", "{i}.upper()"), ("in lower case", "in lower case", "{i}.lower()"),
    ("increased by {n}", "increased by {n}", "{i} + {n}"), ("stripped", "stripped", "{i}.strip()"),
    ("as a string", "as a string", "str({i})"), ("as an integer", "as an integer", "int({i})"),
)  # fmt: skip
_TEXTS = ("{W}", "{w}", "{W}!", "{W} {v}", "{W}, {v}!", "{w} {v}", "{W} {v}!", "{W} {v}.", "Hello {w}", "Hello, {W}!")
_PRINTED_TOO = (
    ("prints {p} and returns it", "print {p} and return it"),
    ("prints {p} and then returns {p}", "print {p}, then return {p}"),
    ("first prints {p} and then returns it", "first print {p} and then return it"),
)
_UNCLEAR = ("their", "the larger of the two", "the bigger one", "the smaller of the two")
"""What results begin with that do not say of what they are."""
_AROUND = (
    "{W}, {{{p}}}!", "{W} {{{p}}}", "{W}, {{{p}}}", "{W}: {{{p}}}", "{{{p}}} {w}", "{{{p}}}!", "The {w} is {{{p}}}",
    "{{{p}}} {w}s", "{W} {{{p}}}!", "{w}-{{{p}}}", "#{{{p}}}", "{{{p}}} %", "{W} {{{p}}} {w}", "I am {{{p}}}",
    "{w} = {{{p}}}",
)  # fmt: skip
_AROUND_TWO = (
    "{{{p}}} {{{q}}}", "{{{p}}}, {{{q}}}", "{{{p}}}-{{{q}}}", "{{{p}}}: {{{q}}}", "{{{p}}} is {{{q}}}",
    "{W} {{{p}}} {{{q}}}", "{{{q}}}, {{{p}}}", "{{{p}}} {w} {{{q}}}", "{{{p}}}/{{{q}}}", "{{{p}}}@{{{q}}}",
)  # fmt: skip


def draw_steps(slots: Slots) -> Drawn:
    """Draws a function of two lines that are told in words."""
    rng = slots.rng
    kind = rng.choices(("stored", "more", "shown", "both", "append", "guarded"), (0.34, 0.14, 0.14, 0.12, 0.12, 0.14))[
        0
    ]
    if kind == "append":
        return _appended(slots)
    function = _told(slots)
    if kind in ("both", "guarded"):
        function = dataclasses.replace(function, parameters=function.parameters[:1])
    if kind == "both":
        does, do = (text.format(p=function.parameters[0]) for text in rng.choice(_PRINTED_TOO))
        lines = [f"print({function.parameters[0]})", f"return {function.parameters[0]}"]
        return _stepped(function, does, do, lines)
    if kind == "guarded":
        return _guarded(slots, function)
    name = rng.choice(_LOCAL_NAMES)
    if name in function.source or rng.random() < 0.35:
        name = draw_free_name(slots, function.source)
    number = max(2, slots.number(2))
    last = {"stored": f"return {name}", "shown": f"print({name})", "more": f"return {name} + {number}"}[kind]
    ends = {"stored": ("returns {t}", "return {t}"), "shown": ("prints {t}", "print {t}"),
            "more": ("returns {t} plus {n}", "return {t} plus {n}")}[kind]  # fmt: skip
    starts, start = rng.choice((("stores {what} in {t}", "store {what} in {t}"),
                                ("saves {what} as {t}", "save {what} as {t}"),
                                ("sets {t} to {what}", "set {t} to {what}"),
                                ("puts {what} into {t}", "put {what} into {t}"),
                                ("assigns {what} to {t}", "assign {what} to {t}")))  # fmt: skip
    between = rng.choice((" and ", " and then ", ", then ", " and "))
    values = {"t": name, "what": function.what, "n": number}
    does, do = (f"{one}{between}{two}".format(**values) for one, two in ((starts, ends[0]), (start, ends[1])))
    lines = [f"{name} = {function.body.removeprefix('return ')}", last]
    return _stepped(function, does, do, lines)


def _appended(slots: Slots) -> Drawn:
    rng = slots.rng
    parameter = rng.choice(LISTS)
    name, item = slots.identifier(), slots.identifier(1)
    while name == parameter or item in (parameter, name):
        name, item = slots.identifier(), slots.identifier(1)
    verb, code, place = rng.choice((("append", "append", "to"), ("add", "append", "to"), ("remove", "remove", "from")))
    end = rng.choice((" and returns it", " and returns {p}", ", then returns {p}")).format(p=parameter)
    end_of = end.replace("returns", "return")
    function = Function(name, (parameter, item), "", "")
    lines = [f"{parameter}.{code}({item})", f"return {parameter}"]
    third = f"{verb}s {item} {place} {parameter}"
    return _stepped(function, f"{third}{end}", f"{verb} {item} {place} {parameter}{end_of}", lines)


def _guarded(slots: Slots, function: Function) -> Drawn:
    rng = slots.rng
    parameter, text = function.parameters[0], _text(slots)
    words, code = rng.choice(_CONDITIONS)
    number = max(2, slots.number(2))
    condition = f"{parameter} is {words.format(n=number)}"
    lines = [f"if {code.format(i=parameter, n=number)}:", f'    print("{text}")']
    does = rng.choice((f'prints "{text}" if {condition}', f'prints "{text}" when {condition}'))
    return _stepped(function, does, does.replace("prints", "print", 1), lines)


def _stepped(function: Function, does: str, do: str, lines: list[str]) -> Drawn:
    return fields_of(function) | {"does": does, "do": do}, definition(function.name, function.parameters, *lines)


def draw_loop(slots: Slots) -> Drawn:
    """Draws a function of a list that prints its items or adds them up in a loop."""
    rng = slots.rng
    function, item = _of_list(slots)
    (parameter,) = function.parameters
    if rng.random() < 0.7:
        lines = [f"for {item} in {parameter}:", f"    print({item})"]
        does = rng.choice((
            f"loops over {parameter} with {item} and prints {item}", f"prints each {item} in {parameter}",
            f"prints every {item} of {parameter}", f"prints {item} for each {item} in {parameter}",
            f"goes through {parameter} and prints each {item}", f"prints {item} for every {item} in {parameter}",
        ))  # fmt: skip
    else:
        total = draw_free_name(slots, f"{function.head} {item}")
        lines = [f"{total} = 0", f"for {item} in {parameter}:", f"    {total} += {item}", f"return {total}"]
        does = rng.choice((
            f"sets {total} to 0, adds each {item} in {parameter} to {total} and returns {total}",
            f"starts with {total} = 0, adds every {item} of {parameter} to it and returns {total}",
        ))  # fmt: skip
    return fields_of(function) | {"does": does}, definition(function.name, function.parameters, *lines)


def draw_listed(slots: Slots) -> Drawn:
    """Draws a function that returns a list comprehension; where its request names no variable, it is `x`."""
    rng = slots.rng
    function, item = _of_list(slots)
    (parameter,) = function.parameters
    number, named = max(2, slots.number(2)), rng.random() < 0.4
    if not named:
        item = "x"
    if rng.random() < 0.55:
        words, code = rng.choice(_CONDITIONS)
        words, tail = words.format(n=number), f" if {code.format(i=item, n=number)}"
        one = item
        what = rng.choice((
            f"a list of each {item} in {parameter} that is {words}",
            f"every {item} in {parameter} if {item} is {words}",
        )) if named else rng.choice((
            f"the items of {parameter} that are {words}", f"only those {parameter} that are {words}",
            f"all items of {parameter} which are {words}", f"the list of all elements in {parameter} that are {words}",
            f"the {parameter} that are {words}",
        ))  # fmt: skip
    else:
        done, term, code = rng.choice(_MAPPED)
        one, tail = code.format(i=item, n=number), ""
        done, term = done.format(n=number), term.format(n=number)
        what = rng.choice((
            f"a list of {item} {term} for each {item} in {parameter}", f"{item} {term} for every {item} in {parameter}",
        )) if named else rng.choice((
            f"a list with every item of {parameter} {done}", f"each item of {parameter} {done}",
            f"all {parameter} {done}", f"the list of all elements of {parameter} {done}",
        ))  # fmt: skip
    source = definition(function.name, function.parameters, f"return [{one} for {item} in {parameter}{tail}]")
    return fields_of(function) | {"what": what, "code": source.split("return ")[1]}, source


def draw_shown(slots: Slots) -> Drawn:
    """Draws a function that prints a text, or what is told in words."""
    if slots.rng.random() < 0.5:
        function = Function(slots.identifier(), (), f'"{_text(slots)}"', "")
        body = function.what
    else:
        function = _told(slots)
        body = function.body.removeprefix("return ")
    return fields_of(function), definition(function.name, function.parameters, f"print({body})")


def draw_f_string(slots: Slots) -> Drawn:
    """Draws a function that returns or prints an f-string."""
    rng = slots.rng
    pair = rng.random() < 0.35
    while True:
        parameters = tuple(slots.identifiers(2 if pair else 1, 1))
        name = slots.identifier()
        if name not in parameters and "data" not in parameters:  # `{data}` is where data stand in a request
            break
    first, second = slots.words(2)
    values = {"p": parameters[0], "q": parameters[-1], "w": first, "W": second.capitalize()}
    text = rng.choice(_AROUND_TWO if pair else _AROUND).format(**values)
    function = Function(name, parameters, f'"{text}"', "")
    verb, third, code = rng.choices(
        (("return", "returns", 'return f"{}"'), ("print", "prints", 'print(f"{}")')), (0.75, 0.25)
    )[0]
    source = definition(name, parameters, code.format(text))
    return fields_of(function) | {"do": verb, "does": third}, source


def draw_lambda(slots: Slots) -> Drawn:
    """Draws a lambda with a name."""
    function = _told(slots)
    code = f"lambda {', '.join(function.parameters)}: {function.body.removeprefix('return ')}"
    return fields_of(function) | {"code": function.body.removeprefix("return ")}, f"{function.name} = {code}"


def draw_lone_lambda(slots: Slots) -> Drawn:
    """Draws a lambda without a name."""
    fields, source = draw_lambda(slots)
    return fields, source.split(" = ", 1)[1]


def _told(slots: Slots) -> Function:
    """A function of one expression, told in words, with arguments."""
    while True:
        draw = draw_any_function(slots) if slots.rng.random() < 0.7 else draw_function(slots, named=True)
        if "\n" not in draw.body and not draw.what.startswith(_UNCLEAR) and " if " not in draw.what:
            return draw


def _of_list(slots: Slots) -> tuple[Function, str]:
    """A function of a list, without a body, and a name for an item of the list."""
    parameter = slots.rng.choice(LISTS)
    name = draw_name(slots, (parameter,))
    item = slots.rng.choice(_ITEM_NAMES) if slots.rng.random() < 0.6 else slots.identifier(1)
    while item in (parameter, name):
        item = slots.identifier(1)
    return Function(name, (parameter,), "", ""), item


def _text(slots: Slots) -> str:
    first, second = slots.words(2)
    return slots.rng.choice(_TEXTS).format(w=first, W=first.capitalize(), v=second)


STATED: dict[str, tuple[Callable[[Slots], Drawn], float]] = {
    "telling": (draw_telling, 0.09),
    "steps": (draw_steps, 0.08),
    "loop": (draw_loop, 0.035),
    "listed": (draw_listed, 0.05),
    "shown": (draw_shown, 0.055),
    "f-string": (draw_f_string, 0.05),
    "lambda": (draw_lambda, 0.03),
    "lone lambda": (draw_lone_lambda, 0.03),
}
"""How each kind is drawn, and its share beside those of `gesso.tasks.skills.functions.skill`."""
