"""Lines of a batch's input and of its answers."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gesso.batch.lines import Answer, answer_line, error_line, read_line, refuse_duplicates, requests_of, scan
from gesso.errors import DataError


def request(custom_id: str = "a", **changes: Any) -> dict[str, Any]:
    given = {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": {"model": "mini"}}
    return {**given, **changes}


@pytest.mark.parametrize(
    ("line", "code", "custom_id"),
    [
        ("{", "invalid_json_line", None),
        ("[1]", "invalid_json_line", None),
        ('{"custom_id": NaN}', "invalid_json_line", None),
        ("[" * 100_000, "invalid_json_line", None),
        ('{"custom_id": "a", "custom_id": "b"}', "invalid_json_line", None),
        (json.dumps(request())[:-2] + ', "seed": 1, "seed": 1}}', "invalid_json_line", None),
        (json.dumps(request(custom_id="")), "invalid_custom_id", None),
        (json.dumps({"method": "POST"}), "invalid_custom_id", None),
        (json.dumps(request(method="GET")), "invalid_method", "a"),
        (json.dumps(request(url="v1/x")), "invalid_url", "a"),
        (json.dumps(request(url="/v1/batches")), "invalid_url", "a"),
        (json.dumps(request(url="/v1/fill\t")), "invalid_url", "a"),
        (json.dumps(request(url="/v1/\ud800")), "invalid_url", "a"),
        (json.dumps(request(url="/v1/" + "x" * 2048)), "invalid_url", "a"),
        (json.dumps(request(url="/v1/fill")), "mismatched_url", "a"),
        (json.dumps(request(body=[])), "invalid_body", "a"),
        (json.dumps(request(body={"stream": True})), "stream_not_supported", "a"),
        (json.dumps(request(priority=1)), "unknown_field", "a"),
    ],
)
def test_bad_lines_say_why(line: str, code: str, custom_id: str | None) -> None:
    read = read_line(7, line.encode(), "/v1/chat/completions")
    assert read.problem is not None
    assert (read.problem.code, read.custom_id) == (code, custom_id)
    assert read.problem.message.startswith("line 7: ")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"a": 1,}', r"line 7: is no JSON: .*, column 9"),
        (b'{"custom_id": NaN}', "line 7: is no JSON: NaN is no JSON"),
        (b'{"a": "\xff"}', "line 7: is no UTF-8 \\(byte 8\\)"),
        (b"\xff\xfe{\x00}\x00", "line 7: is no UTF-8 \\(byte 1\\)"),
        (b"[" * 100_000, "line 7: is nested too deeply to be read"),
        (b'{"url": 1, "body": {}, "body": {}}', "line 7: the key 'body' stands twice in one object"),
    ],
)
def test_what_is_no_json_is_told_by_its_place_in_the_line(raw: bytes, message: str) -> None:
    problem = read_line(7, raw).problem
    assert problem is not None
    assert re.fullmatch(message, problem.message)


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(request()) + "\n", encoding="utf-8-sig")
    (read,) = requests_of(path)
    assert (read.problem, read.custom_id) == (None, "a")


def test_a_scan_counts_what_cannot_be_asked_and_tells_the_first(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in (request(), {"messages": []}, request(url="x"))) + "\n")
    scanned = scan(path)
    assert scanned.problem is not None
    assert (scanned.lines, scanned.bad) == (3, 2)
    assert scanned.problem.message == "line 2: custom_id must be a text of 1 to 512 characters"


def test_a_good_line() -> None:
    read = read_line(1, json.dumps(request("é")).encode())
    assert (read.problem, read.custom_id, read.url, read.body) == (None, "é", "/v1/chat/completions", {"model": "mini"})


def test_a_scan_tells_duplicates_by_name(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(json.dumps(request(name)) for name in ("a", "b", "a", "b")) + "\n\n")
    scanned = scan(path)
    assert scanned.lines == 4
    with pytest.raises(DataError, match="custom_id 'a' stands on line 1 and on line 3"):
        refuse_duplicates(scanned, "in.jsonl")


def test_blank_lines_count_for_numbers_only(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(f"\n{json.dumps(request('a'))}\n \n{json.dumps(request('b'))}")
    assert [(read.number, read.custom_id) for read in requests_of(path)] == [(2, "a"), (4, "b")]
    scanned = scan(path)
    assert (scanned.lines, scanned.bad, scanned.problem, scanned.duplicate) == (2, 0, None, None)
    assert scanned.identity(2) != scanned.identity(4)


def test_lines_that_are_done_are_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("{nonsense\n\n[]\n{more\n")
    assert [request.number for request in requests_of(path, done=lambda number: number in (1, 2))] == [3, 4]


def test_a_line_of_just_the_most_bytes_takes_nothing_from_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = json.dumps(request())
    longest = len(good)
    monkeypatch.setattr("gesso.batch.lines.MAX_LINE_BYTES", longest)
    path = tmp_path / "in.jsonl"
    for fill in range(-1, 3):
        path.write_text(f"{good[:-1]}{' ' * fill}}}\n{good}\n{good}", "utf-8")
        problems = [request.problem and request.problem.code for request in requests_of(path)]
        assert problems == ["line_too_long" if fill > 0 else None, None, None]


def test_ids_are_of_the_input(tmp_path: Path) -> None:
    (one, other) = (tmp_path / "1", tmp_path / "2")
    one.write_text(json.dumps(request("a")))
    other.write_text(json.dumps(request("b")))
    assert scan(one).identity(1) == scan(one).identity(1) != scan(other).identity(1)


def test_lines_of_answers_have_openais_fields() -> None:
    read = read_line(1, json.dumps(request()).encode())
    line = json.loads(answer_line("i", read, Answer(200, "req_1", {"x": "\u2028"})))
    assert line == {
        "id": "i",
        "custom_id": "a",
        "response": {"status_code": 200, "request_id": "req_1", "body": {"x": "\u2028"}},
        "error": None,
    }
    assert json.loads(error_line("i", read, "batch_expired", "late")) == {
        "id": "i",
        "custom_id": "a",
        "response": None,
        "error": {"code": "batch_expired", "message": "late"},
    }
