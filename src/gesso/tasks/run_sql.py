"""Runs a generated query on a small database safely enough to grade it.

The query comes from a model, so it is never trusted: SQLite lets it read the tables and call the functions listed
here, and nothing else, and stops it after a fixed number of instructions. The database is in memory and holds nothing
but the tables given.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

Value = int | float | str | bytes | None
Row = tuple[Value, ...]

_FUNCTIONS = frozenset(("avg", "count", "like", "max", "min", "sum", "total"))
_MAX_CHARACTERS = 600
_MAX_INSTRUCTIONS = 300_000
_MAX_ROWS = 1000
_MAX_VALUE_BYTES = 10_000


class RefusedQueryError(ValueError):
    """Reports a query that is none, fails, does too much, or asks for something that the runner refuses."""


@dataclass(frozen=True, slots=True)
class Table:
    """Holds name and columns of a table; both are plain words."""

    name: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.columns)})"


def run_queries(content: Mapping[Table, Sequence[Row]], queries: Sequence[str]) -> list[list[Row]]:
    """Returns the rows that each of `queries` gives on the database that holds `content`.

    Raises:
        RefusedQueryError: one of them cannot be run, or not safely.
    """
    import sqlite3  # a Python built without it can still do all other tasks

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for table, rows in content.items():
            connection.execute(f"create table {table}")
            places = ", ".join("?" for _ in table.columns)
            connection.executemany(f"insert into {table.name} values ({places})", rows)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        connection.set_authorizer(_permission)
        return [_run(connection, query) for query in queries]


def _permission(action: int, _: str | None, function: str | None, *__: str | None) -> int:
    import sqlite3

    allowed = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
    allowed |= action == sqlite3.SQLITE_FUNCTION and function is not None and function.lower() in _FUNCTIONS
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _run(connection: "sqlite3.Connection", query: str) -> list[Row]:
    import sqlite3

    if len(query) > _MAX_CHARACTERS:
        raise RefusedQueryError("the query is too long")
    # The handler is first asked after so many instructions, and its answer ends the query.
    connection.set_progress_handler(lambda: 1, _MAX_INSTRUCTIONS)
    try:
        cursor = connection.execute(query)
        rows: list[Row] = cursor.fetchmany(_MAX_ROWS + 1)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        raise RefusedQueryError(str(error)) from error
    if cursor.description is None:
        raise RefusedQueryError("there is no query")
    if len(rows) > _MAX_ROWS:
        raise RefusedQueryError("the query gives too many rows")
    return rows
