"""The skills' tokenizer: every text comes back, common words are whole, and any other is spelled, all of it."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thorough import THOROUGH

from gesso.tasks.skills.lexicon import dictionary
from gesso.tasks.spelled import Spelling, build_tokenizer, common_cuts, whole_words
from gesso.tasks.vocabulary import SPECIAL_TOKENS

TOKENIZER = build_tokenizer()


def pieces(text: str) -> list[str]:
    ids = TOKENIZER.encode(text, add_special_tokens=False).ids
    return [TOKENIZER.decode([index], skip_special_tokens=False) for index in ids]


@given(st.text())
def test_every_text_comes_back(text: str) -> None:
    ids = TOKENIZER.encode(text, add_special_tokens=False).ids
    assert TOKENIZER.decode(ids, skip_special_tokens=False) == text


@given(st.binary())
def test_every_byte_has_a_token(data: bytes) -> None:
    text = data.decode("latin-1")
    ids = TOKENIZER.encode(text, add_special_tokens=False).ids
    assert max(ids, default=0) < TOKENIZER.get_vocab_size()
    assert TOKENIZER.decode(ids, skip_special_tokens=False) == text


@pytest.mark.parametrize("frame", ["{}", "x {}", '"{}"', "a, {}, b", "{}(x)", "get_{}", "\n{}"])
def test_an_unknown_word_is_letters_wherever_it_stands(frame: str) -> None:
    whole = {word.strip(" _").lower() for word in whole_words()}
    words = random.Random(0).sample([word for word in dictionary() if word not in whole], 50)
    for word in (*words, "offset", "grelt"):
        assert "".join(pieces(frame.format(word))) == frame.format(word)
        letters = [piece for piece in pieces(frame.format(word)) if piece.isalpha() and len(piece) > 1]
        assert set(letters) <= {"get"}, (word, letters)


def test_common_words_signs_and_line_breaks_are_whole() -> None:
    assert pieces("Sort these words: fig, mango") == ["Sort", " these", " words", ": ", "fig", ", ", "mango"]
    assert pieces("y:\n    return x + 12") == ["y", ":", "\n    ", "return", " x", " + ", "1", "2"]
    assert pieces("48107") == list("48107")


def test_special_tokens_stay_whole() -> None:
    for index, token in enumerate(SPECIAL_TOKENS):
        assert TOKENIZER.encode(token, add_special_tokens=False).ids == [index]


def test_a_spelled_prompt_reads_the_same() -> None:
    spelling, rng = Spelling(TOKENIZER), random.Random(2)
    text = "<bos><|turn>user\nReverse the words: fig grelt<turn|> é 日本 x_y = 'A'"
    ids = TOKENIZER.encode(text, add_special_tokens=False).ids
    other = spelling.apply(ids, 0.9, rng)
    assert len(other) > len(ids)
    assert TOKENIZER.decode(other, skip_special_tokens=False) == text
    assert spelling.apply(ids, 0.0, rng) == ids


@pytest.mark.skipif(not THOROUGH, reason="20 s: GESSO_THOROUGH=1")
def test_the_list_that_ships_is_mostly_what_its_command_writes() -> None:
    """A tokenizer stays as it is when phrasings are added, which are spelled where they have new words."""
    assert len(set(whole_words()) - set(common_cuts())) < len(whole_words()) / 10
