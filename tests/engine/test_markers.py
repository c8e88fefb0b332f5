"""Markers that users type stay text; those that a template writes are places."""

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.seeing import make_seeing_folder, picture
from engine.tiny import TEMPLATE, TOKENS, reciter
from gesso.api import load
from gesso.engine.engine import Engine, Request
from gesso.engine.markers import Disguise, Markers
from gesso.engine.media import MediaOptions
from gesso.engine.prompt import PromptReader
from gesso.runner.protocol import VisionInput
from gesso.tasks.vocabulary import build_tokenizer
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.vision.size import PatchLayout

IMAGE_MARKERS = ("<|image>", "<|image|>", "<image|>")
ENGINE = reciter("x")
READERS = {
    "sees": PromptReader(ENGINE.tokenizer, ENGINE.template, ENGINE.config, VisionInput(PatchLayout(4, 3), 256, 1.0)),
    "text only": PromptReader(ENGINE.tokenizer, ENGINE.template, ENGINE.config),
}
SOFT = set(ENGINE.config.image_token_ids)
MEDIA = MediaOptions(image_budget=70)
SPECIAL = sorted(ENGINE.tokenizer.special)
PARTS = [*IMAGE_MARKERS, "<|video|>", "<|audio|>", "<", "|image|>", "a b", "\U000f0000", "ü", *SPECIAL]
texts = st.lists(st.sampled_from(PARTS))


@given(texts.map("".join), st.sampled_from(sorted(READERS)))
def test_what_is_typed_comes_back_as_it_was_typed(text: str, which: str) -> None:
    reader = READERS[which]
    typed = f"x{text}x"
    prompt = reader.read(typed)
    assert not prompt.spans
    assert SOFT.isdisjoint(prompt.ids)
    assert reader.tokenizer.decode(prompt.ids) == reader.template.render([{"role": "user", "content": typed}])  # type: ignore[union-attr]
    assert SOFT.isdisjoint(reader.encode_typed(typed, "begin", None))
    assert reader.tokenizer.decode(reader.encode_typed(typed, "begin", None)) == typed


def specials(ids: Sequence[int]) -> list[int]:
    return [token for token in ids if token in ENGINE.tokenizer.special_ids]


@given(texts.map("".join), st.sampled_from(["user", "tool", "parts", "declaration"]))
def test_nobody_forges_a_turn(text: str, who: str) -> None:
    """Special tokens that users, tools and their declarations spell are letters, also over parts of a message."""
    reader = READERS["text only"]

    def read(said: str) -> tuple[int, ...]:
        content: Any = f"x{said}x"
        if who == "parts":
            content = [
                {"type": "text", "text": content[: len(content) // 2]},
                {"type": "text", "text": content[len(content) // 2 :]},
            ]
        asked: dict[str, Any] = {
            "role": "tool" if who == "tool" else "user",
            "content": "ask" if who == "declaration" else content,
        }
        if who == "tool":
            asked["name"] = "look"
        before = [{"role": "system", "content": "<|think|>"}, {"role": "user", "content": "first"}]
        tool = {"type": "function", "function": {"name": "look", "description": content}}
        return reader.read([*before, asked], tools=(tool,) if who == "declaration" else ()).ids

    assert specials(read(text)) == specials(read("plain"))


def test_what_the_system_says_may_hold_special_tokens() -> None:
    reader = READERS["text only"]
    messages = [{"role": role, "content": "<|think|>"} for role in ("system", "user")]
    assert reader.read(messages).ids.count(reader.tokenizer.special["<|think|>"]) == 1


def test_thousands_of_special_tokens_are_looked_for_in_one_pass() -> None:
    """As many as the published tokenizer has, in a text with as many places where one could begin."""
    markers = frozenset(f"<unused{number}>" for number in range(6300))
    text = "<p>word</p>" * 10_000 + "<unused6299>"
    start = time.process_time()
    disguise = Disguise(
        markers, [{"type": "text", "text": text}, {"type": "text", "text": "<unu"}, {"type": "text", "text": "sed7>"}]
    )
    assert len(disguise.pieces(disguise.put_on(text))) == 2
    assert time.process_time() - start < 2


@given(texts.map("".join))
def test_typed_markers_do_not_move_the_places_of_images(text: str) -> None:
    reader = READERS["sees"]
    parts = [{"type": "text", "text": f"x{text}x"}, {"type": "image", "image": picture()}]
    messages = [{"role": "system", "content": f"s{text}s"}, {"role": "user", "content": [*parts, *parts]}]
    prompt = reader.read(messages, media=MEDIA)
    bare = [{"role": "system", "content": "s s"}, {"role": "user", "content": [{"type": "image"}, {"type": "image"}]}]
    assert len(prompt.spans) == len(reader.read(bare, media=MediaOptions([picture()] * 2, image_budget=70)).spans) == 2
    begin, soft, end = reader.config.image_token_ids
    places = {place for span in prompt.spans for place in range(span.start, span.end)}
    assert {place for place, token in enumerate(prompt.ids) if token == soft} == places
    assert [place for place, token in enumerate(prompt.ids) if token == begin] == [s.start - 1 for s in prompt.spans]
    assert [place for place, token in enumerate(prompt.ids) if token == end] == [s.end for s in prompt.spans]


@pytest.mark.parametrize("where", ["a tool's description", "a tool's answer", "an argument", "an earlier answer"])
def test_a_marker_is_text_wherever_a_user_writes_it(where: str) -> None:
    typed = "see <|image|> here"
    tools = [{"type": "function", "function": {"name": "look", "description": typed if "desc" in where else ""}}]
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": {"at": typed}}}
    messages: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
    if where == "an argument":
        messages += [{"role": "assistant", "content": "", "tool_calls": [call]}]
    elif where == "a tool's answer":
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [call | {"function": {"name": "look"}}]},
            {"role": "tool", "tool_call_id": "1", "content": typed},
        ]
    elif where == "an earlier answer":
        messages += [{"role": "assistant", "content": typed}, {"role": "user", "content": "and?"}]
    for reader in READERS.values():
        prompt = reader.read(messages, tools=tools)
        assert SOFT.isdisjoint(prompt.ids)
        assert typed in reader.tokenizer.decode(prompt.ids)


@pytest.mark.parametrize("which", sorted(READERS))
@pytest.mark.parametrize("around", ["", " "])
@pytest.mark.parametrize(
    "parts",
    [
        *(["<|ima", "ge|>"], ["<", "|im", "", "age|>"], ["a <|image", "> b <", "|video|", "> c"], ["<", "<|image|>"]),
        *(["<|image|>", "<|ima", "ge|>"], ["< <|im", "age>"]),
    ],
)
def test_a_marker_that_lies_over_several_parts_is_text(parts: list[str], around: str, which: str) -> None:
    reader = READERS[which]
    content = [{"type": "text", "text": f"{around}{part}{around}"} for part in parts]
    template = ChatTemplate(TEMPLATE.replace("part.text if", "part.text | trim if"), TOKENS)
    reader = dataclasses.replace(reader, template=template if around else reader.template)
    prompt = reader.read([{"role": "user", "content": content}])
    assert not prompt.spans
    assert SOFT.isdisjoint(prompt.ids)
    assert reader.tokenizer.decode(prompt.ids) == reader.template.render([{"role": "user", "content": content}])  # type: ignore[union-attr]


def test_what_holds_no_marker_is_encoded_in_one_piece() -> None:
    for text in ("plain", "<|imag|> <image>", ""):
        disguise = Disguise(Markers.of(ENGINE.tokenizer, ENGINE.config.image_token_ids, sees=True).reserved, text)
        assert disguise.put_on({"a": [text, 5, None]}) == {"a": [text, 5, None]}
        assert disguise.pieces(text) == [text]


def test_to_a_model_without_eyes_a_marker_that_is_no_token_is_plain_text() -> None:
    tokenizer = ENGINE.tokenizer
    assert "<|video|>" not in tokenizer.special
    text = "a <|video|> b <|audio|>"
    assert list(READERS["text only"].read(text, raw=True).ids) == tokenizer.encode(text)
    rendered = ENGINE.template.render([{"role": "user", "content": text}])  # type: ignore[union-attr]
    assert list(READERS["text only"].read(text).ids) == tokenizer.encode(rendered)


def test_begin_and_prediction_are_what_the_user_typed(tmp_path: Path) -> None:
    engine: Engine = load(make_seeing_folder(tmp_path / "model"), "cpu")
    for option in ("begin", "prediction"):
        state = engine.start(Request("hi", {option: "a <|image|> b", "max_new_tokens": 64}))
        assert SOFT.isdisjoint(state.prompt.ids)
    assert engine.generate("hi", begin="a <|image|> b", max_new_tokens=16, seed=1).text.startswith("a <|image|> b")


def test_a_clip_is_its_frames_each_behind_its_time() -> None:
    reader = READERS["sees"]
    clip = [(picture(seed=1), 0.0), (picture(seed=2), 1.5), (picture(seed=3), 75.0)]
    prompt = reader.read("what?", media=MediaOptions(videos=[clip]))
    decoded = reader.tokenizer.decode([t for t in prompt.ids if t != reader.config.image_token_ids[1]])
    frames = " ".join(f"{time} <|image><image|>" for time in ("00:00", "00:01", "01:15"))
    assert decoded == f"<bos><|turn>user\n{frames}what?<turn|>\n<|turn>model\n<|channel>thought\n<channel|>"
    assert [span.length for span in prompt.spans] == [64] * 3
    assert len({span.content_hash for span in prompt.spans}) == 3
    # The ids are those of the text with its markers written out, as the reference's processor does it.
    whole = frames.replace("<|image><image|>", f"<|image>{'<|image|>' * 64}<image|>")
    assert list(prompt.ids) == reader.tokenizer.encode(decoded.replace(frames, whole))


def test_images_and_clips_keep_their_order() -> None:
    reader = READERS["sees"]
    clip = [(picture(seed=2), 0.0), (picture(seed=3), 1.0)]
    parts = [
        {"type": "image", "image": picture(seed=1)},
        {"type": "video", "video": clip},
        {"type": "text", "text": "and"},
        {"type": "image", "image": picture(seed=4)},
    ]
    found = [span.content_hash for span in reader.read([{"role": "user", "content": parts}], media=MEDIA).spans]
    alone = [reader.read("x", media=MediaOptions([picture(seed=s)], image_budget=70)).spans[0] for s in (1, 2, 3, 4)]
    assert found == [span.content_hash for span in alone]
    raw = reader.read(
        "a <|video|> b <|image|>", raw=True, media=MediaOptions([picture(seed=1)], [clip], image_budget=70)
    )
    assert [span.content_hash for span in raw.spans] == [found[1], found[2], found[0]]


def test_a_template_may_put_white_space_around_images() -> None:
    source = TEMPLATE.replace("'<|' ~ part.type ~ '|>'", "'\\n\\n<|' ~ part.type ~ '|>\\n\\n'")
    assert source != TEMPLATE
    reader = PromptReader(
        Tokenizer(build_tokenizer()), ChatTemplate(source, TOKENS), ENGINE.config, READERS["sees"].vision
    )
    prompt = reader.read(
        [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}],
        media=MediaOptions([picture()]),
    )
    begin, _, end = ENGINE.config.image_token_ids
    (span,) = prompt.spans
    assert reader.tokenizer.decode(prompt.ids[: span.start - 1]).endswith("a\n\n")
    assert (prompt.ids[span.start - 1], prompt.ids[span.end]) == (begin, end)


def test_an_image_takes_what_the_model_takes_where_nobody_says_how_much() -> None:
    """`vision_soft_tokens_per_image` of a checkpoint."""
    lengths = {}
    for budget in (70, 140, 280):
        vision = VisionInput(PatchLayout(4, 3), 256, 1.0, budget)
        reader = PromptReader(ENGINE.tokenizer, ENGINE.template, ENGINE.config, vision)
        (span,) = reader.read("x", media=MediaOptions([picture()])).spans
        lengths[budget] = span.length
        (asked,) = reader.read("x", media=MediaOptions([picture()], image_budget=70)).spans
        assert asked.length == 64
    assert lengths == {70: 64, 140: 121, 280: 256}
