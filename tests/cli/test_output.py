"""JSON and texts on a standard output of any encoding."""

import io
import json
import sys

import pytest

from gesso.cli.output import print_anything, print_json

TEXT = "fig \u4e2d \xe9 \U0001f600 \N{MIDDLE DOT}"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "UTF-8", "utf-16"])
def test_json_is_json_in_every_encoding(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, encoding=encoding))
    print_json({"text": TEXT})
    sys.stdout.flush()
    written = buffer.getvalue().decode(encoding)
    assert json.loads(written) == {"text": TEXT}
    assert (TEXT in written) == encoding.lower().startswith("utf")


def test_what_an_encoding_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, encoding="latin-1", errors="strict"))
    print_anything()
    sys.stdout.write(TEXT + "\ud800\n")
    sys.stdout.flush()
    assert buffer.getvalue() == b"fig \\u4e2d \xe9 \\U0001f600 \xb7\\ud800\n"


@pytest.mark.parametrize("stdout", [None, io.StringIO()])
def test_a_stdout_that_cannot_be_set_up_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, stdout: io.StringIO | None
) -> None:
    monkeypatch.setattr(sys, "stdout", stdout)
    print_anything()
    assert sys.stdout is stdout
