"""JSON and texts on a standard output of any encoding."""

import io
import json
import sys

import pytest
from rich.console import Console
from rich.table import Table

from gesso.cli.output import NARROWEST, print_anything, print_json, print_table

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


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_json_of_a_name_that_is_no_text_is_ascii(monkeypatch: pytest.MonkeyPatch, errors: str) -> None:
    """A name may hold bytes that are no UTF-8, which Python reads as half characters."""
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, encoding="utf-8", errors=errors))
    print_json({"text": "caf\udce9"})
    sys.stdout.flush()
    assert json.loads(buffer.getvalue().decode("ascii")) == {"text": "caf\udce9"}


@pytest.mark.parametrize("width", [5, 20, 40, NARROWEST - 1, NARROWEST, 200])
def test_a_narrow_terminal_loses_no_cell(width: int) -> None:
    console = Console(width=width, file=io.StringIO())
    table = Table(box=None, pad_edge=False)
    table.add_column("model", overflow="fold")
    for head in ("size", "parameters", "context", "canvas"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_row("skills", "21.3 MB", "10.6 M", "4,096", "64")
    print_table(console, table)
    assert isinstance(console.file, io.StringIO)
    heads, row = console.file.getvalue().splitlines()
    assert heads.split() == ["model", "size", "parameters", "context", "canvas"]
    assert row.split() == ["skills", "21.3", "MB", "10.6", "M", "4,096", "64"]
    assert console.width == width


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
