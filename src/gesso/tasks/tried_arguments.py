"""Draws up the arguments that a function and its reference are both tried with, so that one is told from the other."""

import ast
from collections.abc import Callable
from itertools import product
from typing import Any

from gesso.tasks.run_code import constants, outcome

_INTEGERS = (-101, -7, -2, -1, 0, 1, 2, 3, 8, 100)
_SEQUENCES: tuple[Any, ...] = ("a", "ab", "hello", [3], [1, 2, 3], [4, 4, 0, 1])
_PALINDROMES: tuple[Any, ...] = ("level", [2, 0, 1, 0, 2])
_FEW = (0, 1, 3)
"""Numbers that stand beside a sequence."""
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def tried_arguments(reference: Callable[..., Any], source: str, *, of_texts: bool = False) -> list[tuple[Any, ...]]:
    """Returns lists of arguments, whole numbers around every constant of `source`, or texts and lists, some of them
    about as long as every constant: numbers unless the reference fails on all of them; with `of_texts`, where a sum
    puts one behind the other, texts and lists unless it fails on all of these.
    """
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.FunctionDef)
    arity = len(definition.args.args)
    numbers, sequences = _numbers(source, arity), _sequences(source, arity)
    first, second = (sequences, numbers) if of_texts else (numbers, sequences)
    return first if any(outcome(reference, values)[0] != "raised" for values in first) else second


def _numbers(source: str, arity: int) -> list[tuple[Any, ...]]:
    found = set(_INTEGERS)
    for number in constants(source):
        found |= {number - 1, number, number + 1, -number, 2 * number, 3 * number + 1}
    some = sorted(found) if arity < 3 else sorted({*sorted(found)[::3], 0, 1})
    return list(product(some, repeat=arity))


def _sequences(source: str, arity: int) -> list[tuple[Any, ...]]:
    found = (*_SEQUENCES, *_longer(source))
    if arity == 1:
        return [(value,) for value in (*found, *_PALINDROMES)]
    some = product((*found, *_FEW), repeat=arity)
    return [values for values in some if not all(isinstance(value, int) for value in values)]


def _longer(source: str) -> list[Any]:
    """A text and a list for every constant, of one item more and one fewer: what a slice takes shows its ends."""
    lengths = sorted({number + more for number in constants(source) for more in (-1, 1)})
    texts = [(_ALPHABET * (length // len(_ALPHABET) + 1))[:length] for length in lengths if length > 0]
    return [*texts, *(list(range(len(text))) for text in texts)]
