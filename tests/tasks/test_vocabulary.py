"""The hand-written tokenizer: lossless, single digits, one token per word wherever it stands."""

import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from gesso.tasks import MINI_SKILLS, SPECIAL_TOKENS, TASKS, build_tokenizer

TOKENIZER = build_tokenizer()


def decoded(text: str) -> str:
    return TOKENIZER.decode(TOKENIZER.encode(text).ids, skip_special_tokens=False)


@settings(max_examples=500, deadline=None)
@given(st.text(st.characters(exclude_characters="▁", exclude_categories=["Cs"])))
@example("  two  spaces  ")
@example("\ttab\r\nline\n\n    indent\n         nine ")
@example("🎨🖼️ e\u0301 \u00a0 日本語 \x00 \ufeff")
@example("<0x41> <0xE2> <eos> <|turn>user\n")
def test_round_trip(text: str) -> None:
    assert decoded(text) == text


@settings(max_examples=300, deadline=None)
@given(st.text(' \n\t\r,:."{}()=_-+09aéx😀'))
def test_round_trip_of_spaces_and_glue(text: str) -> None:
    assert decoded(text) == text


def test_special_tokens_have_the_first_ids() -> None:
    assert [TOKENIZER.token_to_id(token) for token in SPECIAL_TOKENS] == list(range(len(SPECIAL_TOKENS)))
    assert TOKENIZER.encode("<|turn>user\nHello<turn|>\n").tokens == [
        "<|turn>",
        "user\n",
        "Hello",
        "<turn|>",
        "\n",
    ]


def test_digits_are_single() -> None:
    pieces = [piece for piece in TOKENIZER.get_vocab() if not piece.startswith("<0x")]
    assert all(sum(character.isdigit() for character in piece) <= 1 for piece in pieces)
    assert TOKENIZER.encode("What is 481 + 29?").tokens == [
        "What", "▁is", "▁", "4", "8", "1", "▁+▁", "2", "9", "?",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Sort: pear, fig, 7", ["Sort", ":▁", "pear", ",▁", "fig", ",▁", "7"]),
        ("Reverse the words: cat bird", ["Reverse", "▁the", "▁words", ":▁", "cat", "▁bird"]),
        ("CAT BIRD", ["CAT", "▁BIRD"]),
        (
            '{"item": "kettle", "price": 3}',
            ['{"', "item", '":▁"', "kettle", '",▁"', "price", '":▁', "3", "}"],
        ),
        (
            "def add_two(x):\n    return x + 2",
            ["def", "▁add", "_two", "(x):", "\n▁▁▁▁", "return", "▁x", "▁+▁", "2"],
        ),
    ],
)
def test_segmentation(text: str, tokens: list[str]) -> None:
    assert TOKENIZER.encode(text).tokens == tokens


@pytest.mark.parametrize("name", MINI_SKILLS)
def test_every_word_of_the_tasks_is_one_token(name: str) -> None:
    rng = random.Random(1)
    for _ in range(500):
        drawn = TASKS[name].sample(rng)
        for text in (drawn.prompt, drawn.answer):
            encoding = TOKENIZER.encode(text)
            letters = {token for token in encoding.tokens if len(token) == 1 and token.isalpha()}
            assert letters <= {"x", "y", "a"}, text
            assert decoded(text) == text


def test_it_is_the_same_every_time_and_after_saving(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    TOKENIZER.save(str(path))
    assert build_tokenizer().to_str() == TOKENIZER.to_str()
    assert Tokenizer.from_file(str(path)).to_str() == TOKENIZER.to_str()


def test_transformers_loads_it(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    path = tmp_path / "tokenizer.json"
    TOKENIZER.save(str(path))
    loaded = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path))
    text = "<bos><|turn>user\n Sort: pear, fig 😀<turn|>\n"
    ids = TOKENIZER.encode(text).ids
    assert loaded(text)["input_ids"] == ids
    assert loaded.decode(ids, clean_up_tokenization_spaces=False) == text
