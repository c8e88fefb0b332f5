"""Training data with images: files beside the data, data URLs, places, and everything that is refused by name."""

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from engine.seeing import make_seeing_folder, picture, png

from gesso.engine.media import MediaOptions
from gesso.engine.prompt import PromptReader
from gesso.errors import DataError, OptionError
from gesso.models.loading import load_folder
from gesso.runner.prompt_input import PromptInput
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.config import TrainConfig
from gesso.train.data_config import FileDataConfig
from gesso.train.data_images import most_images
from gesso.train.file_data import FileData
from gesso.train.finetune import finetune_recipe
from gesso.train.plan import Plan
from gesso.train.vision import vision_input_of

Message = dict[str, Any]
URL = f"data:image/png;base64,{base64.b64encode(png(1)).decode()}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_seeing_folder(tmp_path_factory.mktemp("seeing"))


def says(*parts: Any, role: str = "user") -> Message:
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"role": role, "content": content}


def image(name: str, **more: Any) -> Message:
    return {"type": "image", "path": name, **more}


def answer(text: str) -> Message:
    return {"role": "assistant", "content": text}


def write(path: Path, *chats: list[Message]) -> Path:
    (path.parent / "pictures").mkdir(parents=True, exist_ok=True)
    for seed in (1, 2):
        (path.parent / f"pictures/{seed}.png").write_bytes(png(seed))
    path.write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats), encoding="utf-8")
    return path


def data(folder: Path, path: Path, *, sees: bool = True, **settings: Any) -> FileData:
    config = load_folder(folder, "cpu").config
    made = FileDataConfig(**{"max_length": 400, "image_budget": 70, **settings})
    tokenizer, template = Tokenizer.from_folder(folder), ChatTemplate.from_folder(folder)
    stops = (tokenizer.special["<turn|>"], tokenizer.special["<eos>"])
    return FileData([path], tokenizer, template, config, stops, made, vision=vision_input_of(config) if sees else None)


def as_prompted(folder: Path, messages: list[Message]) -> PromptInput:
    config, template = load_folder(folder, "cpu").config, ChatTemplate.from_folder(folder)
    reader = PromptReader(Tokenizer.from_folder(folder), template, config, vision_input_of(config))
    return reader.read(messages, media=MediaOptions(image_budget=70))


def test_a_prompt_has_the_tokens_and_images_of_inference(folder: Path, tmp_path: Path) -> None:
    """Several images, in several turns; the later answer sees what came before."""
    chat = [
        says("look", image("pictures/2.png"), role="system"),
        says(image("pictures/1.png"), "what?", image("pictures/2.png", budget=140)),
        answer("a fig"),
        says("and now?", {"type": "image_url", "image_url": {"url": URL}}),
        answer("a pear"),
    ]
    found = data(folder, write(tmp_path / "data/chats.jsonl", chat))
    assert (found.report.examples, found.report.images) == (2, 3 + 4)
    assert found.report.soft_tokens == 2 * (64 + 64 + 121) + 64
    assert f"7 images of {found.report.soft_tokens} soft tokens" in found.report.summary
    for conversation in found.batch(0, 2, 8):
        turns = 2 if len(conversation.images) == 3 else 4
        named = json.loads(json.dumps(chat[:turns]).replace("pictures/", f"{tmp_path}/data/pictures/"))
        prompt = as_prompted(folder, named)
        assert tuple(conversation.prompt) == prompt.ids
        assert tuple(conversation.images) == prompt.spans


def test_soft_tokens_count_for_the_length(folder: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [says(image("pictures/1.png")), answer("a")], [says("b"), answer("b")])
    assert data(folder, path, max_length=60).report.too_long == 1
    assert data(folder, path, max_length=90).report.examples == 2


def test_the_fingerprint_tells_pictures_and_budgets_apart(folder: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [says(image("pictures/1.png")), answer("a")])
    first = data(folder, path).fingerprint
    assert data(folder, path).fingerprint == first
    assert data(folder, path, image_budget=140).fingerprint != first
    (tmp_path / "pictures/1.png").write_bytes(png(3))
    assert data(folder, path).fingerprint != first
    text = write(tmp_path / "b.jsonl", [says("x"), answer("a")])
    plain = data(folder, text).fingerprint
    assert data(folder, text, image_budget=140).fingerprint == data(folder, text, sees=False).fingerprint == plain


def test_a_picture_that_changes_on_the_way_is_refused(folder: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [says(image("pictures/1.png")), answer("a")])
    found = data(folder, path)
    found.batch(0, 1, 8)
    (tmp_path / "pictures/1.png").write_bytes(png(3))
    os.utime(tmp_path / "pictures/1.png", ns=(1, 1))
    with pytest.raises(DataError, match=r"1\.png' has changed since it was first read"):
        found.batch(1, 1, 8)
    (tmp_path / "pictures/1.png").write_bytes(png(1))
    found.batch(1, 1, 8)


def test_a_picture_that_was_only_touched_is_the_same(folder: Path, tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl", [says(image("pictures/1.png"), image("pictures/1.png", budget=140)), answer("a")]
    )
    found = data(folder, path)
    before = found.batch(0, 1, 8)[0]
    os.utime(tmp_path / "pictures/1.png", ns=(1, 1))
    after = found.batch(1, 1, 8)[0]
    assert [span.content_hash for span in after.images] == [span.content_hash for span in before.images]


WRONG: list[tuple[Message, str]] = [
    (says(image("none.png")), r"message 1: image '.*none\.png' cannot be read: No such file"),
    (says(image("pictures")), r"pictures' is no file"),
    (says(image("a.jsonl")), "no image of a format that is read"),
    (says(image("https://example.org/a.png")), "is an address: nothing is fetched here"),
    (says({"type": "image", "image": ["a.png"]}), "an image must be a path"),
    (says({"type": "image_url", "image_url": {"url": "pictures/1.png"}}), "takes a data URL"),
    (says({"type": "image_url"}), "a part of type image_url must read"),
    (says({"type": "image"}), "an image names no file"),
    (says(image("pictures/1.png", url="b.png")), "names two"),
    (says(image("pictures/1.png", budget=99)), "an image may take 70, 140"),
    (says(image("pictures/1.png", detail="low")), "unknown key 'detail'"),
    (says({"type": "video", "path": "a.mp4"}), "only text and images are supported"),
    (says(image("pictures/1.png"), "<|image|>"), r"message 1: the text holds <\|image\|>"),
    (says(image("pictures/1.png"), "x<|image>y"), r"message 1: the text holds <\|image>"),
]


@pytest.mark.parametrize(("message", "what"), WRONG, ids=[what for _, what in WRONG])
def test_what_is_wrong_is_refused_by_its_line(folder: Path, tmp_path: Path, message: Message, what: str) -> None:
    path = write(tmp_path / "a.jsonl", [says("x"), answer("y")], [message, answer("y")])
    with pytest.raises(DataError, match=what) as caught:
        data(folder, path)
    assert str(caught.value).startswith(f"{path}, line 2: message 1: ")


def test_damaged_and_too_long_pictures_are_refused_by_name(folder: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [says(image("pictures/1.png")), answer("y")])
    (tmp_path / "pictures/1.png").write_bytes(png(1)[:-200])
    with pytest.raises(DataError, match=r"line 1: message 1: .*1\.png"):
        data(folder, path)
    picture(2000, 8).save(tmp_path / "pictures/1.png")
    with pytest.raises(DataError, match="line 1: message 1: the image is too long and thin"):
        data(folder, path, image_budget=280)


def test_a_model_without_eyes_says_so(folder: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [says(image("pictures/1.png")), answer("y")])
    with pytest.raises(
        DataError, match="line 1: message 1: the message holds an image, and this model reads text only"
    ):
        data(folder, path, sees=False)


def test_recipes_know_of_images(folder: Path, tmp_path: Path) -> None:
    seen = write(tmp_path / "a.jsonl", [says(image("pictures/1.png")), answer("y")])
    text = write(tmp_path / "b.jsonl", [says("x"), answer("y")])
    settings = FileDataConfig(max_length=200, image_budget=70)

    def vision(path: Path, method: Any, train_vision: bool = False) -> str:
        from gesso.config import LoraConfig

        return finetune_recipe(
            [path], folder, base="x", plan=Plan(method, steps=1), train=TrainConfig(steps=1), data=settings,
            adapter=LoraConfig(), train_vision=train_vision,
        ).vision  # fmt: skip

    assert [vision(seen, "lora"), vision(seen, "full"), vision(seen, "full", True)] == ["frozen", "frozen", "trained"]
    assert vision(text, "lora") == "none"
    with pytest.raises(OptionError, match="train_vision needs the method full"):
        vision(seen, "lora", True)
    with pytest.raises(OptionError, match="no line holds one"):
        vision(text, "full", True)
    with pytest.raises(OptionError, match="image_budget must be one of 70"):
        FileDataConfig(max_length=20, image_budget=99)


def test_images_of_a_line_are_counted_without_reading_them(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        [says("x"), answer("y")],
        [says(image("none.png"), "x", image("none.png")), answer("y"), says({"type": "image_url"})],
    )
    path.write_text("\ufeff" + path.read_text("utf-8") + "\n", encoding="utf-8")
    assert most_images([path]) == 3
    for bad in ("no json", "[1]", '{"prompts": "x"}'):
        (tmp_path / "bad.jsonl").write_text(f"\n{bad}\n", encoding="utf-8")
        with pytest.raises(DataError, match=r"bad\.jsonl, line 2: "):
            most_images([path, tmp_path / "bad.jsonl"])
    with pytest.raises(DataError, match="cannot be read"):
        most_images([tmp_path / "none.jsonl"])
