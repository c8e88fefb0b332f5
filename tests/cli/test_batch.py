"""`gesso batch` over the bundled model."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Gesso
from gesso.batch import lines


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(path: Path, *requests: dict[str, Any] | str) -> Path:
    path.write_text("".join((text if isinstance(text, str) else json.dumps(text)) + "\n" for text in requests))
    return path


def request(custom_id: str, url: str, **body: Any) -> dict[str, Any]:
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": {"model": "mini", **body}}


def chat(number: int) -> dict[str, Any]:
    question = [{"role": "user", "content": f"What is {number} + 9?"}]
    return request(f"chat{number}", "/v1/chat/completions", seed=number, max_tokens=16, messages=question)


ALL = [
    *(chat(number) for number in range(4)),
    request("fill", "/v1/fill", text="1 + 1 = {{ }}", seed=1),
    request("message", "/v1/messages", messages=[{"role": "user", "content": "What is 2 + 2?"}], max_tokens=16, seed=1),
    request("ollama", "/api/generate", prompt="What is 2 + 2?", stream=False, options={"seed": 1}),
    request("streaming", "/api/generate", prompt="What is 2 + 2?", options={"seed": 1, "num_predict": 8}),
    request("wrong", "/v1/chat/completions", messages=[], seed=1),
    request("nowhere", "/v1/nothing"),
    "{nonsense",
]


def texts(path: Path) -> dict[str, Any]:
    """What was answered, without what differs from run to run."""
    said: dict[str, Any] = {}
    for line in lines_of(path):
        response = line["response"]
        body = {} if response is None else response["body"]
        text = [body.get(name) for name in ("text", "content", "response")]
        text += [choice["message"]["content"] for choice in body.get("choices", ())]
        said[line["id"]] = (line["custom_id"], response and response["status_code"], line["error"], text)
    return said


def test_what_was_killed_goes_on_with_equal_texts(gesso: Gesso, tmp_path: Path) -> None:
    """Any endpoint; a file that ends in the middle of a line is what `kill -9` leaves."""
    source, out = written(tmp_path / "in.jsonl", *ALL), tmp_path / "out.jsonl"
    outcome = gesso("batch", source, "--out", out, "--device", "cpu", "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out) == {"lines": 11, "answered": 11, "failed": 4, "resumed": 0}
    assert f"{source}: 1 of 11 lines cannot be asked: line 11: is no JSON: " in outcome.err
    told = {line["custom_id"]: line for line in lines_of(out)}
    assert set(told) == {line["custom_id"] for line in ALL if isinstance(line, dict)} | {None}
    assert told["chat3"]["response"]["body"]["choices"][0]["message"]["content"]
    assert {name for name, line in told.items() if line["error"]} == {None}
    assert told[None]["error"]["code"] == "invalid_json_line"
    assert told["streaming"]["response"]["body"]["error"]["code"] == "no_json"
    assert [told[name]["response"]["status_code"] for name in ("wrong", "nowhere")] == [400, 404]

    undisturbed, whole = texts(out), out.read_bytes()
    out.write_bytes(whole[: len(whole) * 2 // 3])
    there = out.read_bytes().count(b"\n")
    outcome = gesso("batch", source, "--out", out, "--device", "cpu", "--workers", "2", "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out) == {"lines": 11, "answered": 11, "failed": 4, "resumed": there}
    assert len(lines_of(out)) == 11
    assert texts(out) == undisturbed
    assert gesso("batch", source, "--out", out).code == 0
    refused = gesso("batch", source, "--out", out, "--model", "other")
    assert (refused.code, "another model" in refused.err) == (2, True)


def test_an_id_that_stands_twice_is_named(gesso: Gesso, tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", chat(1), chat(2), chat(1))
    outcome = gesso("batch", source, "--out", tmp_path / "out.jsonl")
    assert outcome.code == 2
    assert "custom_id 'chat1' stands on line 1 and on line 3" in outcome.err
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "0"], "--workers must be an integer of at least 1"),
        (["--max-num-seqs", "0"], "--max-num-seqs must be an integer of at least 1, got 0"),
        (
            ["--server", "http://127.0.0.1:1", "--max-num-seqs", "-3"],
            "--max-num-seqs must be an integer of at least 1, got -3",
        ),
        (["--out", "."], ". is a folder"),
        (["--server", "http://127.0.0.1:1", "--adapter", "a=b"], "--server has its own model"),
        (["--server", "nowhere"], "is no address"),
        (["--kv-memory", "lots"], "--kv-memory takes a size"),
        (["--tensor-parallel", "3"], "4 attention heads cannot be cut into 3 equal parts"),
        (["--server", "http://127.0.0.1:9", "--pipeline-parallel", "2"], "--server has its own model"),
    ],
)
def test_mistakes_are_told(gesso: Gesso, tmp_path: Path, arguments: list[str], message: str) -> None:
    source = written(tmp_path / "in.jsonl", chat(1))
    out = () if "--out" in arguments else ("--out", tmp_path / "out.jsonl")
    outcome = gesso("batch", source, *out, *arguments)
    assert outcome.code == 2
    assert message in outcome.err


def test_an_input_without_requests_is_refused_and_leaves_nothing(gesso: Gesso, tmp_path: Path) -> None:
    empty = written(tmp_path / "in.jsonl", "", " ")
    outcome = gesso("batch", empty, "--out", tmp_path / "out.jsonl")
    assert (outcome.code, outcome.err) == (2, f"gesso: {empty} holds no request\n")
    assert list(tmp_path.iterdir()) == [empty]


def test_the_input_is_not_written_over(gesso: Gesso, tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", chat(1))
    assert "must not be the input" in gesso("batch", source, "--out", source).err
    assert gesso("batch", tmp_path / "none", "--out", tmp_path / "out").code == 2


def test_a_mistyped_model_leaves_the_output_to_the_right_one(gesso: Gesso, tmp_path: Path) -> None:
    source, out = written(tmp_path / "in.jsonl", chat(1), "{nonsense"), tmp_path / "out.jsonl"
    refused = gesso("batch", source, "--out", out, "--model", "min")
    assert (refused.code, refused.err.count("no model 'min'")) == (2, 1)
    assert "goes on" not in refused.err
    outcome = gesso("batch", source, "--out", out, "--device", "cpu")
    assert outcome.code == 0, outcome.err
    assert len(lines_of(out)) == 2


def test_errors_alone_are_no_success(gesso: Gesso, tmp_path: Path) -> None:
    source, out = written(tmp_path / "in.jsonl", "{nonsense", request("nowhere", "/v1/nothing")), tmp_path / "out.jsonl"
    for _ in range(2):  # whose second time finds all lines answered
        outcome = gesso("batch", source, "--out", out, "--device", "cpu", "--json")
        counts = json.loads(outcome.out)
        assert (outcome.code, counts["answered"], counts["failed"]) == (1, 2, 2)


def test_lines_that_got_an_error_are_asked_again_where_that_is_wanted(gesso: Gesso, tmp_path: Path) -> None:
    source, out = written(tmp_path / "in.jsonl", chat(1), chat(2), "{nonsense"), tmp_path / "out.jsonl"
    assert gesso("batch", source, "--out", out, "--device", "cpu", "--retry-errors").code == 0
    whole = texts(out)
    answers = lines_of(out)
    answers[-1]["response"] |= {"status_code": 500, "body": {"error": {"message": "out of memory"}}}
    written(out, *answers)
    kept = gesso("batch", source, "--out", out, "--device", "cpu", "--json")
    assert json.loads(kept.out) == {"lines": 3, "answered": 3, "failed": 2, "resumed": 3}
    outcome = gesso("batch", source, "--out", out, "--device", "cpu", "--json", "--retry-errors")
    assert json.loads(outcome.out) == {"lines": 3, "answered": 3, "failed": 1, "resumed": 2}
    assert f"{out}: 1 of 3 lines got an error and are asked again" in outcome.err
    assert (len(lines_of(out)), texts(out)) == (3, whole)


def test_a_pipe_is_refused_unread(gesso: Gesso, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    outcome = gesso("batch", pipe, "--out", tmp_path / "out.jsonl")
    assert (outcome.code, outcome.err) == (2, f"gesso: {pipe} is read twice: it must be a file\n")
    assert gesso("batch", tmp_path, "--out", tmp_path / "out.jsonl").err == f"gesso: {tmp_path}: Is a directory\n"
    assert not (tmp_path / "out.jsonl").exists()


def test_lines_without_an_answer_are_no_success(gesso: Gesso, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An input that is shorter when it is read again."""
    source, out = written(tmp_path / "in.jsonl", "{nonsense", "{more"), tmp_path / "out.jsonl"
    whole = lines.requests_of
    monkeypatch.setattr(lines, "requests_of", lambda file, done: list(whole(file, done=done))[:1])
    outcome = gesso("batch", source, "--out", out, "--device", "cpu")
    assert (outcome.code, outcome.out) == (1, "")
    assert f"{source} was changed meanwhile: 1 of 2 lines are answered" in outcome.err
