"""The trained tokenizer: every text comes back, words are cut where they should be, and training is repeatable."""

from hypothesis import given
from hypothesis import strategies as st

from gesso.tasks.bpe import load_tokenizer, train_tokenizer
from gesso.tasks.vocabulary import SPECIAL_TOKENS

TOKENIZER = load_tokenizer()


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
    assert max(ids, default=0) < TOKENIZER.get_vocab_size() == 4096
    assert TOKENIZER.decode(ids, skip_special_tokens=False) == text


def test_a_word_has_the_same_tokens_wherever_it_stands() -> None:
    for word in ("offset", "grelt", "banana"):
        alone = pieces(word)
        for text in (f"the {word}", f'"{word}"', f"x, {word}, y", f"get_{word}", f"{word}(x)"):
            found = pieces(text)
            assert any(found[i : i + len(alone)] == alone for i in range(len(found))), (text, found)


def test_digits_are_single_and_identifiers_are_cut() -> None:
    assert pieces("48107") == list("48107")
    assert "".join(pieces("maxValue")[:1]) == "max"


def test_special_tokens_stay_whole() -> None:
    for index, token in enumerate(SPECIAL_TOKENS):
        assert TOKENIZER.encode(token, add_special_tokens=False).ids == [index]


def test_training_is_repeatable_and_takes_any_size() -> None:
    texts = ["def offset(value):\n    return value + 1\n" * 20, "alpha beta gamma alphabet " * 30]
    small = train_tokenizer(300, texts)
    assert small.to_str() == train_tokenizer(300, texts).to_str()
    assert small.get_vocab_size() == 300
    assert train_tokenizer(0, ()).get_vocab_size() == len(SPECIAL_TOKENS) + 256
    joined = train_tokenizer(400, texts, spaces_apart=False)
    assert any(piece.startswith("Ġ") and len(piece) > 3 for piece in joined.get_vocab())
    assert not any(piece.startswith("Ġ") and piece[1:].isalpha() and piece[1:].isascii() for piece in small.get_vocab())
