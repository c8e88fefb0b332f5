"""Asks a question about two or three tables, answered with one SQL query; graded by running it.

The tables differ from prompt to prompt: which of them a column belongs to, and whether a second one has to be joined,
stands in the schema above the question. A column other than a key has the same name in no other table; a table refers
to another by a column of that one's name. Questions keep to the bundled model's vocabulary, which has none of SQL's
keywords: there an answer takes up to 64 tokens, and tables are joined in `from` because that is shorter.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gesso.tasks.base import Example, Task
from gesso.tasks.run_sql import RefusedQueryError, Row, Table, Value, run_queries
from gesso.tasks.words import CITIES, COLOURS, ITEMS

_SUBJECTS = (
    "boat", "car", "bike", "horse", "train", "ship", "plane", "book", "coat", "clock", "camera", "piano", "sofa",
    "desk", "tent", "doll",
)  # fmt: skip
_PLACES = ("market", "school", "farm", "park", "town", "castle", "church", "garden", "island", "tower")
_PEOPLE = ("doctor", "friend", "king", "queen", "baby")
_NUMBERS = ("price", "length", "value", "floor")
_TEXTS: Mapping[str, Sequence[str]] = {"colour": COLOURS, "city": CITIES, "item": ITEMS}
_MAX_NUMBER = 98
_COMPARISONS = {"greater than": ">", "less than": "<", "at least": ">=", "at most": "<="}
_EQUALITIES = {"equal to": "=", "not equal to": "!="}
_AGGREGATES = ("sum", "max", "min")
_THREE_TABLES_SHARE = 0.5
_TWO_TABLES_READ_SHARE = 0.6
_AGGREGATE_SHARE = 0.2
_COUNT_SHARE = 0.1
_ORDER_SHARE = 0.6
_LIMIT_SHARE = 0.5
_MAX_LIMIT = 5

_DATABASES = 40
"""An answer is tried on so many databases, so that a wrong one gives other rows on one of them at least."""
_SUBJECT_ROWS = (1, 2, 4, 40)
"""Rows of the subject's table, in turn. Among few rows the one at the boundary of a condition decides a maximum; a
limit needs many."""
_OTHER_ROWS = 10
_NEAR = 25
_MENTIONED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class _Query:
    """A question without its conditions, in words and in SQL; `columns` are those it reads."""

    words: str
    select: str
    columns: Sequence[str] = ()
    words_after: str = "."
    order: str = ""


class Sql(Task):
    """Shows a schema and asks such as `Give colour of every boat with price at least 40.` -> `select colour from boat
    where ...`."""

    name = "sql"

    def sample(self, rng: random.Random) -> Example:
        """Draws the tables and a question about the rows of the first, which may read a second."""
        subject, *others = _draw_tables(rng)
        other = rng.choice(others)
        readable, most = _own(subject), 3
        if rng.random() < _TWO_TABLES_READ_SHARE:
            readable, most = [*readable, *_own(other)], 2
        conditioned = rng.sample(readable, rng.randint(1, most))
        # Nobody asks for the colour of what is red.
        asked = [column for column in readable if column in _NUMBERS or column not in conditioned]
        query = _draw_query(subject, asked, min(most, len(asked)), rng)
        words, conditions = zip(*(_draw_condition(column, rng) for column in conditioned), strict=True)
        sources = subject.name
        if set(_own(other)) & {*query.columns, *conditioned}:
            sources += f", {other.name}"
            conditions = (f"{subject.name}.{other.name} = {other.name}.key", *conditions)
        prompt = f"{query.words} {subject.name} with {' and '.join(words)}{query.words_after}"
        answer = f"select {query.select} from {sources} where {' and '.join(conditions)}{query.order}"
        schema = "\n".join(str(table) for table in (subject, *others))
        return Example(self.name, f"{schema}\n{prompt}", answer)

    def grade(self, example: Example, text: str) -> bool:
        """Accepts a query that gives the reference's rows on every database tried; their order counts where it is
        asked for."""
        ordered = " order by " in example.answer
        for number in range(_DATABASES):
            content = example_database(example, number)
            try:
                expected, found = run_queries(content, (example.answer, text.strip()))
            except RefusedQueryError:
                return False
            if not ordered:
                expected, found = sorted(expected, key=repr), sorted(found, key=repr)
            if found != expected:
                return False
        return True


def example_database(example: Example, number: int) -> dict[Table, list[Row]]:
    """Returns database `number` for the tables of an example, filled so that its conditions make a difference.

    Half of the texts are what the answer mentions; numbers lie around those it mentions, often at one away
    or right there, and are distinct within a column, so that an order by one is total.
    """
    rng = random.Random(f"{example.prompt} {number}")
    tables = [Table(name, tuple(columns.split(", "))) for name, columns in _SCHEMA.findall(example.prompt)]
    sizes = {table.name: _OTHER_ROWS for table in tables} | {tables[0].name: _SUBJECT_ROWS[number % len(_SUBJECT_ROWS)]}
    content = {}
    for table in tables:
        columns = [_fill(column, sizes[table.name], sizes, example.answer, rng) for column in table.columns]
        content[table] = list(zip(*columns, strict=True))
    return content


_SCHEMA = re.compile(r"^(\w+)\((.+)\)$", re.MULTILINE)


def _fill(column: str, size: int, sizes: Mapping[str, int], answer: str, rng: random.Random) -> Sequence[Value]:
    """`size` values for a column; `sizes` are the rows of the tables that it may refer to."""
    if column == "key":
        return range(1, size + 1)
    if column in sizes:
        return rng.choices(range(1, sizes[column] + 1), k=size)
    if column in _TEXTS:
        mentioned = re.findall(rf"\b{column} !?= '(\w+)'", answer)
        others = rng.sample(_TEXTS[column], 3)
        return [rng.choice(mentioned if mentioned and rng.random() < _MENTIONED_SHARE else others) for _ in range(size)]
    mentioned_number = re.search(rf"\b{column} [<>]=? (\d+)", answer)
    middle = int(mentioned_number[1]) if mentioned_number else rng.randint(_NEAR, _MAX_NUMBER - _NEAR)
    boundary = rng.sample((middle, middle - 1, middle + 1), rng.randint(1, 3))
    around = [middle + step for step in range(-_NEAR, _NEAR + 1) if abs(step) > 1]
    values = [*boundary, *rng.sample(around, size)][:size]
    rng.shuffle(values)
    return values


def _draw_tables(rng: random.Random) -> list[Table]:
    """The table that is asked about, and the one or two it refers to."""
    names = [rng.choice(_PLACES)]
    if rng.random() < _THREE_TABLES_SHARE:
        names.append(rng.choice(_PEOPLE))
    numbers = rng.sample(_NUMBERS, 4)
    own = ["colour", *numbers[:2]]
    rng.shuffle(own)
    references = rng.sample(names, len(names))
    tables = [Table(rng.choice(_SUBJECTS), ("key", *own, *references))]
    for name, text, number in zip(names, ("city", "item"), numbers[2:], strict=False):
        tables.append(Table(name, ("key", *rng.sample((text, number), 2))))
    return tables


def _own(table: Table) -> list[str]:
    """The columns of a table that are no keys."""
    return [column for column in table.columns if column in _TEXTS or column in _NUMBERS]


def _draw_query(subject: Table, asked: Sequence[str], most: int, rng: random.Random) -> _Query:
    """A question for up to `most` columns of `asked`, for an aggregate of one, or for the number of rows."""
    kind = rng.random()
    if kind < _COUNT_SHARE:
        return _Query("Count every", "count(*)")
    if kind < _COUNT_SHARE + _AGGREGATE_SHARE:
        column = rng.choice([column for column in asked if column in _NUMBERS])
        aggregate = rng.choice(_AGGREGATES)
        return _Query(f"What is the {aggregate} of {column} of every", f"{aggregate}({column})", [column], "?")
    columns = rng.sample(asked, rng.randint(1, most))
    listed = " and ".join(filter(None, (", ".join(columns[:-1]), columns[-1])))
    words_after, order = _draw_order(subject, rng) if rng.random() < _ORDER_SHARE else (".", "")
    return _Query(f"{rng.choice(('Give', 'List'))} {listed} of every", ", ".join(columns), columns, words_after, order)


def _draw_order(subject: Table, rng: random.Random) -> tuple[str, str]:
    column = rng.choice([column for column in subject.columns if column in _NUMBERS])
    falling = rng.random() < 0.5
    words = f". Sort by {column}, {'larger' if falling else 'smaller'} first"
    order = f" order by {column}{' desc' if falling else ''}"
    if rng.random() < _LIMIT_SHARE:
        limit = rng.randint(1, _MAX_LIMIT)
        words, order = f"{words}, at most {limit}", f"{order} limit {limit}"
    return f"{words}.", order


def _draw_condition(column: str, rng: random.Random) -> tuple[str, str]:
    """A condition on a column, in words and in SQL."""
    if column in _TEXTS:
        words, sign = rng.choice(list(_EQUALITIES.items()))
        value = rng.choice(_TEXTS[column])
        return f"{column} {words} {value}", f"{column} {sign} '{value}'"
    words, sign = rng.choice(list(_COMPARISONS.items()))
    number = rng.randint(2, _MAX_NUMBER)
    return f"{column} {words} {number}", f"{column} {sign} {number}"
