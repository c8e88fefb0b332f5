"""Files that are named in a conversation."""

import os
from pathlib import Path

import pytest

from gesso.cli.attachments import written_out


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("a b.png", "a b.png"),
        ("'a b.png'", "a b.png"),
        ('"a b.png"', "a b.png"),
        ("'it'\\''s.png'", "it's.png"),
        ("it's.png", "it's.png"),
        ("a#b.png", "a#b.png"),
        ("'a' b.png", "'a' b.png"),
        ("''", "''"),
        (f"'{'a' * 5000}", f"'{'a' * 5000}"),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="a backslash stands between folders there")
def test_a_name_may_stand_in_quotes_as_a_terminal_writes_a_file_that_is_dropped_onto_it(typed: str, meant: str) -> None:
    assert written_out(typed) == meant


@pytest.mark.skipif(os.name == "nt", reason="a backslash stands between folders there")
def test_backslashes_are_taken_off_where_no_file_has_them_in_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert written_out(r"a\ b.png") == "a b.png"
    (tmp_path / r"a\ b.png").touch()
    assert written_out(r"a\ b.png") == r"a\ b.png"
