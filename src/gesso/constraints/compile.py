"""Defines the compile service: constraints as automata over a tokenizer's tokens, each compiled once.

Life cycle: `submit` finds a compiled automaton, or the compilation of the same key that is under way, or starts one in
a thread of its own; whoever asked waits on the `Compilation` it returns, and on nothing else. When the last one has
left, the thread stops at its next look at the budget. `compile_constraint` is `submit` and the wait.
"""

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from gesso.constraints.automaton import TokenAutomaton
from gesso.constraints.budget import Budget
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.compilation import Compilation, Compiled
from gesso.constraints.expression import Expression, Fitting
from gesso.constraints.held_bytes import held_bytes
from gesso.constraints.placeholders import with_placeholders
from gesso.constraints.regex import parse
from gesso.constraints.token_text import token_bytes
from gesso.constraints.tokens import token_automaton
from gesso.constraints.vocabulary_tree import VocabularyTree
from gesso.errors import OptionError
from gesso.sized_cache import CacheStats, SizedCache
from gesso.text.tokenizer import Tokenizer

CACHE_BYTES = 256 * 2**20
"""Bytes of the automata and vocabulary trees that are kept for a tokenizer, on the host."""


@dataclass(frozen=True, slots=True)
class Language:
    """Holds a constraint that is still to be read, which may take as long as compiling it, and its key."""

    key: Hashable
    """Two of the same key are the same language."""
    read: Callable[[], tuple[Expression, tuple[str, ...]]]
    """Returns the texts, and what it ignored on the way."""


def key_of(option: str, value: Any) -> bytes:
    """Returns a digest of what a constraint's option was given: of equal ones the same, and of a schema another where
    its members, which are written in that order, come in another order.

    Raises:
        OptionError: its parts are nested too deeply.
    """
    try:
        told = repr(value).encode("utf-8", "surrogatepass")
    except RecursionError:
        raise OptionError(f"{option}: its parts are nested too deeply", option=option) from None
    return sha256(told).digest()


class _Compiler:
    """The texts of one tokenizer's tokens, the trees and automata made of them last, and what is being compiled."""

    def __init__(self, texts: Sequence[bytes | None]) -> None:
        self.texts = texts
        self.trees: SizedCache[tuple[int, tuple[int, ...]], VocabularyTree] = SizedCache(CACHE_BYTES // 4)
        self.automata: SizedCache[object, Compiled[TokenAutomaton]] = SizedCache(CACHE_BYTES - self.trees.max_bytes)
        self.lock = Lock()
        """Held for a look at `under_way` only."""
        self.under_way: dict[object, Compilation[TokenAutomaton]] = {}
        self.planting = Lock()
        """Held while a tree is built: all constraints need one, and all the same."""

    def tree(self, size: int, placeholders: tuple[int, ...]) -> VocabularyTree:
        """The tree of the first `size` tokens, of which some stand for placeholders."""
        with self.planting:
            if (tree := self.trees.get((size, placeholders))) is None:
                padded = [*self.texts[:size], *[None] * (size - len(self.texts))]
                tree = VocabularyTree.build(with_placeholders(padded, placeholders) if placeholders else padded)
                self.trees.put((size, placeholders), tree, held_bytes(tree))
        return tree


_listing = Lock()
"""Guards `_compilers` for as long as a look takes: the statistics never wait for a constraint that is compiled."""
_reading = Lock()
"""Held while a tokenizer's texts are read, once each."""
_compilers: WeakKeyDictionary[Tokenizer, _Compiler] = WeakKeyDictionary()


def automata_stats() -> CacheStats:
    """Says how many automata and vocabulary trees are kept, for all tokenizers of this process, and their bytes."""
    with _listing:
        compilers = list(_compilers.values())
    caches = [cache.stats for compiler in compilers for cache in (compiler.automata, compiler.trees)]
    return sum(caches, CacheStats())


def _compiler_of(tokenizer: Tokenizer) -> _Compiler:
    with _listing:
        compiler = _compilers.get(tokenizer)
    if compiler is not None:
        return compiler
    with _reading:
        with _listing:
            compiler = _compilers.get(tokenizer)
        if compiler is None:
            compiler = _Compiler(token_bytes(tokenizer))
            with _listing:
                _compilers[tokenizer] = compiler
    return compiler


def submit(
    constraint: str | Expression | Language,
    tokenizer: Tokenizer,
    end_tokens: Sequence[int],
    fill_token: int | None = None,
    vocab_size: int | None = None,
    special: Sequence[str] = (),
    limits: Budget | None = None,
) -> Compilation[TokenAutomaton]:
    """Returns the automaton of all token sequences whose text satisfies a constraint, or the making of it; joined
    already.

    Args:
        constraint: a regular expression (see `regex`) that the whole text matches, an expression, or what reads one;
            it is read within the limits too.
        tokenizer: whose tokens spell the text. Other special tokens are never part of it.
        end_tokens: any of them ends the text.
        fill_token: what fills a canvas behind the end; without it the first end token.
        vocab_size: how many tokens the model scores, where it is more than the tokenizer has.
        special: special tokens that the expression's placeholders 0, 1, ... stand for; the tokenizer has them.
        limits: what compiling it may cost.

    Raises:
        TextError: the tokenizer's decoder does more than join pieces.
    """
    placeholders = tuple(tokenizer.special[name] for name in special)
    named = constraint.key if isinstance(constraint, Language) else constraint
    key = (named, tuple(end_tokens), fill_token, vocab_size, placeholders)
    compiler = _compiler_of(tokenizer)

    def make() -> Compiled[TokenAutomaton]:
        tree = compiler.tree(len(compiler.texts) if vocab_size is None else vocab_size, placeholders)
        expression, ignored = _read(constraint)
        try:
            automaton = token_automaton(compile_bytes(expression), tree, end_tokens, fill_token)
        except OptionError:
            if not isinstance(expression, Fitting):
                raise
            # What fits in bytes need not fit in tokens.
            automaton = token_automaton(compile_bytes(expression.options[-1]), tree, end_tokens, fill_token)
        compiled = Compiled(automaton, ignored)
        compiler.automata.put(key, compiled, held_bytes(compiled))
        return compiled

    def done() -> None:
        with compiler.lock, suppress(KeyError):
            if compiler.under_way[key] is made:
                del compiler.under_way[key]

    while True:
        with compiler.lock:
            under_way = compiler.under_way.get(key)
        if under_way is not None and under_way.join():
            return under_way
        if (known := compiler.automata.get(key)) is not None:
            made = Compilation.finished(known)
            made.join()
            return made
        made = Compilation(make, limits or Budget(), done)
        with compiler.lock:
            if compiler.under_way.get(key) is under_way:
                compiler.under_way[key] = made
            else:
                continue
        if made.join():  # else another request has joined it and gone, and it was given up
            return made


def _read(constraint: str | Expression | Language) -> tuple[Expression, tuple[str, ...]]:
    if isinstance(constraint, Language):
        return constraint.read()
    return parse(constraint) if isinstance(constraint, str) else constraint, ()


def compile_constraint(
    constraint: str | Expression | Language,
    tokenizer: Tokenizer,
    end_tokens: Sequence[int],
    fill_token: int | None = None,
    vocab_size: int | None = None,
    special: Sequence[str] = (),
) -> TokenAutomaton:
    """Returns the automaton of all token sequences whose text satisfies a constraint; remembered. See `submit`.

    Raises:
        OptionError: the pattern is malformed or has an unsupported feature, nothing that satisfies it can be spelled,
            or the automaton is too large.
        TextError: the tokenizer's decoder does more than join pieces.
    """
    return submit(constraint, tokenizer, end_tokens, fill_token, vocab_size, special).result()
