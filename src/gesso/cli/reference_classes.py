"""Writes classes for the page of the Python interface: their attributes and methods, as the source declares them."""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, get_args, get_type_hints

_MODULES = re.compile(r"\b(?:\w+\.)+(?=\w)")
"""The modules before a name."""


def signature_of(name: str, function: Any) -> str:
    """Returns a call with its defaults, as Python writes it, and the type of what it returns."""
    signature = inspect.signature(function)
    shown = [_bare(parameter) for parameter in signature.parameters.values() if parameter.name != "self"]
    waits = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    call = f"{'async ' * waits}{name}{signature.replace(parameters=shown, return_annotation=signature.empty)}"
    if signature.return_annotation in (signature.empty, None):
        return call
    kind = inspect.formatannotation(signature.return_annotation)
    return f"{call} -> {_MODULES.sub('', kind).strip(chr(39))}"


def _bare(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter without its type; a default that is a function stands by its name."""
    default = parameter.default
    if inspect.isroutine(default):
        default = _Named(default.__qualname__)
    return parameter.replace(annotation=parameter.empty, default=default)


class _Named(str):
    """Is written as it stands."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def class_section(name: str, thing: type, *, with_attributes: bool = True) -> list[str]:
    """Returns the parts of the page about a class: attributes, then methods; its docstring comes before them."""
    parts = [attribute_table(thing)] if with_attributes and any(_attributes(thing)) else []
    methods = {name: each for base in reversed(thing.__mro__) for name, each in vars(base).items() if _is_ours(base)}
    for method, function in methods.items():
        if inspect.isfunction(function) and not method.startswith("_") and function.__doc__:
            own = f"{signature_of(method, function)}\n\n{inspect.getdoc(function)}"
            parts.append(f"### {name}.{method}\n\n```text\n{own}\n```\n")
    return parts


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("gesso.")


def attribute_table(thing: type) -> str:
    """Returns a row for every attribute of a class: fields, then properties."""
    rows = ["| attribute | type | |", "|---|---|---|"]
    for name, kind, text in _attributes(thing):
        words = " ".join(text.split()).replace("|", "\\|")
        rows.append(f"| `{name}` | {kind.replace('|', 'or')} | {words} |")
    return "\n".join(rows) + "\n"


def named_dataclasses(roots: Iterable[Any]) -> list[type]:
    """Returns the dataclasses of gesso that types are made of, and those that the fields of these are made of."""
    found: dict[type, None] = {}
    waiting = list(roots)
    while waiting:
        kind = waiting.pop(0)
        waiting += get_args(kind)
        if dataclasses.is_dataclass(kind) and isinstance(kind, type) and kind not in found:
            found[kind] = None
            hints = get_type_hints(kind)
            # What a field keeps out of the text of its object is how it works inside.
            waiting += [hints[field.name] for field in dataclasses.fields(kind) if field.repr]
    return list(found)


def _attributes(thing: type) -> Iterator[tuple[str, str, str]]:
    """Name, type and docstring of every field and property that is public."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name, kind, text = statement.target.id, statement.annotation, _text_of(following)
        elif isinstance(statement, ast.FunctionDef) and _is_property(statement) and statement.returns is not None:
            text = (ast.get_docstring(statement) or "").removeprefix("Returns ")
            name, kind, text = statement.name, statement.returns, text[:1].upper() + text[1:]
        else:
            continue
        if not name.startswith("_"):
            yield name, ast.unparse(kind), text.partition("\n\n")[0]


def _text_of(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=text)):
            return str(text)
    return ""


def _is_property(function: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "property" for each in function.decorator_list)
