"""Tokens to text: whole characters only, stop strings wherever pieces end, thoughts and tool calls apart."""

import contextlib
import itertools
import re
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gesso.errors import TextError
from gesso.text.output import CHANNEL, CHANNEL_END, HIDDEN, Delta, IncrementalDecoder, OutputParser, StopStrings
from gesso.text.tokenizer import TokenIds, Tokenizer
from gesso.text.tool_calls import CALL, CALL_END, ToolCall, parse_tool_call

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


def test_bytes_that_are_no_characters_are_not_read_again_for_each() -> None:
    class Counting:
        """A byte-level tokenizer of one token, which is no character."""

        decoded = 0

        def decode(self, ids: Sequence[int]) -> str:
            self.decoded += len(ids)
            return "\ufffd" * len(ids)

        def piece(self, index: int) -> str:
            return "\ufffd"

    counting = Counting()
    decoder = IncrementalDecoder(counting)  # type: ignore[arg-type]
    assert not any(decoder.feed(7) for _ in range(4096))
    assert decoder.flush() == "\ufffd" * 4096
    assert counting.decoded < 4 * 4096


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


def run(stop: list[str], pieces: list[str], *, include: bool = False) -> tuple[str, str | None]:
    finder = StopStrings(stop, include=include)
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
        assert run(stop, cut(text, places), include=True) == (text[:end], text[at:end])


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
    whole = sum(deltas, Delta())
    assert whole == Delta(parser.text, parser.reasoning, parser.tool_calls, parser.warnings)
    assert parser.flush() == Delta()
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
        ("<|channel>tho", "", ""),
        ("<|channel>pear fig", "", "pear fig"),
        ("<|channel>pear<channel|>fig", "fig", "pear"),
        ("<|channel>pear<|channel>thought\nfig", "", "pearfig"),
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
    assert say(tokenizer, "fig<tool_call|><|tool>lime") == ("fig<tool_call|><|tool>lime", "", False)
    assert say(tokenizer, "fig<|tool_call>lime", "<|tool_call>") == ("fig", "", True)


# Thoughts are counted


def test_thought_tokens_are_those_between_the_delimiters(tokenizer: Tokenizer) -> None:
    parser = OutputParser(tokenizer)
    inside = tokenizer.encode("thought\npear fig")
    for count, token in enumerate([tokenizer.special[CHANNEL], *inside]):
        parser.feed(token)
        assert parser.thinking
        assert parser.reasoning_tokens == count
    for token in [tokenizer.special[CHANNEL_END], *tokenizer.encode("lime<channel|>")]:
        parser.feed(token)
        assert not parser.thinking
    for token in tokenizer.encode("<|channel>other\n<|channel><pad>a"):
        parser.feed(token)
    assert parser.thinking
    assert parser.reasoning_tokens == len(inside) + len(tokenizer.encode("other\n")) + 3
    parser.flush()
    assert parser.reasoning_tokens == len(inside) + len(tokenizer.encode("other\n")) + 3


# Tool calls

F, G = ToolCall("f", "{}"), ToolCall("g", '{"a": "fig\\n<eos>"}')
WRITTEN_F, WRITTEN_G = "<|tool_call>call:f{}<tool_call|>", '<|tool_call>call:g{a:<|"|>fig\n<eos><|"|>}<tool_call|>'
BAD = "<|tool_call>call:g{a:}<tool_call|>"
UNCLOSED = "malformed tool call: the output ends before it does"
MISSING = "malformed tool call: a value is missing at character 9, before '}'"


@pytest.mark.parametrize(
    ("text", "answer", "calls", "warnings"),
    [
        (WRITTEN_F, "", (F,), ()),
        (WRITTEN_F + WRITTEN_G, "", (F, G), ()),
        (f"  {WRITTEN_F}\n\n{WRITTEN_G} \n", "  ", (F, G), ()),
        (f"pear:\n{WRITTEN_F}", "pear:\n", (F,), ()),
        (f"pear{WRITTEN_F} fig\n{WRITTEN_G}\n", "pear fig\n", (F, G), ()),
        (f"{WRITTEN_F}\n<pad>\n<|channel>thought\n<channel|> fig ", "\n\n fig ", (F,), ()),
        (BAD, BAD, (), (MISSING,)),
        (f"{BAD} \n", f"{BAD} \n", (), (MISSING,)),
        (f"{WRITTEN_F}\n{BAD}\n{WRITTEN_G}\n", f"\n{BAD}\n", (F, G), (MISSING,)),
        (f"{BAD}{BAD}", f"{BAD}{BAD}", (), (MISSING, MISSING)),
        ("fig <|tool_call>", "fig <|tool_call>", (), (UNCLOSED,)),
        ("<|tool_call>call:f{}<turn|>\n", "<|tool_call>call:f{}<turn|>\n", (), (UNCLOSED,)),
        (f"{WRITTEN_F} <|tool_call>call:f{{}}", " <|tool_call>call:f{}", (F,), (UNCLOSED,)),
        (
            "<|tool_call>call:f<|channel>thought\nx<channel|>{}<tool_call|>",
            "<|tool_call>call:f<|channel>thought\nx<channel|>{}<tool_call|>",
            (),
            ("malformed tool call: '{' is missing at character 6, before '<|channel>thought\\nx<'",),
        ),
        (
            "<|tool_call><tool_call|>",
            "<|tool_call><tool_call|>",
            (),
            ("malformed tool call: 'call:' is missing at character 0, its end",),
        ),
    ],
)
def test_tool_calls_leave_the_answer_unless_they_are_malformed(
    tokenizer: Tokenizer, text: str, answer: str, calls: tuple[ToolCall, ...], warnings: tuple[str, ...]
) -> None:
    parser = parse(tokenizer, tokenizer.encode(text))
    assert (parser.text, parser.tool_calls, parser.warnings) == (answer, calls, warnings)
    assert parser.reasoning == ""


def test_a_call_in_a_thought_is_thought(tokenizer: Tokenizer) -> None:
    parser = parse(tokenizer, tokenizer.encode(f"<|channel>thought\n{WRITTEN_F}<channel|>{WRITTEN_F}"))
    assert (parser.text, parser.reasoning, parser.tool_calls) == ("", WRITTEN_F, (F,))
    assert parser.reasoning_tokens == len(tokenizer.encode(f"thought\n{WRITTEN_F}"))


def test_a_call_comes_with_its_last_token(tokenizer: Tokenizer) -> None:
    parser = OutputParser(tokenizer)
    *first, last = tokenizer.encode(WRITTEN_F)
    assert {parser.feed(token) for token in first} == {Delta()}
    assert parser.feed(last) == Delta(tool_calls=(F,))


def test_what_stands_before_a_call_comes_before_it(tokenizer: Tokenizer) -> None:
    """Also where it may begin a stop string, which never reaches over a call."""
    parser = OutputParser(tokenizer, ["pear\nlime", "\n\n"])
    deltas = [parser.feed(token) for token in tokenizer.encode(f"fig pear\n{WRITTEN_F}lime")]
    place = next(number for number, delta in enumerate(deltas) if delta.tool_calls)
    assert "".join(delta.text for delta in deltas[: place + 1]) == "fig pear\n"
    assert "".join(delta.text for delta in (*deltas[place + 1 :], parser.flush())) == "lime"
    assert not parser.stopped


def test_stop_strings_are_looked_for_in_a_call_only_when_it_is_text(tokenizer: Tokenizer) -> None:
    assert say(tokenizer, f"pear{WRITTEN_G} lime", "fig", "call", "\n") == ("pear lime", "", False)
    assert say(tokenizer, f"pear{BAD} lime", "g{") == ("pear<|tool_call>call:", "", True)
    assert say(tokenizer, f"pear{BAD} lime", "ar<") == ("pe", "", True)
    assert say(tokenizer, f"pear{BAD[:-1]}", "ar<") == ("pe", "", True)
    assert say(tokenizer, f"pear{WRITTEN_F}\n\n", "\n") == ("pear", "", False)
    assert say(tokenizer, f"pear{WRITTEN_F}\n\nfig", "\nf") == ("pear\n", "", True)
    assert say(tokenizer, f"pear{WRITTEN_F}fig", "pear lime") == ("pearfig", "", False)


def test_without_the_special_tokens_a_call_is_text() -> None:
    class Without(TokenIds):
        """Has the token that opens a call, but none that closes it."""

        def __init__(self) -> None:
            super().__init__()
            self.special = {CALL: 12}

    for tokenizer in (TokenIds(), Without()):
        parser = parse(tokenizer, [12, 5, 13])
        assert (parser.text, parser.tool_calls, parser.warnings) == ("<12><5><13>", (), ())


PIECES = [CALL, CALL_END, "call:f{", "a:", "1", '<|"|>', "}", " ", "\n", "fig", WRITTEN_F, WRITTEN_G, BAD]


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_a_call_is_read_or_kept_and_nothing_is_lost(tokenizer: Tokenizer, pieces: list[str]) -> None:
    text, answer, space, calls, malformed = "".join(pieces), "", None, [], 0
    for part in re.split(r"(<\|tool_call>.*?(?:<tool_call\|>|\Z))", text, flags=re.DOTALL):
        if part.startswith(CALL) and part.endswith(CALL_END):
            with contextlib.suppress(TextError):
                calls.append(parse_tool_call(part.removeprefix(CALL).removesuffix(CALL_END)))
                space = ""
                continue
        malformed += part.startswith(CALL)
        rest = part if space is None else space + part
        if space is None or rest.strip():
            answer, space = answer + rest, None
        else:
            space = rest
    parser = parse(tokenizer, tokenizer.encode(text))
    assert (parser.text, parser.tool_calls, len(parser.warnings)) == (answer, tuple(calls), malformed)
    assert answer.strip() or calls or not text.strip()


@given(st.lists(st.sampled_from([*PIECES, CHANNEL, CHANNEL_END, "fi", "\U0001f600"]), max_size=12), st.integers(0, 60))
def test_a_fork_goes_on_as_the_parser_would_and_leaves_it_alone(
    tokenizer: Tokenizer, pieces: list[str], place: int
) -> None:
    ids = tokenizer.encode("".join(pieces))
    parser = OutputParser(tokenizer, ("figfi",))
    deltas = sum((parser.feed(token) for token in ids[:place]), Delta())
    fork = parser.fork()
    forked = deltas + sum((fork.feed(token) for token in ids[place:]), Delta()) + fork.flush()
    deltas += sum((parser.feed(token) for token in ids[place:]), Delta()) + parser.flush()
    assert forked == deltas == Delta(fork.text, fork.reasoning, fork.tool_calls, fork.warnings)
    assert (fork.reasoning_tokens, fork.stop_string) == (parser.reasoning_tokens, parser.stop_string)
