"""Runs a small generated function safely enough to grade it.

The code comes from a model, so it is never trusted: its syntax tree may hold only the nodes listed here.
That leaves no import, no attribute, no loop, no recursion, nothing that changes an argument, and no operation
that could use much time or memory: sequences are added up and repeated only to `_MAX_LENGTH` items.
"""

import ast
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_ALLOWED = (
    ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.If, ast.IfExp, ast.Pass, ast.Assign,
    ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop, ast.UnaryOp, ast.unaryop, ast.BinOp,
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod,
    ast.Name, ast.Load, ast.Store, ast.Constant, ast.Call, ast.Subscript, ast.Slice, ast.Tuple, ast.List,
)  # fmt: skip
_MAX_CHARACTERS = 600
_MAX_NUMBER = 9999
_MAX_PRODUCTS = 2
_MAX_ASSIGNMENTS = 4
_MAX_LENGTH = 10_000


def _check_length(items: int) -> None:
    if items > _MAX_LENGTH:
        raise OverflowError(f"a sequence of {items} items is longer than {_MAX_LENGTH}")


def _add(one: Any, other: Any) -> Any:
    if isinstance(one, Sequence) and isinstance(other, Sequence):
        _check_length(len(one) + len(other))
    return one + other


def _multiply(one: Any, other: Any) -> Any:
    for sequence, times in ((one, other), (other, one)):
        if isinstance(sequence, Sequence) and isinstance(times, int):
            _check_length(len(sequence) * times)
    return one * other


def _sum(values: Iterable[Any], /, start: Any = 0) -> Any:
    _check_length(sum(len(part) for part in (start, *values) if isinstance(part, Sequence)))
    return sum(values, start)


_BUILTINS: dict[str, Callable[..., Any]] = {
    "abs": abs, "bool": bool, "int": int, "len": len, "max": max, "min": min, "sum": _sum,
}  # fmt: skip
# Names of the calls that stand for operators: no code can spell them, and so neither call nor replace them.
_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Mult: "*"}
_OPERATORS: dict[str, Callable[..., Any]] = {"+": _add, "*": _multiply}


class UnsafeCodeError(ValueError):
    """Reports code that holds something the runner refuses, or is no single function definition."""


def load_function(source: str, name: str) -> Callable[..., Any]:
    """Returns the function `name` that `source` defines and consists of.

    Raises:
        UnsafeCodeError: the code does not parse, is not that one function, or holds something refused.
    """
    tree = _parse(source)
    definition = tree.body[0] if len(tree.body) == 1 else None
    if not isinstance(definition, ast.FunctionDef) or definition.name != name:
        raise UnsafeCodeError(f"expected one function {name}")
    _check(tree, definition)
    namespace: dict[str, Any] = {"__builtins__": _BUILTINS | _OPERATORS}
    try:
        tree = ast.fix_missing_locations(_BoundedOperators().visit(tree))
        with _without_warnings():
            code = compile(tree, "<answer>", "exec")
        exec(code, namespace)  # noqa: S102 - its syntax tree has been checked
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UnsafeCodeError(str(error)) from error
    function: Callable[..., Any] = namespace[name]
    return function


def parse_code(source: str) -> ast.Module:
    """Returns the syntax tree of `source`; what Python warns of in it, as of `1if x`, is nobody's business here.

    Raises:
        UnsafeCodeError: it does not parse.
    """
    with _without_warnings():
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise UnsafeCodeError(str(error)) from error


def constants(source: str) -> set[int]:
    """Returns the integers that `source` mentions: the values around which its behaviour changes."""
    nodes = [node for node in ast.walk(_parse(source)) if isinstance(node, ast.Constant)]
    return {node.value for node in nodes if type(node.value) is int}


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[str, Any]:
    """Calls `function`; returns the result with its type's name, or ("raised", None)."""
    try:
        result = function(*arguments)
    except Exception:  # noqa: BLE001 - any failure of generated code is just a wrong answer
        return "raised", None
    return type(result).__name__, result


@contextmanager
def _without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        yield


class _BoundedOperators(ast.NodeTransformer):
    """Replaces sums and products by calls that refuse a sequence which would become too long."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        sign = _SIGNS.get(type(node.op))
        if sign is None:
            return node
        call = ast.Call(func=ast.Name(id=sign, ctx=ast.Load()), args=[node.left, node.right], keywords=[])
        return ast.copy_location(call, node)


def _parse(source: str) -> ast.Module:
    if len(source) > _MAX_CHARACTERS:
        raise UnsafeCodeError("the code is too long")
    return parse_code(source)


def _check(tree: ast.Module, definition: ast.FunctionDef) -> None:
    products = assignments = 0
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise UnsafeCodeError(f"{type(node).__name__} is refused")
        products += isinstance(node, ast.Mult | ast.Mod)
        assignments += isinstance(node, ast.Assign)
        if isinstance(node, ast.FunctionDef) and (node is not definition or node.decorator_list):
            raise UnsafeCodeError("decorators and inner functions are refused")
        if isinstance(node, ast.arguments) and (node.defaults or node.kw_defaults):
            raise UnsafeCodeError("default arguments are refused")
        if isinstance(node, ast.Name) and node.id.startswith("__"):
            raise UnsafeCodeError(f"{node.id} is refused")
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            raise UnsafeCodeError("assigning to items is refused: it would change an argument")
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in _BUILTINS):
            raise UnsafeCodeError("only a few built-in functions may be called")
        # Large factors and "%" formats could build a text that fills the memory.
        if isinstance(node, ast.Constant) and (
            (isinstance(node.value, int | float) and abs(node.value) > _MAX_NUMBER)
            or (isinstance(node.value, str) and "%" in node.value)
            or isinstance(node.value, bytes | complex)
        ):
            raise UnsafeCodeError(f"the constant {node.value!r} is refused")
    if products > _MAX_PRODUCTS or assignments > _MAX_ASSIGNMENTS:
        raise UnsafeCodeError("too many products or assignments")
