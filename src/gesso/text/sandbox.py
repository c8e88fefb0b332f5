"""Bounds Jinja's sandbox for the template of a checkpoint, which is a program of strangers.

Jinja's own sandbox keeps a template from Python's insides and a `range` below 100,000 numbers; loops in loops, macros
that call themselves and texts that double still run for hours. Here every turn of a loop and every call of a macro is
counted, and a text or list that an operator, a filter or a method makes is measured before it is made
(`gesso.text.sandbox_sizes`).
"""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.filters import make_attrgetter
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from gesso.text.sandbox_sizes import (
    TemplateLimitError,
    check_filter,
    check_method,
    check_operator,
    check_size,
    written_size,
)

MAX_STEPS = 1_000_000
"""Turns of loops and calls of macros in one rendering."""
MAX_SECONDS = 5.0
"""Processor time of one rendering."""
MAX_WRITTEN = 2**27
"""Characters that one rendering writes: into the prompt, and before into the blocks and macros that it is made of."""

_UNWRITTEN = {
    "abs", "attr", "count", "d", "default", "dictsort", "first", "float", "groupby", "int", "items", "last", "length",
    "list", "map", "max", "min", "random", "reject", "rejectattr", "reverse", "safe", "select", "selectattr", "sort",
    "sum", "unique",
}  # fmt: skip
"""Filters of Jinja that write no value out, and pass items on without making more of them."""


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Adds bounds to Jinja's sandbox; `render` renders one of its templates."""

    intercepted_binops = frozenset(["*", "+", "**", "%"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols"],
            finalize=_written,
            optimized=False,  # computes nothing while it compiles, where nothing counts
        )
        del self.globals["lipsum"]  # writes any number of words
        self.filters["sum"] = _sum
        for name in self.filters.keys() - _UNWRITTEN:
            self.filters[name] = bounded_filter(name, self.filters[name])
        self.filters |= {"_step": _step, "_concatenate": _concatenate, "_measure": _measure}

    def _generate(self, source: nodes.Template, *args: Any, **options: Any) -> str:
        return super()._generate(_Counting(self).visit(source), *args, **options)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Computes one operator, unless its result would be too large.

        Raises:
            TemplateLimitError: the result would be too large.
        """
        check_operator(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls a function, a macro or a method, unless its result would be too large.

        Raises:
            TemplateLimitError: the result would be too large.
        """
        method = __obj if hasattr(__obj, "__self__") else getattr(__obj, "__wrapped__", __obj)  # Jinja's own format
        if hasattr(method, "__self__"):
            check_method(getattr(method, "__name__", ""), method.__self__, args, kwargs)
        return _measure(super().call(__context, __obj, *args, **kwargs))


def render(template: jinja2.Template, variables: Mapping[str, Any]) -> str:
    """Returns the text of a template of a `BoundedEnvironment`.

    Raises:
        TemplateLimitError: it takes too many steps or too much time, or makes a text that is too long.
    """
    pieces, size = [], 0
    for piece in template.generate(variables, _budget=_Budget()):
        size += len(piece)
        check_size(size)
        pieces.append(piece)
    return "".join(pieces)


class _Budget:
    """What is left of one rendering."""

    def __init__(self) -> None:
        self.steps, self.written, self.end = 0, 0, time.thread_time() + MAX_SECONDS

    def write(self, size: int) -> None:
        self.written += size
        if self.written > MAX_WRITTEN:
            raise TemplateLimitError(f"it writes more than {MAX_WRITTEN:,} characters")

    def take(self, size: int) -> None:
        self.write(size)
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
        text = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        step = nodes.ExprStmt(self._filter(nodes.Const(text), "_step", node))
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
def _step(context: Context, text: int) -> int:
    """Counts a turn of a loop or a call, and the plain text that stands in its body."""
    context["_budget"].take(text)
    return text


@jinja2.pass_context
def _written(context: Context, value: Any) -> Any:
    """Counts a value that is written out."""
    context["_budget"].write(written_size(value))
    return value


def _measure(value: Any) -> Any:
    if isinstance(value, str | list | tuple):
        check_size(len(value))
    return value


def _concatenate(parts: Sequence[Any]) -> str:
    check_size(sum(map(written_size, parts)))
    return "".join(map(str, parts))


@jinja2.pass_environment
def _sum(environment: jinja2.Environment, items: Any, attribute: str | int | None = None, start: Any = 0) -> Any:
    """Adds up as Jinja's `sum` does; a sum of lists is measured on the way."""
    total = list(start) if isinstance(start, list) else start
    for item in items if attribute is None else map(make_attrgetter(environment, attribute), items):
        check_operator("+", total, item)
        total += item
    return total


def bounded_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a filter refuse what would become too large."""

    @functools.wraps(function)  # keeps the mark that says what Jinja passes first
    def guarded(*args: Any, **kwargs: Any) -> Any:
        given = list(args[1:] if hasattr(function, "jinja_pass_arg") else args)
        if name == "join" and given:
            given[0] = list(given[0])
            args = (*args[: len(args) - len(given)], *given)
        for value in (*given, *kwargs.values()):
            written_size(value)
        if given:
            check_filter(name, given[0], given[1:], kwargs)
        return _measure(function(*args, **kwargs))

    return guarded
