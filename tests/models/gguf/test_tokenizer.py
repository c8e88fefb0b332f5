"""The tokenizer of a GGUF file, beside the one that transformers makes of the same vocabulary."""

import functools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gesso.errors import CheckpointError
from gesso.models.gguf.tokenizer import read_gguf_tokenizer
from gesso.text.tokenizer import Tokenizer
from models.gguf.published import CONTROL, MERGES, TEXT, TOKENS, VISIBLE, write_published

TEXTS = st.text(max_size=40) | st.lists(st.sampled_from([*TOKENS, " ", "  ", "\n"]), max_size=12).map("".join)


@functools.cache
def reference() -> Any:
    """transformers' tokenizer for Gemma."""
    from transformers.models.gemma.tokenization_gemma import GemmaTokenizer

    made = GemmaTokenizer(
        vocab={token: index for index, token in enumerate(TOKENS)}, merges=[tuple(merge.split(" ")) for merge in MERGES]
    )
    made.add_tokens([token for token in (*CONTROL, *VISIBLE) if token != "<table>"], special_tokens=True)
    made.add_tokens(["<table>"])
    return made


@pytest.fixture(scope="module")
def ours(whole: Path) -> Tokenizer:
    return Tokenizer(read_gguf_tokenizer(whole)[0])


@given(text=TEXTS)
def test_it_encodes_and_decodes_as_transformers_does(ours: Tokenizer, text: str) -> None:
    ids = ours.encode(text)
    assert ids == reference().encode(text, add_special_tokens=False)
    assert ours.decode(ids) == reference().decode(ids, clean_up_tokenization_spaces=False)


def test_merges_are_used(ours: Tokenizer) -> None:
    assert len(ours.encode(TEXT)) < len(TEXT) / 2
    assert ours.decode(ours.encode(TEXT + "\u00e9\U0001f600")) == TEXT + "\u00e9\U0001f600"


def test_marks_of_a_chat_are_special_whatever_the_file_calls_them(ours: Tokenizer) -> None:
    assert ours.special.keys() == {*CONTROL, *VISIBLE} - {"<table>"}
    assert ours.encode("<|turn>a<table>") == [TOKENS.index(token) for token in ("<|turn>", "a", "<table>")]


def test_special_tokens_have_their_names(whole: Path) -> None:
    assert read_gguf_tokenizer(whole)[1] == {
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer.ggml.model": "llama"}, "tokenizer.ggml.model is 'llama'; gesso reads 'gemma4'"),
        ({"tokenizer.ggml.merges": None}, "the tokenizer is incomplete"),
        ({"tokenizer.ggml.token_type": [1, 1]}, f"the tokenizer is damaged: {len(TOKENS)} tokens, 2 kinds"),
        ({"tokenizer.ggml.tokens": [*TOKENS[:-1], TOKENS[0]]}, "the tokenizer is damaged"),
        ({"tokenizer.ggml.merges": ["a", "b c"]}, "the tokenizer is damaged"),
        ({"tokenizer.ggml.merges": ["zq qz"]}, "the tokenizer is damaged"),
        ({"tokenizer.ggml.bos_token_id": 9999}, "bos_token_id is 9999, which is no token"),
        ({"tokenizer.ggml.unknown_token_id": None}, "unknown_token_id is None, which is no token"),
    ],
)
def test_another_kind_or_a_damaged_one_is_refused(
    released: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = write_published(tmp_path / "a.gguf", released, changes=changes)
    with pytest.raises(CheckpointError) as refused:
        read_gguf_tokenizer(path)
    assert message in str(refused.value)
