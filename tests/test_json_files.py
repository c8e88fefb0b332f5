"""JSON that comes from elsewhere: whatever stands in it, one clear error."""

import json
from pathlib import Path

import pytest

from gesso.errors import CheckpointError
from gesso.json_files import MAX_DEPTH, read_json


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000 + "]" * 100_000, "is nested deeper than 64 levels"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "is nested deeper than 64 levels"),
        ('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), "is nested deeper than 64 levels"),
        ('{"a": ' + "9" * 5000 + "}", "is no JSON: Exceeds the limit"),
        ("{", "is no JSON"),
        ("[]", "holds no JSON object"),
    ],
)
def test_what_is_no_plain_object_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=rf"config\.json {said}"):
        read_json(tmp_path / "config.json")


def test_bytes_that_are_no_text_and_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"^config\.json is missing in"):
        read_json(tmp_path / "config.json")
    (tmp_path / "config.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(CheckpointError, match="is no JSON"):
        read_json(tmp_path / "config.json")


def test_what_is_deep_enough_is_read(tmp_path: Path) -> None:
    value: dict[str, object] = {}
    for level in range(MAX_DEPTH - 1):
        value = {"a": value, "b": [level]}
    (tmp_path / "config.json").write_text(json.dumps(value))
    assert read_json(tmp_path / "config.json") == value
