"""Compiles an expression to a deterministic automaton over the bytes of UTF-8.

Life cycle: `compile_bytes` walks the expression into a nondeterministic automaton (`nondeterministic.Graph`), finds
the sets of its states that can be reached (`determinize`), and merges states that no continuation tells apart
(`minimize`). What cannot be said with single steps (intersections, differences, anchors inside a larger text) is
compiled by itself first and put in as a graph.

A repetition of many counts becomes a counter (see `determinize`); of repetitions in each other the one that would be
largest without one does. Where a text does not say what the count is, as in `(a|aa){100}`, or two counters would have
to be kept at once, it is spelled out instead: copy after copy.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce

from gesso.constraints import budget
from gesso.constraints.byte_table import ByteAutomaton, difference, intersect, minimal
from gesso.constraints.determinize import determinize
from gesso.constraints.distinct_items import distinct_items
from gesso.constraints.embedding import embedded
from gesso.constraints.expression import (
    Difference,
    Distinct,
    Expression,
    Fitting,
    Intersection,
    Joined,
    Repeat,
    Sequence,
    Text,
    Union,
    Whole,
)
from gesso.constraints.held_bytes import held_bytes
from gesso.constraints.measures import least_bytes
from gesso.constraints.nondeterministic import Graph
from gesso.constraints.placeholders import encode
from gesso.constraints.regions import COUNT, ENTER, LEAVE, WHILE, AmbiguousCountError
from gesso.constraints.survey import Survey
from gesso.constraints.tries import spelled_out, trie
from gesso.errors import OptionError
from gesso.sized_cache import SizedCache

ATTEMPT_SECONDS = 0.8
"""What an option of `Fitting` may take that is not the last."""

MOST_COUNTS = 2**21
"""Counts of one counter at most: one that goes further ends here, for no answer is so long."""
KEPT_BYTES = 16 * 2**20
"""Bytes of the automata of common parts, such as any JSON value, that are kept for the expressions to come."""
_kept: SizedCache[Expression, ByteAutomaton] = SizedCache(KEPT_BYTES)


def compile_bytes(expression: Expression) -> ByteAutomaton:
    """Returns the automaton of the expression's texts: minimal but for its counters.

    Raises:
        OptionError: it would have too many states, or the budget in force is used up.
    """
    return _Compiler().compile(expression)


@dataclass(slots=True)
class _Compiler:
    """Life cycle: one for an expression and all its parts; what was found to need spelling out is remembered."""

    spelled: set[int] = field(default_factory=set)
    """Expressions, by identity, whose counters turned out to be ambiguous."""
    known: dict[Expression, ByteAutomaton] = field(default_factory=dict)
    """Parts that are compiled by themselves."""
    survey: Survey = field(default_factory=Survey)

    def compile(self, expression: Expression) -> ByteAutomaton:
        if (found := self.known.get(expression)) is None:
            found = self.known[expression] = self._compile(expression)
        return found

    def _compile(self, expression: Expression) -> ByteAutomaton:
        match expression:
            case Intersection(parts):
                return reduce(intersect, map(self.compile, parts))
            case Difference(body, removed):
                listed = spelled_out(removed)
                return difference(self.lasting(body), self.compile(removed) if listed is None else trie(listed))
            case Distinct(item, before, separator, least, most, max_states, quote):
                texts = self.compile(item)
                texts = texts if texts.counts is None else texts.spelled()
                ends = encode(before), encode(separator)
                return distinct_items(texts, *ends, least, most, max_states, encode(quote))
            case Fitting((*larger, last), most_states):
                asked = budget.current()
                for option in larger:
                    with suppress(OptionError), budget.within(asked.part(most_states, ATTEMPT_SECONDS)):
                        return self.compile(option)
                    asked.check()
                return self.compile(last)
        self.survey.add(expression)
        while True:
            graph = Graph()
            begin = graph.add()
            end = self.spell(graph, expression.body if isinstance(expression, Whole) else expression, begin)
            try:
                return minimal(determinize(graph, begin, end))
            except AmbiguousCountError as ambiguous:
                self.spelled |= ambiguous.keys

    def build(self, graph: Graph, expression: Expression, source: int) -> int:
        """Add the expression behind the state `source`; return the state behind it."""
        if not graph.inside and self.survey.stands_alone(expression):
            automaton = self.alone(expression)
            if automaton.counts is None:
                rows = automaton.next_SG, automaton.group_B, automaton.accepting_S
                return graph.add_block(*rows, automaton.start, source)
        return self.spell(graph, expression, source)

    def spell(self, graph: Graph, expression: Expression, source: int) -> int:
        """Add the expression as its parts."""
        match expression:
            case Sequence(parts):
                for part in parts:
                    source = self.build(graph, part, source)
                return source
            case Union(options):
                return graph.merge([self.build(graph, option, source) for option in options])
            case Repeat():
                return self.build_repeat(graph, expression, source)
            case Joined():
                return self.build_joined(graph, expression, source)
            case Intersection() | Difference() | Fitting() | Distinct():
                return self.embed(graph, expression, source)
            case Whole(body):
                if self.survey.of(body).anchored:
                    return self.embed(graph, expression, source)
                return self.build(graph, body, source)
            case _:
                return graph.add_leaf(expression, source)

    def build_repeat(self, graph: Graph, repeat: Repeat, source: int) -> int:
        countable = not graph.inside and id(repeat) not in self.spelled
        if countable and self.survey.of(repeat).counted:
            return self.build_counted(graph, repeat, source)
        ends = [source] if repeat.least == 0 else []
        last = max(repeat.least, 1) if repeat.most is None else repeat.most
        for done in range(1, last + 1):
            if done > 1:
                source = graph.add_text(repeat.separator, source)
            # A state of its own: neither the loop nor the way out may lead back to what stood before.
            entry = graph.step(source)
            source = graph.step(self.build(graph, repeat.body, entry))
            if done >= repeat.least:
                ends.append(source)
        if repeat.most is None:
            graph.link(graph.add_text(repeat.separator, source), entry)
        return graph.merge(ends)

    def build_counted(self, graph: Graph, repeat: Repeat, source: int) -> int:
        """The repetition as a loop with a counter; where it has no end, a loop without one behind it.

        With a separator it is separators that are counted: where an item ends need not be known before one comes.
        """
        if repeat.least > MOST_COUNTS:
            raise OptionError(f"no answer is as long as {repeat.least} repetitions ask for")
        behind = bool(repeat.separator)
        least = max(repeat.least - behind, 0)
        most = None if repeat.most is None else min(repeat.most, MOST_COUNTS) - behind
        top = least if most is None else most
        graph.inside = graph.add_region(id(repeat), top, max(1, least_bytes(repeat.body) + len(repeat.separator)))
        head, entry = graph.add(), graph.add()
        graph.count(ENTER, source, head)
        if behind:
            last = self.build(graph, repeat.body, head)
            graph.count(WHILE, last, entry, 0, top - 1)
            graph.count(COUNT, graph.add_text(repeat.separator, entry), head)
        else:
            last = head
            graph.count(WHILE, head, entry, 0, top - 1)
            graph.count(COUNT, self.build(graph, repeat.body, entry), head)
        graph.inside = 0
        end = graph.add()
        graph.count(LEAVE, last, end, least, top)
        if most is None:
            others = Sequence((Text(repeat.separator), repeat.body)) if behind else repeat.body
            end = self.build(graph, Repeat(others), end)
        return graph.merge([source, end]) if behind and repeat.least == 0 else end

    def build_joined(self, graph: Graph, joined: Joined, source: int) -> int:
        # By how many items there are, up to the count that makes a difference. Behind the first, separators follow.
        most = joined.most
        top = max(joined.least, 1) if most is None else most
        here: dict[int, int] = {0: source}
        for item, required in joined.items:
            budget.current().check()
            ways: dict[int, list[int]] = {}
            entries: dict[int, list[int]] = {}
            for count, state in here.items():
                if count < top or most is None:
                    behind = state if count == 0 else graph.add_text(joined.separator, state)
                    entries.setdefault(min(count + 1, top), []).append(behind)
                if not required:
                    ways.setdefault(count, []).append(state)
            for count, states in entries.items():
                ways.setdefault(count, []).append(self.build(graph, item, graph.merge(states)))
            here = {count: graph.merge(states) for count, states in ways.items()}
        ends = [state for count, state in here.items() if count >= joined.least]
        if joined.rest is not None:
            ways = {}
            for count, state in here.items():
                left = None if most is None else most - count
                if count + 1 >= joined.least and left != 0:
                    # However many follow, they are of use here alike.
                    behind = state if count == 0 else graph.add_text(joined.separator, state)
                    ways.setdefault(-1 if left is None else left, []).append(behind)
            for left, states in ways.items():
                others = Repeat(joined.rest, 1, None if left < 0 else left, joined.separator)
                ends.append(self.build(graph, others, graph.merge(states)))
        return graph.merge(ends)

    def alone(self, expression: Expression) -> ByteAutomaton:
        """The automaton of a part that is compiled by itself; that of a `Whole` is kept for other expressions."""
        return self.lasting(expression) if isinstance(expression, Whole) else self.compile(expression)

    def lasting(self, expression: Expression) -> ByteAutomaton:
        """The automaton of a part that may well stand in other expressions, such as any text; kept for them."""
        if (found := _kept.get(expression)) is None:
            found = self.compile(expression)
            _kept.put(expression, found, held_bytes(found))
        return found

    def embed(self, graph: Graph, expression: Expression, source: int) -> int:
        """Put an automaton that is compiled by itself behind `source`."""
        automaton = self.compile(expression)
        if automaton.counts is None and not graph.inside:
            rows = automaton.next_SG, automaton.group_B, automaton.accepting_S
            return graph.add_block(*rows, automaton.start, source)
        if automaton.counts is not None and (graph.inside or id(expression) in self.spelled):
            automaton = automaton.spelled()
        return embedded(graph, automaton, id(expression), source)
