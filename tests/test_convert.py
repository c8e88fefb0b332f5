"""`examples/convert.py` turns data of other formats into lines that training takes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from train.test_file_data import open_data

SCRIPT = Path(__file__).parent.parent / "examples" / "convert.py"
HI = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "x"}]
SAID = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "x"}]


def convert(*files: Path | str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *files],
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    "row",
    [
        {"instruction": "hi", "input": "", "output": "x"},
        {"conversations": SAID},
        {"conversations": HI, "source": "somewhere"},
        {"messages": HI, "source": "somewhere"},
        {"prompt": HI[:1], "completion": HI[1:]},
        {"question": "hi", "answer": "x", "id": 5},
        {"prompt": "hi", "response": "x"},
    ],
)
def test_a_row_becomes_a_chat(tmp_path: Path, row: dict[str, object]) -> None:
    path, out = tmp_path / "rows.json", tmp_path / "data.jsonl"
    path.write_text(json.dumps([row, row]), "utf-8")
    out.write_text(convert(path).stdout, "utf-8")
    assert [json.loads(line) for line in out.read_text("utf-8").splitlines()] == [{"messages": HI}] * 2
    assert open_data([out]).report.examples == 2


def test_instruction_and_system_message(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"system": "s", "instruction": "a", "input": "b", "output": "c"}) + "\n", "utf-8")
    messages = json.loads(convert(path).stdout)["messages"]
    assert [(m["role"], m["content"]) for m in messages] == [("system", "s"), ("user", "a\n\nb"), ("assistant", "c")]


@pytest.mark.parametrize(
    ("row", "asked"),
    [
        ({"instruction": "hi", "context": "it", "response": "x", "category": "qa"}, "hi\n\nit"),
        ({"instruction": "hi", "context": "", "response": "x", "category": "qa"}, "hi"),
        ({"instruction": "hi", "input": "this", "context": "it", "output": "x", "category": "qa"}, "hi\n\nthis\n\nit"),
        ({"question": "hi", "context": "it", "answer": "x", "category": "qa"}, "hi\n\nit"),
    ],
)
def test_what_a_question_is_about_stands_behind_it(tmp_path: Path, row: dict[str, str], asked: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n", "utf-8")
    ended = convert(path)
    assert json.loads(ended.stdout) == {"messages": [{"role": "user", "content": asked}, HI[1]]}
    assert ended.stderr == "columns that are not used: category\n"
    path.write_text(json.dumps(row | {"context": {"title": "it"}}) + "\n", "utf-8")
    assert "context is {'title': 'it'}, no text" in convert(path).stderr


def test_of_messages_as_prompt_and_completion_the_completion_is_learned(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = {"system": "s", "prompt": [*HI, HI[0]], "completion": [HI[1]], "tools": '[{"name": "f"}]'}
    path.write_text(json.dumps(row) + "\n", "utf-8")
    line = json.loads(convert(path).stdout)
    assert [(m["role"], m.get("weight")) for m in line["messages"]] == [
        ("system", None),
        *(("user", None), ("assistant", 0), ("user", None), ("assistant", None)),
    ]
    assert line["tools"] == row["tools"]
    path.write_text(json.dumps(line) + "\n", "utf-8")
    assert open_data([path]).report.examples == 1


def test_tables(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('\ufeffprompt,completion\nhi,"a\nb"\n', "utf-8")
    assert json.loads(convert(path).stdout)["messages"][1]["content"] == "a\nb"


def test_a_head_of_several_lines_is_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('prompt,completion,"further\nnotes"\nhi,x,5\nhi,\n', "utf-8")
    ended = convert(path)
    assert [said["content"] for said in json.loads(ended.stdout)["messages"]] == ["hi", "x"]
    assert ended.stderr.startswith(f"{path}, line 4: completion is empty")


@pytest.mark.parametrize("open_quote", ['hi,"a\nhi,b\nhi,c\n', 'hi,"a" b\n'])
def test_a_quote_that_takes_the_next_rows_into_an_answer_is_refused(tmp_path: Path, open_quote: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"prompt,completion\nhi,x\n{open_quote}", "utf-8")
    ended = convert(path, "--skip")
    assert (ended.returncode, len(ended.stdout.splitlines())) == (1, 1)
    assert ended.stderr.startswith(f"{path}, line 3: ")
    assert ended.stderr.endswith(": a text in quotes ends with one, and doubles those in it\n")


def test_plain_text_is_cut_between_paragraphs(tmp_path: Path) -> None:
    text = "\n\n".join(f"Zürich {i} " + "z" * (300 if i % 7 else 5000) for i in range(60)) + "\n"
    path, out = tmp_path / "book.md", tmp_path / "data.jsonl"
    path.write_text(text, "utf-8")
    out.write_text(convert(path).stdout, "utf-8")
    found = [json.loads(line)["text"] for line in out.read_text("utf-8").splitlines()]
    assert "".join(found) == text
    assert len(found) > 10
    assert all(len(piece) < 5100 + 4000 for piece in found)


def test_rows_that_are_not_known_are_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    for row, what in (
        ({"colour": "red"}, "holds colour, which is no format that is known here"),
        ({"conversations": [{"from": "tool", "value": "x"}]}, "a turn is from 'tool'; known: system, human"),
    ):
        path.write_text(json.dumps(row), "utf-8")
        ended = convert(path)
        assert ended.returncode == 1
        assert ended.stderr.startswith(f"{path}, line 1: {what}")


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("rows.json", None, " cannot be read: "),
        ("rows.json", b"[", ", no JSON: "),
        ("rows.json", b'["text"]', ", row 1: is no object of named columns"),
        ("rows.jsonl", b'{"text": "a"}\n\n{', ", line 3: no JSON: "),
        ("rows.csv", b"text\n\xe4\n", ", line 2: no UTF-8 (byte 1)"),
        ("book.txt", b"a\n\n\xe4", ", line 3: no UTF-8 (byte 1)"),
        ("rows.parquet", b"PAR1", " cannot be read: "),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path: Path, name: str, content: bytes | None, what: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    ended = convert(path)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"{path}{what}")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"prompt": "x", "completion": "bad", "label": False}, "label says which answers are good"),
        ({"prompt": "x", "chosen": "a", "rejected": "b"}, "chosen says which answers are good"),
        ({"instruction": "a", "input": "", "output": ""}, "output is empty"),
        ({"question": "", "answer": "b"}, "question is empty"),
        ({"question": "q", "answer": 5}, "answer is 5, no text"),
        ({"question": ["q"], "answer": "a"}, "question is ['q'], no text"),
        ({"messages": "hi"}, "messages is 'hi', no list"),
        ({"conversations": ["hi"]}, "a turn is from 'hi'"),
        ({"conversations": [SAID[0], SAID[1] | {"train": False}]}, "train of a turn says whether it is learned"),
        ({"conversations": [SAID[0], SAID[1] | {"loss": True}]}, "loss of a turn says whether it is learned"),
        ({"conversations": [SAID[0], SAID[1] | {"weight": 0.5}]}, "weight 0.5 of a turn from gpt: answers have 0 or 1"),
        ({"conversations": [SAID[0] | {"weight": 1}, SAID[1]]}, "weight 1 of a turn from human: answers have 0 or 1"),
        ({"conversations": [SAID[0], SAID[1] | {"weight": 0}]}, "has no answer to learn"),
        ({"conversations": [*SAID, SAID[0], SAID[1] | {"value": " "}]}, "an answer is empty"),
        ({"conversations": []}, "has no answer to learn"),
        ({"messages": HI[:1]}, "has no answer to learn"),
        ({"messages": [HI[0], "x"]}, "messages holds 'x', no message with a role"),
        ({"prompt": HI[:1], "completion": [HI[1] | {"content": None}]}, "an answer is empty"),
        (
            {"prompt": [{"content": "hi"}], "completion": HI[1:]},
            "prompt holds {'content': 'hi'}, no message with a role",
        ),
        ({"question": "q", "answer": "\n"}, "an answer is empty"),
        ({"instruction": "a", "output": "b", "history": [["q"]]}, "history holds ['q'], no list of a question and its"),
        (
            {"instruction": "a", "output": "b", "history": "q"},
            "history holds 'q', no list of a question and its answer",
        ),
    ],
)
def test_what_would_be_learned_wrongly_is_refused_or_left_out(tmp_path: Path, row: object, what: str) -> None:
    path = tmp_path / "rows.jsonl"
    good = {"prompt": "hi", "completion": "x"}
    path.write_text("".join(json.dumps(each) + "\n" for each in (good, row, good)), "utf-8")
    ended = convert(path)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"{path}, line 2: {what}")
    assert "Traceback" not in ended.stderr
    ended = convert(path, "--skip")
    assert (ended.returncode, ended.stdout) == (0, (json.dumps({"messages": HI}) + "\n") * 2)
    assert ended.stderr.startswith(f"{path}, line 2: {what}")
    assert ended.stderr.endswith("left out\n1 row left out\n")


def test_what_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    for line in (
        '{"prompt": "a", "completion": "b", "completion": "c"}',
        '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "completion": "b", "completion": "c"}]}',
    ):
        path.write_text(f'{{"text": "a"}}\n{line}\n', "utf-8")
        assert convert(path).stderr.startswith(f"{path}, line 2: the key 'completion' stands twice in one object")
    path = tmp_path / "rows.json"
    path.write_text(f'[{{"text": "a"}}, {line}]', "utf-8")
    assert convert(path).stderr.startswith(f"{path}, row 2: the key 'completion' stands twice in one object")
    path = tmp_path / "rows.csv"
    path.write_text("prompt,completion,completion\na,b,c\n", "utf-8")
    ended = convert(path)
    assert (ended.returncode, ended.stderr) == (1, f"{path}, line 1: the column 'completion' stands twice\n")


def test_a_comma_that_no_column_has_room_for_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('prompt,completion\nhi,"Hello, friend"\nhi,Hello, friend\nhi,x,\n', "utf-8")
    ended = convert(path)
    assert ended.stderr.startswith(f"{path}, line 3: has more values than there are columns")
    ended = convert(path, "--skip")
    answers = [json.loads(line)["messages"][1]["content"] for line in ended.stdout.splitlines()]
    assert (answers, ended.stderr.endswith("left out\n1 row left out\n")) == (["Hello, friend", "x"], True)


def test_the_weight_of_a_turn_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    turns = [SAID[0] | {"weight": 0}, SAID[1] | {"weight": 0}, SAID[0], SAID[1] | {"weight": 1}, *SAID]
    path.write_text(json.dumps({"conversations": turns}) + "\n", "utf-8")
    path.write_text(convert(path).stdout, "utf-8")
    messages = json.loads(path.read_text("utf-8"))["messages"]
    assert [message.get("weight") for message in messages] == [None, 0, None, 1, None, None]
    assert open_data([path]).report.examples == 2


def test_texts_of_other_systems_are_the_same_texts(tmp_path: Path) -> None:
    text = "\n\n".join(f"Zürich {i} " + "z" * 900 for i in range(20)) + "\n"
    path, found = tmp_path / "book.md", []
    for end in ("\n", "\r\n", "\r"):
        path.write_text(text, "utf-8", newline=end)
        found.append(convert(path, PYTHONIOENCODING="cp1252").stdout)  # as on Windows
    assert found[0].count("\n") > 3
    assert found == found[:1] * 3


def test_an_output_that_takes_no_more_is_named(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        return
    path = tmp_path / "rows.jsonl"
    for lines in (1, 10_000):
        path.write_text('{"text": "a"}\n' * lines, "utf-8")
        with Path("/dev/full").open("w") as full:
            ended = subprocess.run([sys.executable, SCRIPT, path], stdout=full, stderr=subprocess.PIPE, check=False)
        assert (ended.returncode, ended.stderr) == (1, b"standard output cannot be written: No space left on device\n")


def test_what_training_uses_is_kept_and_other_columns_are_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [
        {"prompt": "x", "completion": "y", "source": "z", "id": 1},
        {"conversations": [SAID[0] | {"at": 5}, SAID[1]], "tools": "[]", "score": 3},
        {"instruction": "a", "output": "b", "history": [["q", "r"]], "id": 2},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    ended = convert(path)
    first, second, third = map(json.loads, ended.stdout.splitlines())
    assert (first["source"], second["tools"]) == ("z", "[]")
    assert [said["content"] for said in third["messages"]] == ["q", "r", "a", "b"]
    assert ended.stderr == "columns that are not used: id, score, conversations.at\n"


@pytest.mark.parametrize("between", [",", ";", "\t"])
def test_tables_as_spreadsheets_write_them(tmp_path: Path, between: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"\ufeffquestion{between}answer\r\nhi{between}x\r\nhi{between}\r\n", "utf-8")
    ended = convert(path)
    assert ended.stdout == json.dumps({"messages": HI}) + "\n"
    assert ended.stderr.startswith(f"{path}, line 3: answer is empty")


def test_without_files_it_says_what_it_wants() -> None:
    ended = convert()
    assert ended.returncode == 2
    assert ended.stderr.startswith("usage: convert.py")
