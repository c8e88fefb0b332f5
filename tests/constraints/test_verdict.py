"""Constraints for verdicts: bounded, kept, and the same as those of `gesso.constraint`."""

import pytest

import gesso
from gesso.constraints.verdict import submit_texts, verdict_stats
from gesso.errors import OptionError


def test_it_is_the_constraint_of_the_library_and_kept() -> None:
    made = submit_texts("regex", "kept[0-9]{3}").result(60)
    same = gesso.constraint(regex="kept[0-9]{3}")
    assert (made.option, made.value, made.size) == (same.option, same.value, same.size)
    assert submit_texts("regex", "kept[0-9]{3}").result(0) is made
    assert verdict_stats().bytes > 0


def test_strict_is_another_constraint() -> None:
    schema = {"type": "integer", "colour": 1}
    assert submit_texts("json_schema", schema).result(60).ignored == ("#/colour",)
    with pytest.raises(OptionError, match="colour"):
        submit_texts("json_schema", schema, strict=True).result(60)


def test_what_is_too_large_is_refused() -> None:
    schema: object = {"type": "integer"}
    for _ in range(5000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(OptionError, match="nested too deeply"):
        submit_texts("json_schema", schema).result(60)
