from pathlib import Path

import pytest
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from gesso.errors import CheckpointError, TextError
from gesso.tasks.vocabulary import SPECIAL_TOKENS, build_tokenizer
from gesso.text.tokenizer import ASSUMED_CHARACTERS, Tokenizer


def test_special_tokens_are_known_by_their_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.special == {token: index for index, token in enumerate(SPECIAL_TOKENS)}
    assert tokenizer.special_ids == frozenset(range(len(SPECIAL_TOKENS)))
    assert tokenizer.size == 1811


def test_encode_and_decode(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("<bos>What is 481?<eos>")
    assert (ids[0], ids[-1]) == (tokenizer.special["<bos>"], tokenizer.special["<eos>"])
    assert tokenizer.decode(ids) == "<bos>What is 481?<eos>"

    assert [tokenizer.piece(token) for token in ids[-4:-1]] == ["8", "1", "?"]
    assert (tokenizer.special_piece(ids), tokenizer.special_piece(ids[1:-1])) == ("<bos>", None)
    assert tokenizer.encode("") == []
    assert tokenizer.decode([]) == ""
    assert tokenizer.decode([999_999]) == "", "a model's table may be longer than its vocabulary"


def test_nothing_is_added_padded_or_cut() -> None:
    """Whatever the file says: the chat template is all there is."""
    backend = Backend(models.WordLevel({"a": 0, "[S]": 1, "?": 2}, unk_token="?"))
    backend.add_special_tokens([AddedToken("[S]", special=True)])
    backend.post_processor = processors.TemplateProcessing(single="[S] $A", special_tokens=[("[S]", 1)])
    backend.enable_padding(length=5)
    backend.enable_truncation(max_length=1)
    assert Tokenizer(backend).encode("[S]a") == [1, 0]


def test_from_folder(tmp_path: Path, tokenizer: Tokenizer) -> None:
    build_tokenizer().save(str(tmp_path / "tokenizer.json"))
    assert Tokenizer.from_folder(tmp_path).encode("Sort: pear, fig") == tokenizer.encode("Sort: pear, fig")


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"model": {"type": "Nonsense"}}'])
def test_a_broken_file_is_refused_by_name(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json cannot be read"):
        Tokenizer.from_folder(tmp_path)


def test_a_truncated_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    build_tokenizer().save(str(path))
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(CheckpointError, match=r"tokenizer\.json cannot be read"):
        Tokenizer.from_folder(tmp_path)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer\.json is missing in"):
        Tokenizer.from_folder(tmp_path)


@pytest.mark.parametrize("text", ["\ud800", "fig\udce9"])
def test_half_a_character_is_refused(tokenizer: Tokenizer, text: str) -> None:
    with pytest.raises(TextError, match="no valid Unicode"):
        tokenizer.encode(text)


def catastrophic(expression: str) -> Backend:
    backend = Backend(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(expression), "isolated")
    return backend


@pytest.mark.parametrize("expression", ["(a+)+$", "(x+x+)+y", r"(?:(?:\s|\s\s)+)+$"])
def test_an_expression_that_backtracks_for_ever_is_refused_at_load(tmp_path: Path, expression: str) -> None:
    """The library's Rust code panics then: an exception that no `except Exception` catches."""
    catastrophic(expression).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(CheckpointError, match=r"tokenizer\.json cannot be used: the tokenizer gives up on the text"):
        Tokenizer.from_folder(tmp_path)


def test_and_refuses_the_text_where_only_that_shows_it(tmp_path: Path) -> None:
    catastrophic("(q+)+$").save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.from_folder(tmp_path)
    with pytest.raises(TextError, match="gives up on the text"):
        tokenizer.encode("q" * 64 + "!")
    assert tokenizer.encode("a") == [0]


def bytewise() -> Backend:
    """A byte-level BPE tokenizer, as GPT-2's."""
    alphabet = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    backend = Backend(models.BPE({**alphabet, "aa": 256, "aaaa": 257}, [("a", "a"), ("aa", "aa")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return backend


def test_a_token_covers_no_more_characters_than_it_is_long(tokenizer: Tokenizer) -> None:
    assert tokenizer.max_characters == max(len(tokenizer.piece(token)) for token in range(tokenizer.size)) == 16
    assert Tokenizer(bytewise()).max_characters == 4
    for text in ("aaaa" * 100, " " * 50, "\u00e9" * 9, "<|channel>" * 20, "cabbage"):
        for one in (tokenizer, Tokenizer(bytewise())):
            assert len(one.encode(text)) * one.max_characters >= len(text)


def test_the_bytes_of_tokens_join_to_their_text(tokenizer: Tokenizer) -> None:
    """Where a character is several tokens, each is a part of it; where it is one, its bytes are its text's."""
    backend = bytewise()
    backend.decoder = decoders.ByteLevel()
    for one in (tokenizer, Tokenizer(backend)):
        for text in ("\u00e9\u20ac!", "\U0001f600", "aaaa aa", "\ufffd"):
            assert b"".join(map(one.piece_bytes, one.encode(text))).decode() == text
    assert tokenizer.piece_bytes(tokenizer.special["<eos>"]) == b"<eos>"
    assert tokenizer.piece_bytes(999_999) == b""


def dropping(part: str) -> Backend:
    """A tokenizer that may make few tokens of many characters."""
    backend = bytewise()
    if part == "strip":
        backend.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Strip()])
    elif part == "replace":
        backend.normalizer = normalizers.Replace(Regex(" +"), " ")
    elif part == "removed":
        split = pre_tokenizers.Split(" ", "removed")
        backend.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel()])
    elif part == "words":
        backend = Backend(models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
    elif part == "unknown":
        backend = Backend(models.BPE({"a": 0, "?": 1}, [], unk_token="?", fuse_unk=True))
    else:
        backend.add_special_tokens([AddedToken("<x>", rstrip=True)])
    return backend


@pytest.mark.parametrize("part", ["strip", "replace", "removed", "words", "unknown", "added"])
def test_where_characters_are_dropped_nothing_bounds_them(part: str) -> None:
    assert Tokenizer(dropping(part)).max_characters == ASSUMED_CHARACTERS
