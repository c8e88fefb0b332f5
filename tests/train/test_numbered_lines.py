"""Lines of files of training data, and what is told of one that cannot be used."""

from io import BytesIO

import pytest

from gesso.errors import DataError, TextError
from gesso.train.numbered_lines import numbered_lines, told_with


def test_lines_keep_their_numbers_where_others_are_blank() -> None:
    file = BytesIO(b'\xef\xbb\xbf{"a": 1}\r\n\n  \t\n\xef\xbb\xbf\n{"b": 2}')
    assert list(numbered_lines(file)) == [(1, b'{"a": 1}'), (4, b"\xef\xbb\xbf"), (5, b'{"b": 2}')]
    assert list(numbered_lines(BytesIO(b"\xef\xbb\xbf\n"))) == []


@pytest.mark.parametrize("kind", [DataError, TextError])
def test_a_fault_is_told_with_its_place_and_what_to_do(kind: type[DataError | TextError]) -> None:
    with pytest.raises(DataError, match=r"^a\.jsonl, line 3: it is odd$") as told, told_with("a.jsonl, line 3"):
        raise kind("it is odd", hint="make it even")
    assert told.value.hint == "make it even"
