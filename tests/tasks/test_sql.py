"""SQL: references run on SQLite, wrong queries are found out, equivalent ones accepted, unsafe ones refused."""

import random
import re
import sqlite3
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gesso.tasks import Example, build_tokenizer, evaluation_set, held_out
from gesso.tasks.run_sql import RefusedQueryError, Table, run_queries
from gesso.tasks.sql import Sql, example_database

TASK = Sql()
BOAT = Table("boat", ("key", "colour", "price"))
CONTENT = {BOAT: [(1, "red", 40), (2, "blue", 41), (3, "red", 39)]}


def samples(n: int, seed: int = 7) -> list[Example]:
    rng = random.Random(seed)
    return [TASK.sample(rng) for _ in range(n)]


def test_every_reference_runs_on_the_tables_of_its_prompt() -> None:
    rows = 0
    for example in samples(300):
        content = example_database(example, 3)
        connection = sqlite3.connect(":memory:")
        schema = example.prompt.split("\n")[:-1]
        assert [str(table) for table in content] == schema
        for line, values in zip(schema, content.values(), strict=True):
            connection.execute(f"create table {line}")
            connection.executemany(
                f"insert into {line.split('(')[0]} values ({','.join('?' * len(values[0]))})", values
            )
        found = connection.execute(example.answer).fetchall()
        connection.close()
        assert found == run_queries(content, [example.answer])[0]
        rows += len(found)
    assert rows > 1500


@given(st.integers(0, 2**32))
@settings(max_examples=30)
def test_draws_are_repeatable_and_their_answers_right(seed: int) -> None:
    example = TASK.sample(random.Random(seed))
    assert example == Sql().sample(random.Random(seed))
    assert TASK.grade(example, example.answer)
    assert TASK.grade(example, f" {example.answer};\n")


def test_they_are_short_in_the_bundled_vocabulary() -> None:
    tokenizer = build_tokenizer()
    drawn = samples(1500)
    assert max(len(tokenizer.encode(example.prompt).ids) for example in drawn) <= 120
    lengths = [len(tokenizer.encode(example.answer).ids) for example in drawn]
    assert max(lengths) < 64
    assert sum(20 <= length <= 60 for length in lengths) > 0.95 * len(lengths)
    for example in drawn[:200]:
        tokens = tokenizer.encode(example.prompt).tokens
        assert not any(len(token) == 1 and token.isalpha() for token in tokens), example.prompt


def test_all_kinds_of_queries_are_asked() -> None:
    answers = [example.answer for example in samples(500)]
    for part in (".key", "order by", " desc", "limit", "sum(", "max(", "min(", "count(*)", "!=", ">=", " and "):
        assert sum(part in answer for answer in answers) > 5, part
    assert len(set(answers)) > 490


def test_an_evaluation_set_is_held_out() -> None:
    found = evaluation_set(TASK, 200, seed=0)
    assert all(held_out(example.prompt) for example in found)
    assert found == evaluation_set(TASK, 200, seed=0)


CHANGES = (
    (r" ([<>]) ", r" \1= "),
    (r" ([<>])= ", r" \1 "),
    (r" = '", " != '"),
    (r" != '", " = '"),
    (r" = '\w+'", " = 'beige'"),
    (r" limit \d", ""),
    (r" limit (\d)", r" limit \g<1>0"),
    (r" desc", ""),
    (r" order by (\w+)(?= limit|$)", r" order by \1 desc"),
    (r" order by \w+( desc)?$", ""),
    (r" where (\w+\.\w+ = \w+\.key) and ", " where "),
    (r" and \w+ [!<>=]+ \S+", ""),
    (r" and ", " or "),
    (r"select (\w+), (\w+)", r"select \2, \1"),
    (r"max\(", "min("),
    (r"sum\(", "max("),
    (r"count\(\*\)", "sum(1.5)"),
)


def test_changed_queries_are_wrong() -> None:
    tried = accepted = 0
    for example in samples(60):
        for pattern, replacement in CHANGES:
            changed = re.sub(pattern, replacement, example.answer, count=1)
            if changed != example.answer:
                tried += 1
                accepted += TASK.grade(example, changed)
    assert tried > 200
    assert accepted <= 0.02 * tried


def test_the_answer_to_another_prompt_is_wrong() -> None:
    assert not any(TASK.grade(example, other.answer) for example, other in pairwise(samples(40)))


def test_any_query_with_the_same_rows_is_right() -> None:
    prompt = (
        "boat(key, colour, price, length, park)\npark(key, city, value)\n"
        "Give price of every boat with city equal to Oslo. Sort by length, larger first, at most 3."
    )
    where = "where boat.park = park.key and city = 'Oslo'"
    example = Example("sql", prompt, f"select price from boat, park {where} order by length desc limit 3")
    for query in (
        "SELECT b.price FROM boat b JOIN park p ON p.key = b.park WHERE p.city = 'Oslo' ORDER BY b.length DESC LIMIT 3",
        "select price\nfrom park, boat\nwhere city like 'Oslo' and boat.park = park.key\norder by -length limit 3;",
        "select price from boat where park in (select key from park where city = 'Oslo') order by length desc limit 3",
    ):
        assert TASK.grade(example, query), query
    for query in (
        f"select price from boat, park {where} order by length desc limit 4",
        f"select price, price from boat, park {where} order by length desc limit 3",
        f"select length from boat, park {where} order by length desc limit 3",
        "select price from boat order by length desc limit 3",
        "price",
        "",
    ):
        assert not TASK.grade(example, query), query


def test_order_counts_only_where_it_is_asked_for() -> None:
    example = Example("sql", "boat(key, price)\nGive price of every boat.", "select price from boat")
    assert TASK.grade(example, "select price from boat order by price desc")
    ordered = Example("sql", example.prompt, "select price from boat order by price")
    assert not TASK.grade(ordered, "select price from boat order by price desc")


def test_numbers_are_distinct_so_that_orders_are_total() -> None:
    for example in samples(30):
        for number in range(8):
            for table, rows in example_database(example, number).items():
                for column, values in zip(table.columns, zip(*rows, strict=True), strict=True):
                    if column in ("price", "length", "value", "floor"):
                        assert len(set(values)) == len(values)


def test_rows_of_a_query() -> None:
    queries = ["select key from boat where colour = 'red' order by price", "select max(price), count(*) from boat"]
    assert run_queries(CONTENT, queries) == [[(3,), (1,)], [(41, 3)]]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "-- nothing",
        "boats",
        "select weight from boat",
        "select 1; select 2",
        "select '\x00'",
        "select '\ud800'",
        "drop table boat",
        "delete from boat",
        "insert into boat values (4, 'red', 1)",
        "update boat set price = 1",
        "create table other (key)",
        "attach database '/tmp/gesso-test.db' as other",
        "pragma table_info(boat)",
        "select * from pragma_table_info('boat')",
        "vacuum into '/tmp/gesso-test.db'",
        "begin",
        "select load_extension('x')",
        "select randomblob(9)",
        "select printf('%900000000d', 1)",
        "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n",
        "select count(*) from " + ", ".join(f"boat as b{i}" for i in range(16)),
        "select 1 from " + ", ".join(f"boat as b{i}" for i in range(7)),
        "select 1 where " + "1 and " * 200 + "1",
    ],
)
def test_unsafe_and_broken_queries_are_refused(query: str) -> None:
    with pytest.raises(RefusedQueryError):
        run_queries(CONTENT, [query])
