"""A public docstring begins with a whole sentence: its first word is a verb in the third person, such as "Returns"."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import gesso
from gesso.cli.app import app

PACKAGE = Path(gesso.__file__).parent
TYPERS = [app, *(group.typer_instance for group in app.registered_groups)]
HELP = {command.callback.__name__ for typer in TYPERS for command in typer.registered_commands}
"""Functions whose docstring is the help of a command, which is in the imperative."""
NOUNS = re.compile(
    "Adapters|Bytes|Canvases|Characters|Columns|Deltas|Embeddings|Errors|Events|Figures|Files|Ids|Images|Keys|Layers|"
    "Logits|Models|Options|Parameters|Pixels|Positions|Prompts|Rows|Seconds|Settings|Shapes|Strings|Texts|Tokens|Words"
)
"""Words in the plural that a noun phrase begins with, and no sentence."""


def documented(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    """Yields the public docstrings of a module or a class, by name."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
        yield name, ast.get_docstring(node) or ""
    for child in node.body if isinstance(node, ast.Module | ast.ClassDef) else ():
        kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        if isinstance(child, kinds) and not child.name.startswith("_") and child.name not in HELP:
            yield from documented(child, f"{name}.{child.name}")


def is_sentence(text: str) -> bool:
    """Says whether a text begins with a verb, as far as its ending tells."""
    first = text.split(maxsplit=1)[0].rstrip(",")
    return bool(re.fullmatch(r"[A-Z][a-z-]*s", first)) and not NOUNS.fullmatch(first)


LINKING = re.compile(
    "(Above|After|Among|As|At|Before|Behind|Below|Beside|Between|By|For|From|In|Of|On|Over|Per|Since|That|To|Under|"
    "Until|With|Within|Without)\\b"
)
"""Words that lead on from a noun, which an attribute's docstring has to name."""


def attributes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yields the docstrings of a module's constants and attributes, by name."""
    for node in ast.walk(tree):
        body = getattr(node, "body", ())
        for before, after in pairwise(body if isinstance(body, list) else ()):
            if isinstance(before, ast.Assign | ast.AnnAssign) and isinstance(after, ast.Expr):
                value = after.value.value if isinstance(after.value, ast.Constant) else None
                if isinstance(value, str):
                    yield ast.unparse(before).partition("=")[0].strip(), value


def test_docstrings_of_attributes_repeat_their_noun() -> None:
    found = [
        f"{path.relative_to(PACKAGE)} {name}: {text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for name, text in attributes(ast.parse(path.read_text("utf-8")))
        if LINKING.match(text)
    ]
    assert found == []


PACKAGES = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE.rglob("*.py")}


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_docstrings_begin_with_a_verb(package: str) -> None:
    paths = sorted((PACKAGE / package).rglob("*.py")) or [PACKAGE / f"{package}.py"]
    found = [
        f"{name}: {text.splitlines()[0]}"
        for path in paths
        for name, text in documented(ast.parse(path.read_text("utf-8")), str(path.relative_to(PACKAGE)))
        if not is_sentence(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("Returns the ids of a prompt.", True),
        ("Checks, tokenizes and queues a request.", True),
        ("Re-noises a canvas.", True),
        ("The ids of a prompt.", False),
        ("Whether it is done.", False),
        ("Tokens of a prompt.", False),
        ("Return the ids.", False),
        ("`text` without control characters.", False),
    ],
)
def test_what_counts_as_a_sentence(text: str, whole: bool) -> None:
    assert is_sentence(text) is whole
