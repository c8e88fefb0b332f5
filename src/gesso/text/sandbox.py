"""Bounds Jinja's sandbox for the template of a checkpoint, which is a program of strangers.

Jinja's own sandbox keeps a template from Python's insides and a `range` below 100,000 numbers; loops in loops, macros
that call themselves and texts that double still run for hours. Here every turn of a loop and every call of a macro is
counted (`gesso.text.sandbox_budget`), and every item that a filter, a test or a comparison looks at
(`gesso.text.sandbox_counts`); a text or list that an operator, a filter or a method makes is measured before it is made
(`gesso.text.sandbox_sizes`).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.filters import make_attrgetter
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from gesso.text.sandbox_budget import BUDGET, Budget
from gesso.text.sandbox_counts import compared, count_method, counted_input, counted_test, cut, searched
from gesso.text.sandbox_sizes import (
    check_bits,
    check_filter,
    check_method,
    check_operator,
    check_size,
    written_size,
)

_UNWRITTEN = {
    "abs", "attr", "count", "d", "default", "dictsort", "first", "float", "groupby", "int", "items", "last", "length",
    "list", "map", "max", "min", "random", "reject", "rejectattr", "reverse", "safe", "select", "selectattr", "sort",
    "sum", "unique",
}  # fmt: skip
"""Filters of Jinja that write no value out, and pass items on without making more of them."""
_SEARCHING = ("in", "notin")


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Adds bounds to Jinja's sandbox; `render` renders one of its templates."""

    intercepted_binops = frozenset(["*", "+", "**", "%", "//"])

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
        self.filters = {name: bounded_filter(name, function) for name, function in self.filters.items()}
        self.tests = {name: counted_test(name, function) for name, function in self.tests.items()}
        self.filters |= {"_step": _step, "_concatenate": _concatenate, "_measure": _measure}
        self.filters |= {"_compared": compared, "_searched": searched, "_cut": cut}

    def _generate(self, source: nodes.Template, *args: Any, **options: Any) -> str:
        return super()._generate(_Counting(self).visit(source), *args, **options)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Computes one operator, unless its result would be too large.

        Raises:
            TemplateLimitError: the result would be too large.
        """
        BUDGET.get().check_time()
        check_operator(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Looks up an item or attribute.

        Raises:
            TemplateLimitError: what is looked up is too large.
        """
        return super().getitem(obj, compared(argument) if isinstance(argument, tuple) else argument)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls a function, a macro or a method, unless its result would be too large.

        Raises:
            TemplateLimitError: the result would be too large.
        """
        method = __obj if hasattr(__obj, "__self__") else getattr(__obj, "__wrapped__", __obj)  # Jinja's own format
        if hasattr(method, "__self__"):
            count_method(method.__self__, args)
            check_method(getattr(method, "__name__", ""), method.__self__, args, kwargs)
        return _measure(super().call(__context, __obj, *args, **kwargs))


def render(template: jinja2.Template, variables: Mapping[str, Any]) -> str:
    """Returns the text of a template of a `BoundedEnvironment`.

    Raises:
        TemplateLimitError: it takes too many steps or too much time, or makes a text that is too long.
    """
    pieces, size = [], 0
    token = BUDGET.set(Budget())
    try:
        for piece in template.generate(variables):
            size += len(piece)
            check_size(size)
            pieces.append(piece)
    finally:
        BUDGET.reset(token)
    return "".join(pieces)


class _Counting(NodeTransformer):
    """Puts a count into every loop, macro and comparison, and a measure around every text that is put together."""

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

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        node.expr = self._filter(node.expr, "_compared", node)
        for operand in node.ops:
            name = "_searched" if operand.op in _SEARCHING else "_compared"
            operand.expr = self._filter(operand.expr, name, node)
        return node

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        for pair in node.items:
            pair.key = self._filter(pair.key, "_compared", node)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = self._filter(node.node, "_cut", node)
        return node

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.Node:
        self.generic_visit(node)
        node.filter = self._filter(node.filter, "_measure", node)
        return node


def _step(text: int) -> int:
    """Counts a turn of a loop or a call, and the plain text that stands in its body."""
    BUDGET.get().take(text)
    return text


@jinja2.pass_context  # without it Jinja would ask of constants while it compiles
def _written(_: Context, value: Any) -> Any:
    """Counts a value that is written out."""
    BUDGET.get().write(written_size(value))
    return value


def _measure(value: Any) -> Any:
    if isinstance(value, str | list | tuple):
        check_size(len(value))
    elif isinstance(value, int):
        check_bits(value.bit_length())
    return value


def _concatenate(parts: Sequence[Any]) -> str:
    BUDGET.get().check_time()
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
    """Makes a filter count what it is given, and refuse what would become too large."""
    first = int(hasattr(function, "jinja_pass_arg"))

    @functools.wraps(function)  # keeps the mark that says what Jinja passes first
    def guarded(*args: Any, **kwargs: Any) -> Any:
        passed, given = args[:first], list(args[first:])
        if given:
            given[0] = counted_input(name, given[0])
        if name not in _UNWRITTEN:
            if name == "join" and given:
                given[0] = list(given[0])
            for value in (*given, *kwargs.values()):
                written_size(value)
            if given:
                check_filter(name, given[0], given[1:], kwargs)
        return _measure(function(*passed, *given, **kwargs))

    return guarded
