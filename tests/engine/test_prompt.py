"""The kinds of prompts, and what is refused in them."""

import time
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers

from engine.tiny import reciter
from gesso.engine.engine import Engine
from gesso.engine.prompt import PromptReader
from gesso.errors import OptionError, TextError, UserError
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def engine() -> Engine:
    return reciter("x")


def ids(engine: Engine, prompt: Any, **options: Any) -> list[int]:
    return list(engine.prompts.read(prompt, **options).ids)


HI = "<bos><|turn>user\nhi<turn|>\n<|turn>model\n<|channel>thought\n<channel|>"


def test_a_string_is_a_user_message(engine: Engine) -> None:
    assert engine.tokenizer.decode(ids(engine, "hi")) == HI
    assert ids(engine, "hi") == ids(engine, [{"role": "user", "content": "hi"}])
    assert ids(engine, "hi") == ids(engine, [{"role": "user", "content": [{"type": "text", "text": "hi"}]}])


def test_raw_takes_a_string_as_it_is(engine: Engine) -> None:
    assert ids(engine, "hi", raw=True) == engine.tokenizer.encode("hi")
    assert ids(engine, HI, raw=True) == ids(engine, "hi")


def test_messages_are_a_conversation(engine: Engine) -> None:
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    text = engine.tokenizer.decode(ids(engine, messages))
    assert text.startswith("<bos><|turn>system\ns<turn|>\n<|turn>user\na<turn|>\n<|turn>model\nb<turn|>")
    assert ids(engine, tuple(messages)) == ids(engine, messages)


def test_arguments_of_a_call_may_be_json_text(engine: Engine) -> None:
    def called(arguments: Any) -> list[dict[str, Any]]:
        call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": arguments}}
        asked: dict[str, Any] = {"role": "user", "content": "hi"}
        return [
            asked,
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "x"},
        ]

    messages = called('{"city": "Drasto", "days": 2}')
    assert ids(engine, messages) == ids(engine, called({"city": "Drasto", "days": 2}))
    assert messages == called('{"city": "Drasto", "days": 2}')
    for arguments in ("{", "[1]", "7", "[" * 10_000):
        with pytest.raises(TextError, match="arguments must be a mapping"):
            ids(engine, called(arguments))


def test_token_ids_are_taken_as_they_are(engine: Engine) -> None:
    assert ids(engine, [5, 6, 7]) == ids(engine, (5, 6, 7)) == ids(engine, range(5, 8), raw=True) == [5, 6, 7]


def test_thinking_reaches_the_template_and_nothing_else(engine: Engine) -> None:
    text = engine.tokenizer.decode(ids(engine, "hi", thinking=True))
    assert text == "<bos><|turn>system\n<|think|>\n<turn|>\n<|turn>user\nhi<turn|>\n<|turn>model\n"
    for prompt, raw in (("hi", True), ([5, 6], False), ([5, 6], True)):
        with pytest.raises(OptionError, match="thinking needs the chat template"):
            ids(engine, prompt, raw=raw, thinking=True)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("prompt", ["", [], ()])
def test_an_empty_prompt_is_refused(engine: Engine, prompt: Any, raw: bool) -> None:
    with pytest.raises(TextError, match="empty"):
        ids(engine, prompt, raw=raw)


def test_a_prompt_that_comes_to_no_tokens_is_refused(engine: Engine) -> None:
    backend = Backend(models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
    backend.normalizer = normalizers.Strip()
    tokenizer = Tokenizer(backend)
    for prompt, template in (("  ", None), ("a", ChatTemplate("  ", {}))):
        with pytest.raises(TextError, match="the prompt is empty: it has no tokens"):
            PromptReader(tokenizer, template, engine.config).read(prompt, raw=template is None)


@pytest.mark.parametrize("prompt", [5, 2.5, None, {"role": "user", "content": "hi"}, {5, 6}, b"hi", object()])
def test_what_is_no_prompt_is_refused(engine: Engine, prompt: Any) -> None:
    with pytest.raises(TextError, match="must be a string, a list of chat messages or a list of token ids"):
        ids(engine, prompt)


@pytest.mark.parametrize(
    "prompt", [[5, True], [False], [5, "hi"], [5, {"role": "user", "content": "hi"}], [5, 6.0], [None]]
)
def test_mixed_kinds_and_booleans_are_refused(engine: Engine, prompt: Any) -> None:
    with pytest.raises(TextError, match="mixes kinds"):
        ids(engine, prompt)


def test_a_list_of_texts_is_sent_to_generate_batch(engine: Engine) -> None:
    with pytest.raises(TextError, match="generate_batch takes several"):
        ids(engine, ["hi", "there"])


@pytest.mark.parametrize("prompt", [np.array([5, 6]), torch.tensor([5, 6]), [np.int64(5), np.int32(6)], range(5, 7)])
def test_ids_of_numpy_and_torch_are_ids(engine: Engine, prompt: Any) -> None:
    assert ids(engine, prompt) == [5, 6]


@pytest.mark.parametrize("prompt", [np.array([[5, 6]]), torch.tensor([[5, 6]]), np.array([5.0])])
def test_arrays_of_another_shape_or_type_are_refused(engine: Engine, prompt: Any) -> None:
    with pytest.raises(TextError, match="chat messages only or token ids only"):
        ids(engine, prompt)


def test_messages_and_raw_contradict_each_other(engine: Engine) -> None:
    with pytest.raises(TextError, match="raw takes a string or token ids"):
        ids(engine, [{"role": "user", "content": "hi"}], raw=True)


def test_ids_outside_the_vocabulary_are_refused(engine: Engine) -> None:
    vocab = engine.config.vocab_size
    assert ids(engine, [0, vocab - 1]) == [0, vocab - 1]
    for token in (vocab, -1, 10**30):
        with pytest.raises(TextError, match=f"token id {token} is outside the vocabulary of {vocab}"):
            ids(engine, [5, token])


def test_a_message_without_content_is_refused(tiny: Engine) -> None:
    with pytest.raises(TextError, match="message 1 of the prompt has no content"):
        tiny.generate([{"role": "user", "content": "hi"}, {"role": "user"}])


@pytest.mark.parametrize("part", [{"type": "audio"}, {"type": "input_audio"}, {"type": []}, {"text": "hi"}, "hi", 5])
def test_a_part_of_another_kind_is_refused(engine: Engine, part: Any) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "what is this?"}, part]}]
    with pytest.raises(TextError, match=r"a part of type .*; known: text, image, video, image_url, video_url"):
        ids(engine, messages)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"type": "text"}, "a part of type text must read .* got {'type': 'text'}"),
        ({"type": "text", "content": "hi"}, "a part of type text must read"),
        ({"type": "text", "text": None}, "a part of type text must read"),
        ({"type": "text", "text": 5}, "a part of type text must read"),
        ({"type": "image", "image": "a", "url": "b"}, "a part of type image names two: image and url"),
        ({"type": "image", "file": "a"}, "a part of type image has no 'file'; known: budget, image, path, type, url"),
        ({"type": "image", "image": "a", "budget": 100}, "an image may take 70, 140, 280, 560, 1120 soft tokens"),
        ({"type": "image_url"}, "a part of type image_url must read"),
        ({"type": "image_url", "image_url": {"url": 5}}, "a part of type image_url must read"),
        ({"type": "image_url", "image_url": {"url": "/etc/passwd"}}, "a part of type image_url takes a data URL"),
        ({"type": "video_url", "video_url": "https://a.test/b"}, "a part of type video_url takes a data URL"),
        ({"type": "image_url", "image_url": {"url": "data:a", "detail": "fine"}}, "detail must be one of low, high"),
        ({"type": "image_url", "image_url": {"url": "data:a", "detail": []}}, "detail must be one of low, high"),
        ({"type": "image"}, "a part of type image that names none, and images has none left"),
        ({"type": "video"}, "a part of type video that names none, and videos has none left"),
    ],
)
def test_a_misshapen_part_is_refused(engine: Engine, part: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        ids(engine, [{"role": "user", "content": [{"type": "text", "text": "what is this?"}, part]}])


@pytest.mark.parametrize("token", ["<|image>", "<|image|>", "<image|>"])
def test_an_image_token_without_an_image_is_refused_and_what_is_typed_is_text(engine: Engine, token: str) -> None:
    number = engine.tokenizer.special[token]
    for prompt, raw in (([5, number], False), (f"what is {token}?", True)):
        with pytest.raises(TextError, match="holds the token of an image: this model reads text only"):
            ids(engine, prompt, raw=raw)
    assert number not in ids(engine, f"what is {token}?")


def test_messages_the_template_refuses(engine: Engine) -> None:
    for messages in ([{"role": "king", "content": "hi"}], [{"role": "tool", "content": "hi"}]):
        with pytest.raises(TextError, match="the chat template refuses these messages"):
            ids(engine, messages)


def test_a_checkpoint_without_a_template_takes_raw_prompts_only(engine: Engine) -> None:
    bare = Engine(engine.model, engine.tokenizer, None, engine.defaults)
    assert bare.generate("hi", raw=True).text == bare.generate([5]).text == "x"
    with pytest.raises(TextError, match="no chat template; pass the prompt as it is with raw"):
        bare.generate("hi")


def test_half_a_character_is_refused(engine: Engine) -> None:
    """What Python makes of arguments that were no UTF-8."""
    for raw in (False, True):
        with pytest.raises(TextError, match="no valid Unicode"):
            ids(engine, "caf\udce9", raw=raw)


def test_a_blank_prompt_is_refused_under_the_template(engine: Engine) -> None:
    for blank in (" ", " \n\t ", "\u3000"):
        with pytest.raises(TextError, match=r"^the prompt is blank"):
            ids(engine, blank)
        assert ids(engine, blank, raw=True) == engine.tokenizer.encode(blank)


@pytest.mark.parametrize("how", ["text", "raw", "messages", "parts"])
def test_a_prompt_that_cannot_fit_is_refused_before_it_is_tokenized(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    most = engine.tokenizer.max_characters
    assert most == max(len(engine.tokenizer.piece(token)) for token in range(engine.tokenizer.size))

    def prompt(characters: int) -> Any:
        text = "a" * characters
        parts = [{"type": "text", "text": text[: len(text) // 2]}, {"type": "text", "text": text[len(text) // 2 :]}]
        kinds = {"text": text, "raw": text, "messages": [{"role": "user", "content": text}]}
        return kinds.get(how, [{"role": "user", "content": parts}])

    fits = most * 64 - (0 if how == "raw" else len(HI) - len("hi"))
    raw = how == "raw"
    assert ids(engine, prompt(fits), raw=raw, max_tokens=64)
    monkeypatch.setattr(engine.tokenizer, "encode", lambda text: pytest.fail("it was tokenized"))
    with pytest.raises(TextError, match=rf"^the prompt is too long: it has {64 * most + 1:,} characters, and no more "):
        ids(engine, prompt(fits + 1), raw=raw, max_tokens=64)


def test_a_request_of_millions_of_characters_is_refused_at_once(engine: Engine) -> None:
    started = time.monotonic()
    for prompt in ("a" * 3_900_000, [{"role": "user", "content": "b " * 1_950_000}]):
        with pytest.raises(TextError, match=r"^the prompt is too long"):
            engine.generate(prompt)
    for name in ("begin", "prediction"):
        with pytest.raises(TextError, match=f"^{name}: the text is too long"):
            engine.generate("hi", **{name: "a" * 3_900_000})
    assert time.monotonic() - started < 2
