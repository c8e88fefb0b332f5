"""Defines the compile service: constraints as automata over a tokenizer's tokens, each compiled once.

Life cycle: `submit` finds a compiled automaton, or the compilation of the same key that is under way, or starts one in
a thread of its own; whoever asked waits on the `Compilation` it returns, and on nothing else. When the last one has
left, the thread stops at its next look at the budget. `compile_constraint` is `submit` and the wait.

A few compilations are under way at once; one that has taken longer than `SHORT_SECONDS` of CPU goes on in a lane where
there is one at a time, so that however many large constraints come, a small one has hardly to wait. Of all of them one
has its turn for `TURN_SECONDS`, and between two turns the interpreter's lock is free: a thread that runs a model gives
that lock away hundreds of times a pass, and would stand in line behind every compilation each time. Threads are enough,
and no process pool is needed: every stage asks its budget (states, bytes, CPU seconds) inside its loops and is made of
array operations of milliseconds, so a compilation can neither run on nor be stuck where it cannot be stopped.
"""

import copy
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Condition, Lock, Semaphore, Thread
from weakref import WeakKeyDictionary

from gesso.constraints import budget
from gesso.constraints.automaton import TokenAutomaton
from gesso.constraints.budget import Budget, CancelledError
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.expression import Expression
from gesso.constraints.placeholders import with_placeholders
from gesso.constraints.regex import parse
from gesso.constraints.sized_cache import CacheStats, SizedCache, held_bytes
from gesso.constraints.token_text import token_bytes
from gesso.constraints.tokens import token_automaton
from gesso.constraints.vocabulary_tree import VocabularyTree
from gesso.errors import OptionError
from gesso.text.tokenizer import Tokenizer

CACHE_BYTES = 256 * 2**20
"""Of the automata and vocabulary trees that are kept for a tokenizer, on the host."""
SHORT_SECONDS = 0.1
"""Of CPU, after which a compilation goes on in the lane of the long ones."""
_short_lane, _long_lane = Semaphore(4), Semaphore(1)
_POLL_SECONDS = 0.05
"""Between two looks at whether anybody waits still, while a compilation waits for a lane."""
TURN_SECONDS = 0.005
"""Of wall clock, after which a compilation lets another one go on, and whoever else wants the interpreter."""
_turn = Lock()


@dataclass(frozen=True, slots=True)
class Language:
    """Holds a constraint that is still to be read, which may take as long as compiling it, and its key."""

    key: Hashable
    """Two of the same key are the same language."""
    read: Callable[[], tuple[Expression, tuple[str, ...]]]
    """Returns the texts, and what it ignored on the way."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """What is kept of a constraint."""

    automaton: TokenAutomaton
    ignored: tuple[str, ...]


class Compilation:
    """Holds one constraint while it is compiled and after; several may wait for it."""

    def __init__(self, make: Callable[[], _Compiled], limits: Budget, done: Callable[[], None]) -> None:
        self._make, self._limits, self._done = make, limits, done
        self._changed = Condition()
        self._waiting = 0
        self._compiled: _Compiled | None = None
        self._error: Exception | None = None
        self._started = False
        self._listeners: list[Callable[[], None]] = []

    @classmethod
    def finished(cls, compiled: _Compiled) -> "Compilation":
        """Makes one that is there already."""
        made = cls(lambda: compiled, Budget(), lambda: None)
        made._compiled = compiled
        return made

    @property
    def ready(self) -> bool:
        """Tells whether `result` answers at once."""
        return self._compiled is not None or self._error is not None

    @property
    def ignored(self) -> tuple[str, ...]:
        """Lists what reading the constraint ignored: pointers to a schema's annotations. Empty until it is ready."""
        return self._compiled.ignored if self._compiled is not None else ()

    def on_ready(self, listener: Callable[[], None]) -> None:
        """Calls `listener` once `result` answers at once: in the compiling thread, or here and now."""
        with self._changed:
            if not self.ready:
                self._listeners.append(listener)
                return
        listener()

    def join(self) -> bool:
        """Waits for it from now on, until `leave` or `result`; false where it was given up meanwhile."""
        with self._changed:
            if isinstance(self._error, CancelledError) or (self._started and not self.ready and not self._waiting):
                return False
            self._waiting += 1
            if not self._started and not self.ready:
                self._started = True
                Thread(target=self._run, name="gesso-compile", daemon=True).start()
            return True

    def leave(self) -> None:
        """Waits for it no longer; when nobody does, it is given up."""
        with self._changed:
            self._waiting -= 1

    def result(self, timeout: float | None = None) -> TokenAutomaton:
        """Returns the automaton, once it is there. Who joined has left then.

        Raises:
            OptionError, TextError: what compiling it raised.
            TimeoutError: it is not there within `timeout` seconds.
        """
        try:
            with self._changed:
                if not self._changed.wait_for(lambda: self.ready, timeout):
                    raise TimeoutError
        finally:
            self.leave()
        if self._error is not None:
            # A copy: one exception raised in several threads would gather all their tracebacks.
            raise copy.copy(self._error)
        assert self._compiled is not None
        return self._compiled.automaton

    def _run(self) -> None:
        compiled: _Compiled | None = None
        error: Exception | None = None
        lane = _Lane(lambda: self._waiting <= 0)
        try:
            lane.enter()
            limits = self._limits
            with budget.within(Budget(limits.max_states, limits.max_bytes, limits.max_seconds, lane.asked)):
                compiled = self._make()
        except RecursionError:
            error = OptionError("the constraint is too large: its parts are nested too deeply")
        except OverflowError:
            error = OptionError("the constraint is too large: a number of it is past what can be reckoned with")
        except MemoryError:
            error = OptionError("the constraint is too large for the memory that is left")
        except Exception as raised:  # noqa: BLE001 - whoever waits gets it
            error = raised
        lane.leave()
        # Kept before it is told, and no longer found where it failed or was given up.
        with self._changed:
            self._compiled, self._error = compiled, error
            self._done()
            self._changed.notify_all()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()


class _Lane:
    """Where a compilation runs: first among the short ones, later alone among the long ones; and its turns."""

    def __init__(self, given_up: Callable[[], bool]) -> None:
        self._given_up = given_up
        self._lane: Semaphore | None = None
        self._clock = Budget(max_seconds=SHORT_SECONDS)
        self._turn_ends = 0.0
        """0 while it is not its turn, as before the first question: nothing is waited for while it has its turn."""

    def enter(self) -> None:
        self._take(_short_lane)
        self._clock = Budget(max_seconds=SHORT_SECONDS)

    def asked(self) -> bool:
        """Whether to stop; asked now and then by the stages."""
        if self._lane is _short_lane and self._clock.spent() > SHORT_SECONDS:
            self.leave()
            self._take(_long_lane)
            self._take_turn()
        elif time.monotonic() > self._turn_ends:
            if self._turn_ends:
                self._end_turn()
                time.sleep(TURN_SECONDS / 10)  # a lock is not handed on: who lets it go may have it back at once
            self._take_turn()
        return self._given_up()

    def leave(self) -> None:
        self._end_turn()
        if self._lane is not None:
            self._lane.release()
        self._lane = None

    def _take_turn(self) -> None:
        _turn.acquire()
        self._turn_ends = time.monotonic() + TURN_SECONDS

    def _end_turn(self) -> None:
        if self._turn_ends:
            self._turn_ends = 0.0
            _turn.release()

    def _take(self, lane: Semaphore) -> None:
        while not lane.acquire(timeout=_POLL_SECONDS):
            if self._given_up():
                raise CancelledError
        self._lane = lane


class _Compiler:
    """The texts of one tokenizer's tokens, the trees and automata made of them last, and what is being compiled."""

    def __init__(self, texts: Sequence[bytes | None]) -> None:
        self.texts = texts
        self.trees: SizedCache[tuple[int, tuple[int, ...]], VocabularyTree] = SizedCache(CACHE_BYTES // 4)
        self.automata: SizedCache[object, _Compiled] = SizedCache(CACHE_BYTES - self.trees.max_bytes)
        self.lock = Lock()
        """Held for a look at `under_way` only."""
        self.under_way: dict[object, Compilation] = {}
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
) -> Compilation:
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

    def make() -> _Compiled:
        tree = compiler.tree(len(compiler.texts) if vocab_size is None else vocab_size, placeholders)
        expression, ignored = _read(constraint)
        compiled = _Compiled(token_automaton(compile_bytes(expression), tree, end_tokens, fill_token), ignored)
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
        made.join()
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
