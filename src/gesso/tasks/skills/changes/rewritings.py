"""Rewrites functions that mean the same before and after, or get a line more or less: lambdas, quotes, checks."""

import re

from gesso.tasks.skills.changes.bodies import Drawn, definition, draw_expressed, draw_free_name
from gesso.tasks.skills.functions.forms import draw_literal, draw_name
from gesso.tasks.skills.functions.heads import draw_typed
from gesso.tasks.skills.patterns import Phrasings
from gesso.tasks.skills.slots import Slots

_JOINED = (
    ('"{W}, " + {p}', "{W}, {{{p}}}"), ('"{W} " + {p}', "{W} {{{p}}}"), ('"{W}: " + {p}', "{W}: {{{p}}}"),
    ('{p} + " {w}"', "{{{p}}} {w}"), ('{p} + "!"', "{{{p}}}!"), ('"{W}, " + {p} + "!"', "{W}, {{{p}}}!"),
    ('"{w}-" + {p}', "{w}-{{{p}}}"), ('{p} + " " + {q}', "{{{p}}} {{{q}}}"), ('{p} + ", " + {q}', "{{{p}}}, {{{q}}}"),
    ('{p} + "{w}" + {q}', "{{{p}}}{w}{{{q}}}"), ('"{W} " + {p} + " " + {q}', "{W} {{{p}}} {{{q}}}"),
)  # fmt: skip
_QUOTED = ('"{w}"', '"{W} " + {p}', '{p} + "{w}"', '{p}.startswith("{w}")', '"{w}" in {p}', '"{w}" if {p} else "{v}"',
           '{p} == "{w}"', '"{W}, " + {p} + "!"', '{p}.split("{w}")', '{p}.replace("{w}", "{v}")')  # fmt: skip
_SPACED = re.compile(r" ([-+*/%<>=!]{1,2}) |, ")
_CHECKS = (
    (("negative", "below zero", "less than 0", "smaller than 0"), "{p} < 0"),
    (("zero", "0", "equal to 0"), "{p} == 0"),
    (("None",), "{p} is None"),
    (("greater than {n}", "above {n}", "more than {n}"), "{p} > {n}"),
    (("less than {n}", "below {n}"), "{p} < {n}"),
    (("{n}", "equal to {n}"), "{p} == {n}"),
)
_LINES = ("print({p})", "{p} = abs({p})", "{p} = {p} + {n}", "{p} += {n}", "{p} = int({p})", "{p} = str({p})",
          "assert {p}", "{p} *= {n}", "print(\"{w}\")", "{p} = {p} or {n}")  # fmt: skip


def from_lambda(slots: Slots, ask: Phrasings) -> Drawn:
    """Writes a lambda as a definition."""
    function = draw_expressed(slots, lambda f: bool(f.parameters))
    code = function.body.removeprefix("return ")
    before = f"{function.name} = lambda {', '.join(function.parameters)}: {code}"
    return slots.choice(ask, name=function.name), before, function.source


def returned(slots: Slots, ask: Phrasings) -> Drawn:
    """Returns what the function prints."""
    function = draw_expressed(slots)
    printed = definition(function.name, function.parameters, f"print({function.body.removeprefix('return ')})")
    return slots.choice(ask), printed, function.source


def f_string(slots: Slots, ask: Phrasings) -> Drawn:
    """Writes texts that are added to each other as an f-string."""
    code, text = slots.rng.choice(_JOINED)
    parameters = slots.identifiers(2 if "{q}" in code else 1, 1)
    word = slots.word()
    values = {"p": parameters[0], "q": parameters[-1], "w": word, "W": word.capitalize()}
    name = draw_name(slots, parameters)
    before = definition(name, tuple(parameters), f"return {code.format(**values)}")
    return slots.choice(ask), before, definition(name, tuple(parameters), f'return f"{text.format(**values)}"')


def quotes(slots: Slots, ask: Phrasings) -> Drawn:
    """Writes texts in the other quotes."""
    code = slots.rng.choice(_QUOTED)
    first, second = slots.words(2)
    parameters = slots.identifiers(1, 1) if "{p}" in code else []
    body = code.format(p="".join(parameters), w=first, W=first.capitalize(), v=second)
    double = definition(draw_name(slots, parameters), tuple(parameters), f"return {body}")
    single = double.replace('"', "'")
    old, new = slots.rng.choice((("double", "single"), ("single", "double")))
    before, after = (double, single) if old == "double" else (single, double)
    return slots.choice(ask, old=old, new=new), before, after


def spaced(slots: Slots, ask: Phrasings) -> Drawn:
    """Puts spaces around operators and behind commas."""
    function = draw_expressed(slots, lambda f: '"' not in f.source and _SPACED.search(f.source) is not None)
    before = _SPACED.sub(lambda found: found[1] or ",", function.source)
    return slots.choice(ask), before, function.source


def two_lines(slots: Slots, ask: Phrasings) -> Drawn:
    """Puts the body of a function on a line of its own."""
    function = draw_expressed(slots)
    return slots.choice(ask), f"def {function.head}: {function.body}", function.source


def one_line(slots: Slots, ask: Phrasings) -> Drawn:
    """Puts a function on one line."""
    function = draw_expressed(slots)
    return slots.choice(ask), function.source, f"def {function.head}: {function.body}"


def each_hint(slots: Slots, ask: Phrasings) -> Drawn:
    """Adds type hints that may differ from each other."""
    fields, source = draw_typed(slots)
    plain = f"def {fields['name']}({fields['plain']}):\n{source.split(chr(10), 1)[1]}"
    return slots.choice(ask, types=fields["types"], type=fields["type"], head=fields["head"]), plain, source


def checked(slots: Slots, ask: Phrasings) -> Drawn:
    """Returns something else first for some arguments."""
    rng = slots.rng
    function = draw_expressed(slots, lambda f: len(f.parameters) == 1)
    (parameter,) = function.parameters
    words, code = rng.choice(_CHECKS)
    number = slots.number(2) + 2
    value = rng.choice(("0", "0", "None", "False", "1", "-1", parameter, draw_literal(slots)))
    lines = (f"if {code.format(p=parameter, n=number)}:", f"    return {value}", function.body)
    condition = f"{parameter} is {rng.choice(words).format(n=number)}"
    text = slots.choice(ask, condition=condition, value=value)
    return text, function.source, definition(function.name, function.parameters, *lines)


def another_line(slots: Slots, ask: Phrasings) -> Drawn:
    """Puts a line that the request shows before the return."""
    function = draw_expressed(slots, lambda f: bool(f.parameters))
    line = slots.rng.choice(_LINES).format(
        p=slots.rng.choice(function.parameters), n=slots.number(2) + 1, w=slots.word()
    )
    return (
        slots.choice(ask, line=line),
        function.source,
        definition(function.name, function.parameters, line, function.body),
    )


def printed_first(slots: Slots, ask: Phrasings) -> Drawn:
    """Prints an argument before the return."""
    function = draw_expressed(slots, lambda f: bool(f.parameters))
    parameter = slots.rng.choice(function.parameters)
    after = definition(function.name, function.parameters, f"print({parameter})", function.body)
    return slots.choice(ask, p=parameter), function.source, after


def unprinted(slots: Slots, ask: Phrasings) -> Drawn:
    """Takes a line that prints away."""
    function = draw_expressed(slots, lambda f: bool(f.parameters))
    shown = slots.rng.choice((slots.rng.choice(function.parameters), f'"{draw_free_name(slots, function.source)}"'))
    before = definition(function.name, function.parameters, f"print({shown})", function.body)
    return slots.choice(ask), before, function.source


def emptied(slots: Slots, ask: Phrasings) -> Drawn:
    """Leaves `pass` alone in the body."""
    function = draw_expressed(slots)
    return slots.choice(ask), function.source, definition(function.name, function.parameters, "pass")
