"""Bounds Jinja's sandbox for the template of a checkpoint, which is a program of strangers.

Jinja's own sandbox keeps a template from Python's insides and a `range` below 100,000 numbers; loops in loops, macros
that call themselves and texts that double still run for hours. Here every turn of a loop and every call of a macro is
counted, and a text or list that an operator, a filter or a method makes is measured before it is made.
"""

import functools
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MAX_STEPS = 1_000_000
"""Turns of loops and calls of macros in one rendering."""
MAX_SECONDS = 5.0
"""Processor time of one rendering."""
MAX_SIZE = 2**25
"""Characters of a text, or items of a list, that a template makes; of the whole prompt, too."""
_WIDENING = ("batch", "center", "expandtabs", "format", "format_map", "indent", "ljust", "rjust", "slice", "zfill")
"""Methods and filters whose numbers say how long their result becomes."""
_WIDE_FORMAT = re.compile(r"\d{7}|%[^a-zA-Z%]*\*")


class TemplateLimitError(Exception):
    """Reports a template that computes more than a prompt can need."""


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Adds bounds to Jinja's sandbox; `render` renders one of its templates."""

    intercepted_binops = frozenset(["*", "+", "**", "%"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"], finalize=_checked_nesting
        )
        self.filters |= {"_step": _step, "_concatenate": _concatenate, "_measure": _measure}
        for name in (*_WIDENING, "replace", "join", "string", "tojson", "pprint"):
            if name in self.filters:
                self.filters[name] = bounded_filter(name, self.filters[name])

    def _generate(self, source: nodes.Template, *args: Any, **options: Any) -> str:
        return super()._generate(_Counting(self).visit(source), *args, **options)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Computes one operator, unless its result would be too large.

        Raises:
            TemplateLimitError: the result would be too large.
        """
        whole = isinstance(left, int) and isinstance(right, int)
        if operator == "*":
            for many, times in ((left, right), (right, left)):
                if isinstance(many, str | list | tuple) and isinstance(times, int):
                    _check(len(many) * times)
        elif operator == "+" and isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
            _check(len(left) + len(right))
        elif operator == "%" and isinstance(left, str) and _WIDE_FORMAT.search(left):
            raise TemplateLimitError("it formats a text too wide")
        if whole:
            bits = left.bit_length() * max(1, right) if operator == "**" else left.bit_length() + right.bit_length()
            _check(bits)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls a function, a macro or a method, unless its result would be too large.

        Raises:
            TemplateLimitError: the result would be too large.
        """
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str):
            _check_text_method(getattr(__obj, "__name__", ""), owner, args, kwargs)
        return _measure(super().call(__context, __obj, *args, **kwargs))


def render(template: jinja2.Template, variables: Mapping[str, Any]) -> str:
    """Returns the text of a template of a `BoundedEnvironment`.

    Raises:
        TemplateLimitError: it takes too many steps or too much time, or makes a text that is too long.
    """
    pieces, size = [], 0
    for piece in template.generate(variables, _budget=_Budget()):
        size += len(piece)
        _check(size)
        pieces.append(piece)
    return "".join(pieces)


class _Budget:
    """What is left of one rendering."""

    def __init__(self) -> None:
        self.steps, self.end = 0, time.thread_time() + MAX_SECONDS

    def take(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TemplateLimitError(f"it takes more than {MAX_STEPS:,} turns of its loops")
        if time.thread_time() > self.end:
            raise TemplateLimitError(f"it computes for more than {MAX_SECONDS:g} seconds")


class _Counting(NodeTransformer):
    """Puts a count into every loop and macro, and a measure around every text that is put together."""

    def __init__(self, environment: BoundedEnvironment) -> None:
        self._environment = environment

    def _filter(self, value: nodes.Expr | None, name: str, beside: nodes.Node) -> nodes.Filter:
        made = nodes.Filter(value, name, [], [], None, None)
        made.set_lineno(beside.lineno).set_environment(self._environment)
        return made

    def _count(self, node: Any) -> Any:
        self.generic_visit(node)
        step = nodes.ExprStmt(self._filter(nodes.Const(None), "_step", node))
        step.set_lineno(node.lineno).set_environment(self._environment)
        node.body.insert(0, step)
        return node

    visit_For = visit_Macro = visit_CallBlock = _count

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return self._filter(nodes.List(node.nodes), "_concatenate", node)

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.Node:
        self.generic_visit(node)
        node.filter = self._filter(node.filter, "_measure", node)
        return node


@jinja2.pass_context
def _step(context: Context, value: Any) -> Any:
    context["_budget"].take()
    return value


def _check(size: int) -> None:
    if size > MAX_SIZE:
        raise TemplateLimitError(f"it makes a text, list or number of more than {MAX_SIZE:,} characters, items or bits")


def _measure(value: Any) -> Any:
    if isinstance(value, str | list | tuple):
        _check(len(value))
    return value


def _checked_nesting(value: Any) -> Any:
    """`value`, unless writing it out would take too long: lists that hold one list twice double with every level."""
    if not isinstance(value, list | tuple | dict):
        return value
    stack, seen = [value], 0
    while stack:
        inner = stack.pop()
        seen += len(inner)
        if seen > MAX_STEPS:
            raise TemplateLimitError(f"it writes out a value of more than {MAX_STEPS:,} items")
        items: Iterable[Any] = inner.values() if isinstance(inner, dict) else inner
        stack += [item for item in items if isinstance(item, list | tuple | dict)]
    return value


def _concatenate(parts: Sequence[Any]) -> str:
    texts = [str(_checked_nesting(part)) for part in parts]
    _check(sum(map(len, texts)))
    return "".join(texts)


def bounded_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a filter refuse what would become too large."""

    @functools.wraps(function)  # keeps the mark that says what Jinja passes first
    def guarded(*args: Any, **kwargs: Any) -> Any:
        given = args[1:] if hasattr(function, "jinja_pass_arg") else args
        if name == "join" and given:
            items = [_checked_nesting(item) for item in given[0]]
            place = len(args) - len(given)
            args = (*args[:place], items, *args[place + 1 :])
            given = (items, *given[1:])
        for value in given:
            _checked_nesting(value)
        if given and isinstance(given[0], str):
            _check_text_method(name, given[0], given[1:], kwargs)
        elif name in _WIDENING:
            _check_numbers((*given[1:], *kwargs.values()))
        elif name == "join":
            separator = next((v for v in (*given[1:2], *kwargs.values()) if isinstance(v, str)), "")
            _check(sum(len(item) + len(separator) if isinstance(item, str) else 64 for item in given[0]))
        return _measure(function(*args, **kwargs))

    return guarded


def _check_numbers(values: Iterable[Any], times: int = 1) -> None:
    for value in values:
        if isinstance(value, int):
            _check(value * times)


def _check_text_method(name: str, text: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuses a call of a text's method whose result would be too large."""
    values = (*args, *kwargs.values())
    if name in _WIDENING:
        _check_numbers(values, 1 + text.count("\t") + text.count("\n"))
        if name in ("format", "format_map") and _WIDE_FORMAT.search(text):
            raise TemplateLimitError("it formats a text too wide")
    elif name == "replace" and len(values) >= 2 and all(isinstance(value, str) for value in values[:2]):
        _check(len(text) + text.count(values[0]) * len(values[1]))
    elif name == "join" and values and isinstance(values[0], list | tuple):
        _check(sum(len(text) + len(item) for item in values[0] if isinstance(item, str)))
    elif name == "translate" and values and isinstance(values[0], dict):
        _check(len(text) * max((len(new) for new in values[0].values() if isinstance(new, str)), default=1))
