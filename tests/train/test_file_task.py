"""Files of training data as tasks: what is asked, what is right, and what cannot be asked."""

import base64
import json
import random
from pathlib import Path
from typing import Any

import pytest
from engine.seeing import png
from engine.tiny import reciter

from gesso.engine.engine import Engine
from gesso.errors import ContextLengthError, DataError, ImageError, OptionError, PromptLengthError, UserError
from gesso.tasks.base import messages_of
from gesso.train.data_config import FileDataConfig
from gesso.train.data_encoder import DataEncoder
from gesso.train.data_lines import LineReader
from gesso.train.evaluate import evaluate, example_request
from gesso.train.file_task import FileTask

USER, MODEL = {"role": "user", "content": "Repeat: fig"}, {"role": "assistant", "content": "fig"}
SYSTEM = {"role": "system", "content": "Be short."}
CALL = {"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]}
IMAGE = {"role": "user", "content": [{"type": "text", "text": "?"}, {"type": "image", "path": "a.png"}]}


def task(folder: Path, *lines: Any) -> FileTask:
    path = folder / "data.jsonl"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), "utf-8")
    return FileTask(path)


def test_lines_are_asked_as_they_are_trained_on(tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "clock"}}
    found = task(
        tmp_path,
        {"prompt": "Sort: b, a", "completion": "a, b", "messages": None},
        "",
        {"messages": [{"role": "system", "content": "Be short."}, USER, MODEL, USER, MODEL], "tools": [tool]},
        {"prompt": [USER], "completion": [MODEL]},
    )
    first, chat, pair = found.examples
    assert (first.prompt, first.answer, first.task) == ("Sort: b, a", "a, b", "data.jsonl")
    assert [(said["role"], said["content"]) for said in messages_of(chat)] == [
        ("system", "Be short."), ("user", "Repeat: fig"), ("assistant", "fig"), ("user", "Repeat: fig"),
    ]  # fmt: skip
    assert json.loads(chat.tools[0])["function"]["name"] == "clock"
    assert (pair.prompt, pair.answer) == ("Repeat: fig", "fig")
    assert found.sample(random.Random(0)) in found.examples


def test_right_is_the_line_s_answer_or_the_same_json(tmp_path: Path) -> None:
    found = task(tmp_path, {"prompt": "a", "completion": '{"a": 1, "b": [2]}'}, {"prompt": "b", "completion": " 7\n"})
    objects, number = found.examples
    assert found.grade(objects, '{"b":[2],"a":1}')
    assert not found.grade(objects, '{"b":[2],"a":true}')
    assert not found.grade(objects, '{"b":[2]}')
    assert not found.grade(objects, "[" * 100_000)
    assert found.grade(number, "7 ")
    assert not found.grade(number, "7.0")


def test_some_are_drawn_by_the_seed_and_none_twice(tmp_path: Path) -> None:
    found = task(tmp_path, *({"prompt": f"p{i}", "completion": "x"} for i in range(20)))
    assert found.chosen(None, 0) == found.chosen(99, 1) == list(found.examples)
    assert found.chosen(5, 0) == found.chosen(5, 0) != found.chosen(5, 1)
    assert len({example.prompt for example in found.chosen(15, 3)}) == 15


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"text": "a book"}, "a line is asked that has prompt and completion, or messages"),
        ({"prompt": "a"}, "a line is asked that has prompt and completion, or messages"),
        ({"prompt": " ", "completion": "b"}, "prompt is empty"),
        ({"messages": [{"role": "user", "content": " "}, MODEL]}, "the prompt is blank"),
        ({"messages": [MODEL]}, "messages must be a list: what is asked, and an answer at its end"),
        ({"messages": [USER, MODEL, USER]}, "the user's and the model's by turns, with an answer at the end"),
        ({"messages": [MODEL, MODEL]}, "the user's and the model's by turns"),
        ({"messages": [USER, CALL]}, "message 2: calls of functions are not compared"),
        ({"messages": [SYSTEM, IMAGE, MODEL]}, "message 2: image '.*a.png' cannot be read: No such file or directory"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image"}]}, MODEL]},
            "message 1: an image names no file: it is written",
        ),
        ({"messages": [USER, {"role": "bot", "content": "x"}]}, "message 2: unknown role 'bot'"),
        ({"prompt": [USER, {"content": "x"}], "completion": [MODEL]}, "message 2: unknown role None"),
        ("{", ""),
    ],
)
def test_what_cannot_be_asked_is_told_by_its_line(tmp_path: Path, line: Any, message: str) -> None:
    with pytest.raises(DataError, match=rf"data\.jsonl:2: .*{message}"):
        task(tmp_path, {"prompt": "a", "completion": "b"}, line)


def test_no_file_and_no_line(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="cannot be read: No such file") as error:
        FileTask(tmp_path / "none.jsonl")
    assert error.value.option == "data"
    with pytest.raises(DataError, match="is empty: it has no line to ask"):
        task(tmp_path, "")


def shows(*parts: Any, role: str = "user") -> dict[str, Any]:
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"role": role, "content": content}


def test_images_are_asked_about_where_they_stand_as_training_reads_them(seeing: Engine, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(0))
    file, url = {"type": "image", "path": "a.png"}, f"data:image/png;base64,{base64.b64encode(png(1)).decode()}"
    chat = [
        shows("Look: ", {**file, "budget": 140}, role="system"),
        shows("What is ", file, "?"),
        {"role": "assistant", "content": "a fig"},
        shows({"type": "image_url", "image_url": {"url": url}}),
        {"role": "assistant", "content": "a pear"},
    ]
    found = task(tmp_path, {"messages": chat})
    (example,) = found.examples
    assert (example.prompt, example.answer, example.history) == ("", "a pear", ("What is ?", "a fig"))
    request = example_request(example, {"image_budget": 70})
    asked = seeing.start(request).prompt
    encoder = DataEncoder(
        seeing.tokenizer,
        seeing.template,
        seeing.config,
        seeing.defaults.eos_token_ids,
        FileDataConfig(max_length=1000, image_budget=70),
        seeing.runner.vision,
    )
    record = LineReader(encoder).read(json.dumps({"messages": chat}).encode(), tmp_path)
    trained = record.conversation(record.parts[-1])
    assert list(asked.ids) == list(trained.prompt)
    assert list(asked.spans) == list(trained.images)
    assert len(asked.spans) == 3
    measured = evaluate(seeing, tmp_path / "data.jsonl", image_budget=70, max_new_tokens=4)
    assert measured.examples == 1


def test_a_line_that_a_model_cannot_be_asked_is_named(seeing: Engine, tmp_path: Path) -> None:
    blind, path = reciter("pear"), tmp_path / "data.jsonl"
    short = {"prompt": "a", "completion": "b"}
    (tmp_path / "a.png").write_bytes(b"no picture")

    def refused(engine: Engine, kind: type[UserError], line: Any, **options: Any) -> str:
        task(tmp_path, short, line)
        with pytest.raises(kind) as error:
            evaluate(engine, path, **options)
        return str(error.value)

    pair = {"messages": [IMAGE, MODEL]}
    assert refused(blind, DataError, pair).startswith(f"{path}:2: the line shows an image, and this model reads text")
    assert refused(seeing, ImageError, pair).startswith(f"{path}:2: ")
    long = {**short, "prompt": "a " * blind.runner.max_model_len}
    assert refused(blind, PromptLengthError, long).startswith(f"{path}:2: the prompt ")
    assert refused(blind, ContextLengthError, short, max_new_tokens=10**5).startswith(f"{path}:1: ")
    # An option that is wrong for every line is no line's fault.
    assert refused(blind, OptionError, short, temperature=9.0).startswith("temperature must be")
