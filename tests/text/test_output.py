"""Tokens to text: whole characters only, stop strings wherever pieces end, thoughts apart from the answer."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gesso.text.output import CHANNEL, CHANNEL_END, HIDDEN, IncrementalDecoder, OutputParser, StopStrings
from gesso.text.tokenizer import Tokenizer

ODD = [
    "caf\u00e9",
    "cafe\u0301",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1f3\U0001f1f1",
    "\u0627\u0644\u0639",
    "\ufffd",
    "\ufffd\ufffd\U0001f600",
    "a\x00b",
    "   ",
    "\n\n",
]
CHARACTERS = st.one_of(
    st.sampled_from("pear fig1,\n"),
    st.characters(exclude_categories=["Cs"]),
    st.characters(min_codepoint=0x1F300, max_codepoint=0x1FAFF),
    st.characters(categories=["Mn", "Mc"]),
)
TEXTS = st.one_of(st.text(CHARACTERS, max_size=30), st.lists(st.sampled_from(ODD), max_size=4).map("".join))


# Decoding


@given(TEXTS)
@example("".join(ODD))
def test_decoding_token_by_token_gives_the_whole_text_and_never_half_a_character(
    tokenizer: Tokenizer, text: str
) -> None:
    ids = tokenizer.encode(text)
    decoder = IncrementalDecoder(tokenizer)
    pieces = [decoder.feed(token) for token in ids]
    assert "".join([*pieces, decoder.flush()]) == tokenizer.decode(ids)
    if "\ufffd" not in text:
        assert not any("\ufffd" in piece for piece in pieces)
        assert decoder.flush() == ""


def test_a_character_comes_with_its_last_byte(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("\U0001f600a")
    assert len(ids) == 5
    decoder = IncrementalDecoder(tokenizer)
    assert [decoder.feed(token) for token in ids] == ["", "", "", "\U0001f600", "a"]


def test_a_character_that_never_becomes_whole_is_shown_at_the_end(tokenizer: Tokenizer) -> None:
    decoder = IncrementalDecoder(tokenizer)
    ids = tokenizer.encode("fig\U0001f600")[:-1]
    assert "".join(decoder.feed(token) for token in ids) == "fig"
    assert set(decoder.flush()) == {"\ufffd"}
    assert decoder.flush() == ""


FIRST_HIGH_BYTE, FIRST_WORD = 148, 276


@given(st.lists(st.one_of(st.integers(FIRST_HIGH_BYTE, FIRST_WORD - 1), st.integers(FIRST_WORD, 1810)), max_size=30))
def test_bytes_that_are_no_characters_harm_nothing_else(tokenizer: Tokenizer, ids: list[int]) -> None:
    """They become replacement characters (how many differs: the library decodes a run of bytes all or nothing)."""
    assert (tokenizer.encode("\x80")[-1], tokenizer.encode("!")) == (FIRST_HIGH_BYTE, [FIRST_WORD])
    decoder = IncrementalDecoder(tokenizer)
    text = "".join(decoder.feed(token) for token in ids) + decoder.flush()
    whole = tokenizer.decode(ids)
    assert [c for c in text if c.isascii()] == [c for c in whole if c.isascii()]
    assert ("\ufffd" in text) == ("\ufffd" in whole)


# Stop strings


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted({min(place, len(text)) for place in places}), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)]


def run(stop: list[str], pieces: list[str]) -> tuple[str, str | None]:
    finder = StopStrings(stop)
    out = ""
    for piece in pieces:
        out += finder.feed(piece)
        if finder.hit is not None:
            return out, finder.hit
    return out + finder.flush(), finder.hit


AB = st.text("ab", max_size=14)
CUTS = st.lists(st.integers(0, 14), max_size=14)


@given(text=AB, stop=st.text("ab", min_size=1, max_size=4), places=CUTS)
def test_one_stop_string_is_found_where_find_finds_it(text: str, stop: str, places: list[int]) -> None:
    out, hit = run([stop], cut(text, places))
    at = text.find(stop)
    assert (out, hit) == ((text, None) if at < 0 else (text[:at], stop))


@given(text=AB, stop=st.lists(st.text("ab", min_size=1, max_size=4), max_size=4), places=CUTS)
@example(text="aabb", stop=["abb", "b"], places=[])
@example(text="aab", stop=["b", "ab"], places=[2])
def test_of_several_the_first_to_be_complete_counts_however_the_text_is_cut(
    text: str, stop: list[str], places: list[int]
) -> None:
    found = [(text.find(s) + len(s), text.find(s)) for s in stop if s in text]
    out, hit = run(stop, cut(text, places))
    if not found:
        assert (out, hit) == (text, None)
    else:
        end, at = min(found)
        assert (out, hit) == (text[:at], text[at:end])


@given(text=AB, stop=st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3), places=CUTS)
def test_no_more_is_held_back_than_could_begin_a_stop_string(text: str, stop: list[str], places: list[int]) -> None:
    finder = StopStrings(stop)
    seen = out = ""
    for piece in cut(text, places):
        seen, out = seen + piece, out + finder.feed(piece)
        if finder.hit is not None:
            return
        held = seen[len(out) :]
        assert seen.startswith(out)
        assert not held or any(s.startswith(held) and s != held for s in stop)


# Answer and thoughts


def parse(tokenizer: Tokenizer, ids: list[int], stop: tuple[str, ...] = ()) -> OutputParser:
    """Feed everything, as an engine does: no further than a stop string; deltas add up to the whole."""
    parser = OutputParser(tokenizer, stop)
    deltas = []
    for token in ids:
        deltas.append(parser.feed(token))
        if parser.stopped:
            break
    deltas.append(parser.flush())
    assert "".join(delta.text for delta in deltas) == parser.text
    assert "".join(delta.reasoning for delta in deltas) == parser.reasoning
    return parser


def spelled(tokenizer: Tokenizer, text: str) -> list[int]:
    """Character by character, where the tokenizer would take a word or a whole header."""
    return [token for character in text for token in tokenizer.encode(character)]


PARTS = st.lists(
    st.tuples(st.booleans(), st.text(st.sampled_from("pearfig \n\u00e9\U0001f600"), max_size=12)), max_size=5
)


@given(parts=PARTS, by_character=st.booleans())
def test_thoughts_and_answer_are_kept_apart(
    tokenizer: Tokenizer, parts: list[tuple[bool, str]], by_character: bool
) -> None:
    ids: list[int] = []
    for thought, text in parts:
        encode = spelled if by_character else Tokenizer.encode
        if thought:
            header_and_text = encode(tokenizer, "thought\n" + text)
            ids += [tokenizer.special[CHANNEL], *header_and_text, tokenizer.special[CHANNEL_END]]
        else:
            ids += encode(tokenizer, text)
    parser = parse(tokenizer, ids)
    assert parser.text == "".join(text for thought, text in parts if not thought)
    assert parser.reasoning == "".join(text.rstrip("\n") for thought, text in parts if thought)


def say(tokenizer: Tokenizer, text: str, *stop: str) -> tuple[str, str, bool]:
    parser = parse(tokenizer, tokenizer.encode(text), stop)
    return parser.text, parser.reasoning, parser.stopped


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("<|channel>thought\n<channel|>fig", "fig", ""),
        ("<|channel>thought\npear\n<channel|>fig", "fig", "pear"),
        ("<|channel>thought\npear\n\nfig\n\n<channel|>\nlime", "\nlime", "pear\n\nfig"),
        ("<|channel>thought\npear", "", "pear"),
        ("<|channel>thought\npear\n", "", "pear"),
        ("<|channel>thought", "", ""),
        ("<|channel>thought<channel|>fig", "fig", ""),
        ("<|channel>", "", ""),
        ("<|channel><channel|>fig", "fig", ""),
        ("fig<channel|>pear", "figpear", ""),
        ("fig<|channel>thought\nlime", "fig", "lime"),
        ("<|channel>thought\na<|channel>thought\nb<channel|>c", "c", "ab"),
    ],
)
def test_channels_however_they_end(tokenizer: Tokenizer, text: str, answer: str, reasoning: str) -> None:
    assert say(tokenizer, text) == (answer, reasoning, False)


def test_stop_strings_are_looked_for_in_the_answer_alone(tokenizer: Tokenizer) -> None:
    assert say(tokenizer, "<|channel>thought\npear fig<channel|>kiwi fig lime", "fig") == ("kiwi ", "pear fig", True)
    assert say(tokenizer, "<|channel>thought\nfig", "fig") == ("", "fig", False)
    assert say(tokenizer, "<|channel>thought\nfig<channel|>kiwi", "thought", "figkiwi") == ("kiwi", "fig", False)
    # The two halves of an answer are one text.
    assert say(tokenizer, "pear<|channel>thought\nx<channel|>fig lime", "pearfig") == ("", "x", True)


def test_what_the_answer_holds_back_outlives_a_thought_that_never_ends(tokenizer: Tokenizer) -> None:
    assert say(tokenizer, "fig <|channel>thought\npear", "fig lime") == ("fig ", "pear", False)
    ids = [*tokenizer.encode("\U0001f600")[:2], tokenizer.special[CHANNEL], *tokenizer.encode("thought\nx")]
    parser = parse(tokenizer, ids)
    assert (set(parser.text), parser.reasoning) == ({"\ufffd"}, "x")


def test_structure_is_hidden_and_other_special_tokens_are_text(tokenizer: Tokenizer) -> None:
    for token in HIDDEN:
        if token != CHANNEL:
            assert say(tokenizer, f"fig{token}lime")[0] == "figlime"
    assert say(tokenizer, "<|tool_call>call:f{}<tool_call|>")[0] == "<|tool_call>call:f{}<tool_call|>"
    assert say(tokenizer, "fig<|tool_call>lime", "<|tool_call>") == ("fig", "", True)
