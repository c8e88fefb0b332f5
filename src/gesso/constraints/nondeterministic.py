"""A nondeterministic automaton over bytes while it is put together."""

from collections.abc import Iterable

from gesso.constraints import charset
from gesso.constraints.expression import Anchor, Chars, Expression, Multiples, Text
from gesso.constraints.placeholders import encode
from gesso.errors import OptionError

MAX_GRAPH = 400_000
"""States."""


class Graph:
    """States with edges for ranges of bytes, free steps, and free steps at the begin or the end of the text only."""

    def __init__(self) -> None:
        self.edges: list[list[tuple[int, int, int]]] = []
        """Of each state: first byte, last byte, the state that follows."""
        self.free: list[list[int]] = []
        self.free_at: dict[bool, dict[int, list[int]]] = {False: {}, True: {}}
        """Keyed by whether it is at the end, else at the begin, then by state."""
        self._closed: dict[int, frozenset[int]] = {}

    def add(self) -> int:
        """A new state.

        Raises:
            OptionError: there are too many.
        """
        if len(self.edges) >= MAX_GRAPH:
            raise OptionError(f"the constraint is too large: spelled out it has more than {MAX_GRAPH} parts")
        self.edges.append([])
        self.free.append([])
        return len(self.edges) - 1

    def link(self, source: int, target: int) -> None:
        """A free step."""
        self.free[source].append(target)

    def step(self, source: int) -> int:
        """A new state, one free step behind `source`."""
        target = self.add()
        self.link(source, target)
        return target

    def merge(self, sources: Iterable[int]) -> int:
        """A new state that all of `sources` lead to."""
        target = self.add()
        for source in sources:
            self.link(source, target)
        return target

    def add_text(self, text: str, source: int) -> int:
        """Put a text behind `source`; return the state behind it."""
        for byte in encode(text):
            target = self.add()
            self.edges[source].append((byte, byte, target))
            source = target
        return source

    def add_leaf(self, expression: Expression, source: int) -> int:
        """Put an expression without parts behind `source`; return the state behind it."""
        match expression:
            case Text(text):
                return self.add_text(text, source)
            case Chars(chars):
                return self._add_chars(chars, source)
            case Anchor(at_end):
                target = self.add()
                self.free_at[at_end].setdefault(source, []).append(target)
                return target
            case Multiples(divisor):
                return self._add_multiples(divisor, source)
        raise AssertionError(expression)

    def _add_chars(self, chars: charset.CharSet, source: int) -> int:
        target = self.add()
        tails: dict[tuple[charset.ByteRange, ...], int] = {(): target}
        for spelling in charset.utf8(chars):
            for place in range(len(spelling) - 1, 0, -1):
                if spelling[place:] not in tails:
                    tails[spelling[place:]] = state = self.add()
                    self.edges[state].append((*spelling[place], tails[spelling[place + 1 :]]))
            self.edges[source].append((*spelling[0], tails[spelling[1:]]))
        return target

    def _add_multiples(self, divisor: int, source: int) -> int:
        rests = [self.add() for _ in range(divisor)]
        for digit in range(10):
            byte = ord("0") + digit
            self.edges[source].append((byte, byte, rests[digit % divisor]))
            for rest, state in enumerate(rests):
                self.edges[state].append((byte, byte, rests[(10 * rest + digit) % divisor]))
        return self.step(rests[0])

    def closure(self, states: Iterable[int], at_begin: bool = False, at_end: bool = False) -> frozenset[int]:
        """All states that free steps lead to from `states`."""
        if not (at_begin or at_end):
            return frozenset().union(*map(self._close, states))
        extra = [self.free_at[kind] for kind, applies in ((False, at_begin), (True, at_end)) if applies]
        found = set(states)
        left = list(found)
        while left:
            state = left.pop()
            for targets in (self.free[state], *(free.get(state, ()) for free in extra)):
                left += [target for target in targets if target not in found]
                found.update(targets)
        return frozenset(found)

    def _close(self, state: int) -> frozenset[int]:
        if state not in self._closed:
            found, left = {state}, [state]
            while left:
                for target in self.free[left.pop()]:
                    if target not in found:
                        found.add(target)
                        left.append(target)
            # States that only lead on freely say nothing of their own.
            kept = {s for s in found if self.edges[s] or not self.free[s] or s in self.free_at[True]}
            self._closed[state] = frozenset(kept)
        return self._closed[state]
