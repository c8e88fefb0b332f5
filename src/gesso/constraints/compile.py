"""Constraints as automata over a tokenizer's tokens.

A token acts on the states of a byte automaton as a function: where each state goes when the token's bytes follow.
Tokens with equal functions are one class, and there are far fewer functions than tokens: a function is composed
from that of the token without its last byte, so the vocabulary is walked as a tree, level by level, and a pair of a
function and a kind of byte is worked out once however many tokens share it.

    S states   V vocabulary   F functions   G kinds of bytes that no state tells apart   N nodes of a level
"""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from gesso.constraints.automaton import REFUSED, IntArray, TokenAutomaton
from gesso.constraints.bytes_automaton import ByteAutomaton, compile_bytes
from gesso.constraints.expression import Expression
from gesso.constraints.placeholders import with_placeholders
from gesso.constraints.regex import parse
from gesso.constraints.sized_cache import CacheStats, SizedCache, held_bytes
from gesso.constraints.token_text import token_bytes
from gesso.errors import OptionError
from gesso.text.tokenizer import Tokenizer

MAX_TABLE_BYTES = 256 * 2**20
"""Of the functions while they are composed, and so of the finished table."""
CACHE_BYTES = 256 * 2**20
"""Of the automata and vocabulary trees that are kept for a tokenizer, on the host."""
_UNKNOWN = -1
_BATCH = 1 << 22


@dataclass(frozen=True, eq=False)
class VocabularyTree:
    """The texts of a vocabulary as a tree of bytes."""

    parents: tuple[NDArray[np.int64], ...]
    """Per level, [N]: each node's place in the level above; the root is alone in its own."""
    labels: tuple[NDArray[np.uint8], ...]
    """Per level, [N]: the byte on the way to each node."""
    ends: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]
    """Per level: tokens that end in it, and their nodes' places."""
    size: int
    """V, tokens without a text included."""

    @classmethod
    def build(cls, texts: Sequence[bytes | None]) -> "VocabularyTree":
        """The tree of the texts of tokens 0, 1, ...; a token whose text is None or empty is left out."""
        lengths = np.array([len(text or b"") for text in texts])
        flat = np.frombuffer(b"".join(text or b"" for text in texts), dtype=np.uint8)
        begins = lengths.cumsum() - lengths
        tokens = np.flatnonzero(lengths)
        nodes = np.zeros(len(tokens), dtype=np.int64)
        parents, labels, ends = [], [], []
        depth = 0
        while len(tokens):
            codes, nodes = np.unique(nodes * 256 + flat[begins[tokens] + depth], return_inverse=True)
            parents.append(codes // 256)
            labels.append((codes % 256).astype(np.uint8))
            depth += 1
            ended = lengths[tokens] == depth
            ends.append((tokens[ended], nodes[ended]))
            tokens, nodes = tokens[~ended], nodes[~ended]
        return cls(tuple(parents), tuple(labels), tuple(ends), len(texts))


class _Functions:
    """Functions from states to states, each kept once, and what becomes of them when a kind of byte follows."""

    IDENTITY: ClassVar[int] = 0
    NOWHERE: ClassVar[int] = 1

    def __init__(self, next_SG: IntArray) -> None:
        states, groups = next_SG.shape
        # The row behind the last one is that of "no state", which is written -1 and so indexes it.
        self.next_SG = np.vstack([next_SG, np.full((1, groups), REFUSED, dtype=np.int32)])
        first = [np.arange(states, dtype=np.int32), np.full(states, REFUSED, dtype=np.int32)]
        self.number = {row.tobytes(): place for place, row in enumerate(first)}
        self.table_FS = np.stack(first)
        self.count = 2
        self.then_FG = np.full((2, groups), _UNKNOWN, dtype=np.int64)

    def follow(self, function_N: NDArray[np.int64], group_N: NDArray[np.int64]) -> NDArray[np.int64]:
        """Each function with one more byte."""
        groups = self.next_SG.shape[1]
        codes = function_N * groups + group_N
        flags = np.zeros(self.then_FG.size, dtype=np.bool_)
        flags[codes] = True
        new = np.flatnonzero(flags & (self.then_FG.ravel() == _UNKNOWN))
        stride = max(1, _BATCH // self.table_FS.shape[1])
        for begin in range(0, len(new), stride):
            self._compose(*np.divmod(new[begin : begin + stride], groups))
        followers: NDArray[np.int64] = self.then_FG.ravel()[codes]
        return followers

    def _compose(self, functions: NDArray[np.int64], groups: NDArray[np.int64]) -> None:
        rows = self.next_SG[self.table_FS[functions], groups[:, None]]
        before = self.count
        found = np.array([self.number.setdefault(row.tobytes(), len(self.number)) for row in rows])
        self.count = len(self.number)
        if self.count * self.table_FS.shape[1] * 4 > MAX_TABLE_BYTES:
            raise OptionError(
                f"the constraint is too large: over this vocabulary it needs more than {MAX_TABLE_BYTES >> 20} MiB"
            )
        if self.count > len(self.table_FS):
            room = 2 * self.count - len(self.table_FS)
            self.table_FS = np.pad(self.table_FS, ((0, room), (0, 0)))
            self.then_FG = np.pad(self.then_FG, ((0, room), (0, 0)), constant_values=_UNKNOWN)
        fresh = found >= before
        self.table_FS[found[fresh]] = rows[fresh]
        self.then_FG[functions, groups] = found


def token_automaton(
    texts: ByteAutomaton, tree: VocabularyTree, end_tokens: Sequence[int], fill_token: int | None = None
) -> TokenAutomaton:
    """The sequences of tokens whose bytes, joined, the byte automaton accepts.

    Raises:
        OptionError: there are none, or the automaton is too large.
    """
    next_SG, group_of_byte = np.unique(texts.next_SB, axis=1, return_inverse=True)
    functions = _Functions(next_SG)
    function_V = np.full(tree.size, functions.NOWHERE)
    above = np.array([functions.IDENTITY])
    for parents, labels, (tokens, nodes) in zip(tree.parents, tree.labels, tree.ends, strict=True):
        above = functions.follow(above[parents], group_of_byte[labels])
        function_V[tokens] = above[nodes]
    used, class_V = np.unique(function_V, return_inverse=True)
    next_SK = np.ascontiguousarray(functions.table_FS[used].T)
    return TokenAutomaton.assemble(
        class_V.astype(np.int32), next_SK, texts.accepting_S, texts.start, tuple(end_tokens), fill_token
    )


class _Compiler:
    """The texts of one tokenizer's tokens, and the trees and automata made of them last."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.texts = token_bytes(tokenizer)
        self.trees: SizedCache[tuple[int, tuple[int, ...]], VocabularyTree] = SizedCache(CACHE_BYTES // 4)
        self.automata: SizedCache[object, TokenAutomaton] = SizedCache(CACHE_BYTES - self.trees.max_bytes)

    def tree(self, size: int, placeholders: tuple[int, ...]) -> VocabularyTree:
        """The tree of the first `size` tokens, of which some stand for placeholders."""
        if (tree := self.trees.get((size, placeholders))) is None:
            padded = [*self.texts[:size], *[None] * (size - len(self.texts))]
            tree = VocabularyTree.build(with_placeholders(padded, placeholders) if placeholders else padded)
            self.trees.put((size, placeholders), tree, held_bytes(tree))
        return tree


_compiling = Lock()
_listing = Lock()
"""Guards `_compilers` for as long as a look takes: the statistics never wait for a constraint that is compiled."""
_compilers: WeakKeyDictionary[Tokenizer, _Compiler] = WeakKeyDictionary()


def automata_stats() -> CacheStats:
    """How many automata and vocabulary trees are kept, for all tokenizers of this process, and their bytes."""
    with _listing:
        compilers = list(_compilers.values())
    caches = [cache.stats for compiler in compilers for cache in (compiler.automata, compiler.trees)]
    return sum(caches, CacheStats())


def compile_constraint(
    constraint: str | Expression,
    tokenizer: Tokenizer,
    end_tokens: Sequence[int],
    fill_token: int | None = None,
    vocab_size: int | None = None,
    special: Sequence[str] = (),
) -> TokenAutomaton:
    """The automaton of all token sequences whose text satisfies a constraint; remembered.

    Args:
        constraint: a regular expression (see `regex`) that the whole text matches, or an expression.
        tokenizer: whose tokens spell the text. Other special tokens are never part of it.
        end_tokens: any of them ends the text.
        fill_token: what fills a canvas behind the end; without it the first end token.
        vocab_size: how many tokens the model scores, where it is more than the tokenizer has.
        special: special tokens that the expression's marks 0, 1, ... stand for (see `marks`); the tokenizer has them.

    Raises:
        OptionError: the pattern is malformed or has an unsupported feature, nothing that satisfies it can be spelled,
            or the automaton is too large.
        TextError: the tokenizer's decoder does more than join pieces.
    """
    placeholders = tuple(tokenizer.special[name] for name in special)
    key = (constraint, tuple(end_tokens), fill_token, vocab_size, placeholders)
    # One at a time: two requests with one new schema compile it once.
    with _compiling:
        with _listing:
            compiler = _compilers.get(tokenizer)
        if compiler is None:
            compiler = _Compiler(tokenizer)
            with _listing:
                _compilers[tokenizer] = compiler
        if (known := compiler.automata.get(key)) is not None:
            return known
        tree = compiler.tree(len(compiler.texts) if vocab_size is None else vocab_size, placeholders)
        expression = parse(constraint) if isinstance(constraint, str) else constraint
        automaton = token_automaton(compile_bytes(expression), tree, end_tokens, fill_token)
        compiler.automata.put(key, automaton, held_bytes(automaton))
        return automaton
