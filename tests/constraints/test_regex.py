"""The dialect, and byte automata against Python's `re`."""

import itertools
import random
import re
import unicodedata

import pytest
from thorough import cases

from constraints.generated import make_regex, make_text
from gesso.constraints import charset
from gesso.constraints.budget import Budget, within
from gesso.constraints.byte_table import ByteAutomaton, intersect
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.expression import (
    EMPTY,
    NEVER,
    Chars,
    Intersection,
    Joined,
    Multiples,
    Repeat,
    Text,
    choices,
    repeat,
    sequence,
    union,
)
from gesso.constraints.regex import parse, parse_search
from gesso.errors import OptionError


def compiled(pattern: str) -> ByteAutomaton:
    return compile_bytes(parse(pattern))


def test_generated_patterns_match_what_re_matches() -> None:
    generator = random.Random(0)
    matched = 0
    for _ in range(cases(200, 2000)):
        pattern = make_regex(generator)
        automaton = compiled(pattern)
        for _ in range(60):
            text = make_text(generator)
            # The narrow reading of \w on these letters is that of ASCII, the wide one that of Unicode.
            ours = automaton.matches(text)
            assert ours <= bool(re.fullmatch(pattern, text)), (pattern, text)
            if not re.search(r"\\[DWS]", pattern):
                assert ours == bool(re.fullmatch(pattern, text, re.ASCII)), (pattern, text)
            matched += ours
    assert matched > cases(500, 5000)


@pytest.mark.parametrize(
    "pattern",
    ["a|ab", "(a|ab)(c|bcd)", "^a$", "^a|b$", "(^a|b)c", "a$b", "(a$|ab)*", "(^|b)a", "a(b|$)", "(a|)+", "x{0}", "",
     "a**?"[:2], "a{2,3}?", "a{,x}", "{", "a{", "a{1", "a}", "]", "(?:)", "((a)|b)*?c", "a||b", "(?P<x>a)", r"\Aab",
     "[a-]", "[-a]", "[^-a]", "b^", "$a", "()*", "(a*)*", "(a*b*)*c"],
)  # fmt: skip
def test_all_short_texts(pattern: str) -> None:
    automaton = compiled(pattern)
    texts = [""]
    for _ in range(4):
        texts += [text + letter for text in texts if len(text) == max(map(len, texts)) for letter in "abcx{]-,}1"[:7]]
    for text in texts:
        assert automaton.matches(text) == bool(re.fullmatch(pattern, text)), text


def test_a_search_may_match_anywhere() -> None:
    for pattern in ("b", "^b", "b$", "^b$", "^a|b$", "^(a|b)", "a{2}", "", "(^|a)b"):
        automaton = compile_bytes(parse_search(pattern))
        for text in ("", "a", "b", "ab", "ba", "aab", "b\nx", "xb\n", "aa"):
            if not text.endswith("\n"):
                assert automaton.matches(text) == bool(re.search(pattern, text)), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("(b(?=a))+", "look-ahead in a group .* at character 2"),
        ("(?:a|(c(?=a))?)(b(?=a)){2,}", "look-ahead in a group .* at character 17"),
        ("(?i:b(?=a))", "look-ahead in a group"), ("(?:(?=a)){5}", "look-ahead in a group"),
        ("(?:(?=a))**", "look-ahead in a group"), (r"(?:\b)?*a", "boundary in a group"),
        (r"x(?:*\b)", "nothing to repeat at character 4"), (r"(?:\b|a{2}{3})", "a quantifier after a quantifier"),
        (r"(?:a\b|c)\q", r"the escape \\q is not known at character 9"), (r"(?<1>\ba)", "proper name"),
        (r"a(?!\b-$)-", "word boundary in a group"),
        ("(a(?!b))*", "look-ahead in a group .* at character 2"),
        ("(?<=a)b", "look-behind"), ("(?<!a)b", "look-behind"), (r"(a)\1", "back-reference"),
        ("(?P<n>a)(?P=n)", "back-reference"), (r"(?<n>a)\k<n>", "back-reference"), ("a++", "possessive"),
        ("a{2}+", "possessive"), ("(?>a)", "atomic group"), ("(?m)a", "a flag"), ("a(?i)b", "not at the beginning"),
        (r"(\bword)*", "word boundary in a group"), (r"a(\B|b)+", "word boundary in a group"),
        (r"\b*a", "repeated anchor"), (r"\p{Greek}", "Unicode class {Greek} is not"),
        ("(?(1)a|b)", "a condition"), ("(?#x)", "a comment"), (r"[\Z]", "is not known"), (r"\cA", "control"),
        (r"\q", r"the escape \\q is not known"), (r"\0", "octal"), ("[a&&b]", "set operation &&"),
        ("[[a]]", r"write \\\["),
        ("[[:alpha:]]", r"write \\\["), ("[a--b]", "set operation --"), ("a{,3}", r"write \{0,n\}"),
        ("*a", "nothing to repeat"), ("a**", "a quantifier after a quantifier"),
        ("(a", r"an unmatched \( at character 0"),
        ("a)", r"an unmatched \) at character 1"), ("[a", r"an unmatched \["), ("[b-a]", "a bad range"),
        (r"[a-\d]", "a bad range"), ("a{3,2}", "most is less than its least"), ("a{99999}", "more than 10000"),
        ("a\\", "an escape is not finished"), (r"\x4", "not finished"), (r"\u{110000}", "no character's number"),
        (r"\ud800", "no character's number"), (r"\xzz", "no character's number"), ("\ud800", "half a character"),
        ("^*", "a repeated anchor"), ("(?<1>a)", "proper name"), ("(" * 200, "groups in each other"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(pattern: str, what: str) -> None:
    with pytest.raises(OptionError, match=what):
        parse(pattern)


def test_a_refusal_shows_a_part_of_a_long_pattern() -> None:
    with pytest.raises(OptionError, match="more than 100 groups in each other at character 100") as caught:
        parse("(" * 9_000)
    assert len(str(caught.value)) < 300


def test_a_count_may_begin_with_zeros() -> None:
    automaton = compiled("a{0000000000002}")
    assert [text for text in ("", "a", "aa", "aaa") if automaton.matches(text)] == ["aa"]


def test_classes_take_the_narrower_of_two_readings() -> None:
    assert [c for c in "5٣a_é \u2003\ufeff-" if compiled(r"\d").matches(c)] == ["5"]
    assert [c for c in "5٣a_é \u2003\ufeff-" if compiled(r"\D").matches(c)] == [*"a_é \u2003\ufeff-"]
    assert [c for c in "5٣a_é \u2003\ufeff-" if compiled(r"\W").matches(c)] == [*" \u2003\ufeff-"]
    assert [c for c in "5٣a_é \u2003\ufeff-" if compiled(r"\S").matches(c)] == [*"5٣a_é-"]
    assert [c for c in "5٣a_é \u2003\ufeff-" if compiled(r"[^\w]").matches(c)] == [*" \u2003\ufeff-"]
    assert [c for c in "5٣a_é \u2003\ufeff-" if compiled(r"[^\W]").matches(c)] == [*"5a_"]


@pytest.mark.parametrize(
    "ranges",
    [
        [(0, 0x10FFFF)],
        [(0x7F, 0x80)],
        [(0x7FF, 0x800)],
        [(0xD700, 0xE010)],
        [(0xFFFF, 0x10000)],
        [(0x41, 0x41), (0x1F600, 0x1F64F)],
        [(0x80, 0x10FFFE)],
    ],
)
def test_characters_are_spelled_in_utf8(ranges: list[tuple[int, int]]) -> None:
    automaton = compile_bytes(Chars(charset.make(ranges)))
    borders = {code + step for low, high in ranges for code in (low, high) for step in (-1, 0, 1)}
    for code in (*borders, 0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF):
        if 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
            assert automaton.matches(chr(code)) == any(low <= code <= high for low, high in ranges)
    assert not automaton.matches("")
    assert automaton.next_SB[:, 0xF5:].max() == automaton.next_SB[:, 0xC0:0xC2].max() == -1


def test_sets_of_characters() -> None:
    one, other = charset.make([(5, 9), (1, 3), (4, 4)]), charset.of("\x02\x08a")
    assert one == ((1, 9),)
    assert charset.intersection(one, other) == charset.of("\x02\x08")
    assert charset.difference(other, one) == charset.of("a")
    assert charset.complement(charset.complement(other)) == other
    assert charset.complement(charset.ANY) == ()
    assert charset.make([(0xD800, 0xDFFF)]) == ()


# What a pattern cannot say


def test_parts_that_may_be_missing_take_their_separator_along() -> None:
    automaton = compile_bytes(Joined(((Text("a"), False), (Text("b"), True), (Text("c"), False)), ", "))
    texts = {"b", "a, b", "b, c", "a, b, c"}
    for text in (*texts, "", "a", "c", ", b", "a, c", "b, ", "a b", "b, a"):
        assert automaton.matches(text) == (text in texts)
    none = compile_bytes(Joined(((Text("a"), False), (Text("b"), False)), "-"))
    assert [text for text in ("", "a", "b", "a-b", "-b", "a-") if none.matches(text)] == ["", "a", "b", "a-b"]


def test_intersections_and_multiples() -> None:
    automaton = compile_bytes(Intersection((Multiples(7), parse("[1-9][0-9]{0,3}"), parse("^[0-8]+$"))))
    for value in range(3000):
        assert automaton.matches(str(value)) == (value > 0 and value % 7 == 0 and "9" not in str(value))
    assert compile_bytes(Intersection((Text("a"), Text("b")))).empty
    inside = compile_bytes(sequence(Text("<"), Intersection((parse("^a*$"), parse("(aa)+"))), Text(">")))
    assert [text for text in ("<>", "<a>", "<aa>", "<aaaa>", "aa") if inside.matches(text)] == ["<aa>", "<aaaa>"]


def test_repetitions_with_separators() -> None:
    for least, most in ((0, None), (1, None), (2, None), (0, 3), (2, 3), (0, 1)):
        automaton = compile_bytes(Repeat(Text("a"), least, most, ","))
        for count in range(6):
            expected = least <= count <= (9 if most is None else most)
            assert automaton.matches(",".join("a" * count)) == expected
        assert not automaton.matches("a,")
        assert not automaton.matches(",a")


def test_the_empty_language_disappears() -> None:
    assert sequence(Text("a"), NEVER) == NEVER
    assert union([NEVER, Text("a"), Text("a")]) == Text("a")
    assert repeat(NEVER, 0, 3) == EMPTY
    assert repeat(NEVER, 1) == NEVER
    assert compile_bytes(NEVER).empty
    assert not compile_bytes(EMPTY).empty
    assert compile_bytes(choices(["a.", "b|c"])).matches("b|c")


def test_automata_are_minimal() -> None:
    for one, other in (("(a|b)*a", "b*a(b*a)*"), ("a|b|c", "[a-c]"), ("(ab|ac)d", "a[bc]d"), ("aa*", "a+")):
        first, second = compiled(one), compiled(other)
        assert len(first.accepting_S) == len(second.accepting_S) == len(intersect(first, second).accepting_S)
    assert len(compiled("(a|b)*a(a|b){5}").accepting_S) == 64


def test_what_is_too_large_is_refused() -> None:
    with within(Budget(max_states=500)):
        with pytest.raises(OptionError, match="more than 500 states"):
            compiled("(a|b)*a(a|b){30}")
        with pytest.raises(OptionError, match="more than 500 states"):
            intersect(compiled("(a{37})*"), compiled("(a{41})*"))
    with pytest.raises(OptionError, match="spelled out"):
        compiled("((a|aa){100}){9999}")
    with within(Budget(10**9, max_seconds=0.02)), pytest.raises(OptionError, match=r"takes more than 0.02 s"):
        compiled("(a|b)*a(a|b){30}")


FLAGGED = [
    "(?i)abc[k-m]é",
    "(?i:ab)c",
    "(?s)a.b",
    "(?is)[^a].",
    "a(?i:b|(?s:.))C",
    "(?i)\\x41ß|[^s]k",
    "(?i)[^i]",
    "(?i)(?!I)..",
]


@pytest.mark.parametrize("pattern", FLAGGED)
def test_flags_are_those_of_python(pattern: str) -> None:
    automaton = compile_bytes(parse(pattern))
    texts = [
        "ABCLÉ",
        "abckE",
        "abcmé",
        "ABC",
        "aBc",
        "aBC",
        "a\nb",
        "A.b",
        "b\n",
        "Bé",
        "\n\n",
        "a\nC",
        "aß",
        "AẞC",
        "\u212ak",
        "\u0130",
        "\u0130x",
        "j",
    ]
    texts += ["".join(pair) for pair in itertools.product("aAbBcCkKsS\u017f\u212a\n", repeat=2)]
    taken = {text for text in texts if automaton.matches(text)}
    true = {text for text in texts if re.fullmatch(pattern, text)}
    assert taken <= true
    assert {text for text in true if text.isascii()} <= taken


UNICODE = [
    "^\\p{L}+$",
    "^\\p{Lu}\\P{L}$",
    "^[\\p{Letter}\\d_]+$",
    "^\\p{General_Category=Nd}$",
    "^[^\\p{Lu}]$",
    "\\p{Sc}",
]


@pytest.mark.parametrize("pattern", UNICODE)
def test_unicode_classes_are_general_categories(pattern: str) -> None:
    automaton = compile_bytes(parse_search(pattern))
    for text in ("éA", "É1", "日本", "_1", "a", "1", "Ä", "٣", "€", "a€", ""):
        python = pattern.replace("General_Category=", "")
        expected = re.search(_without_classes(python), text, re.ASCII) is not None
        assert automaton.matches(text) == expected, text
    # Not assigned in every version of Unicode.
    assert not automaton.matches("\u0378")


def _without_classes(pattern: str) -> str:
    """The pattern with its classes spelled out, of the characters that are asked for."""
    names = {"Letter": "L"}

    def spelled(match: re.Match[str]) -> str:
        name = names.get(match[2], match[2])
        chars = "".join(c for c in "éAÉ1日本_aÄ٣€" if unicodedata.category(c).startswith(name) != (match[1] == "P"))
        return chars if _inside(match) else f"[{chars}]"

    def _inside(match: re.Match[str]) -> bool:
        return match.string.rfind("[", 0, match.start()) > match.string.rfind("]", 0, match.start())

    return re.sub(r"\\([pP])\{(\w+)\}", spelled, pattern)


@pytest.mark.parametrize(
    ("pattern", "what"),
    [("\\p{Script=Greek}", "Unicode class {Script=Greek} is not"), ("\\p{Foo}", "{Foo}"), ("\\pL", "without a name")],
)
def test_other_unicode_classes_are_refused_by_name(pattern: str, what: str) -> None:
    with pytest.raises(OptionError, match=what):
        parse_search(pattern)


def test_word_boundaries_are_those_of_re() -> None:
    generator = random.Random(0)
    texts = ["".join(text) for length in range(5) for text in itertools.product("a -", repeat=length)]
    atoms = ["a", "a*", " ?", "-", "[a ]", "(a|-)+", r"\w+", r"\W*", ".", "(?:a -)?"]
    matched = 0
    for _ in range(cases(5, 200)):
        parts = generator.choices(atoms, k=generator.randint(1, 4))
        for _ in range(generator.randint(1, 2)):
            parts.insert(generator.randint(0, len(parts)), generator.choice([r"\b", r"\b", r"\B"]))
        pattern = "".join(
            [*generator.choices(["", "^"], [4, 1]), *parts, *generator.choices(["", "$", r"| |a\b"], [4, 1, 1])]
        )
        whole, anywhere = compiled(pattern), compile_bytes(parse_search(pattern))
        for text in texts:
            # Python's finds no place that is no boundary in an empty text, ECMAScript's does.
            if text or r"\B" not in pattern:
                assert whole.matches(text) == bool(re.fullmatch(pattern, text)), (pattern, text)
                assert anywhere.matches(text) == bool(re.search(pattern, text)), (pattern, text)
                matched += whole.matches(text)
    assert matched > 5


IN_GROUPS = [
    r"(?:\ba|-)b?", r"a*(-|\b)a", r"(?:(?=a)[ab]|-)b", r"(?:(?!a|b-)[ab-])?b*", r"(-\b|a){2}", r"(?:\Ba|b\b){1,2}?-",
    r"(?:a(?:-|\b(?:b|-))|-)a|(?P<n>\b)b", r"(?i)(?:\bA|B)-?", r"[(]?(?:\)|\b)[)(]?a", r"(?:x|a\b|)??b?",
    r"(?:[]|(?=)]|\ba)b?", r"^(?:a|(?=b)b|-(?!a))$|(?:^-|\Bb)a",
]  # fmt: skip


@pytest.mark.parametrize("pattern", IN_GROUPS)
def test_assertions_in_groups_are_those_of_re(pattern: str) -> None:
    found = [(compiled(pattern), re.fullmatch)]
    if not any(mark in pattern for mark in ("(?P<", "(?i", "[]")):
        found.append((compile_bytes(parse_search(pattern)), re.search))
    texts = ["".join(letters) for length in range(1, 5) for letters in itertools.product("abB-(", repeat=length)]
    for automaton, read in found:
        assert [text for text in texts if automaton.matches(text)] == [text for text in texts if read(pattern, text)]
        assert any(map(automaton.matches, texts))


def test_groups_in_a_schema_are_those_of_ecmascript() -> None:
    with pytest.raises(OptionError, match="a flag is not supported"):
        parse_search(r"(?P<n>\bfoo|bar)")
    taken = compile_bytes(parse_search(r"^(?<n>\bfoo|bar)(?:\b.*|)$"))
    texts = ("foo", "bar", "foo-x", "foox", "bary", "xfoo")
    assert [text for text in texts if taken.matches(text)] == ["foo", "bar", "foo-x"]


def test_a_group_that_would_be_multiplied_out_to_too_much_is_refused() -> None:
    with pytest.raises(OptionError, match="look-ahead in a group"):
        parse(r"(?:a|b|c|d\b)" * 2 + "(?:a|b|c|(?=d)d)" * 7)


def test_word_boundaries_where_dialects_differ() -> None:
    # é is a letter to Python, and none to ECMAScript: no text depends on which.
    assert not compiled(r"a\b.*").matches("aé")
    assert not compile_bytes(parse_search(r"a\b")).matches("aé")
    assert compile_bytes(parse_search(r"a\b", wide=True)).matches("aé")
    assert not compiled(r"\B").matches("")
    with pytest.raises(OptionError, match="behind a look-ahead"):
        parse(r"(?=a)\ba")
    assert [compiled(r"\b(?=ab)\w+").matches(text) for text in ("abc", "ac")] == [True, False]


@pytest.mark.parametrize("pattern", [r"^(?!^ab|cd)[a-d]*$", r"^(?!^ab$)[a-d]+", r"^(?!a[^c]|^d)[a-d]{2}"])
def test_the_begin_in_a_look_ahead_at_the_begin(pattern: str) -> None:
    """It is there already; Python reads it so too."""
    automaton = compile_bytes(parse_search(pattern))
    for length in range(5):
        for letters in itertools.product("abcd", repeat=length):
            text = "".join(letters)
            assert automaton.matches(text) == (re.search(pattern, text) is not None), text


BOUNDED = [
    r"^(?!.*\bab\b)[ab-]*$", r"^(?=.*\bab\b).*$", r"^(?=\bab\b|b)[ab-]+$", r"^(?!a\b$)a?[ab-]*$", r"^(?!-*b\Bb)[ab-]+$",
    r"^(?=.*\ba\b)(?!.*\bb\b).*$", r"^(?!.*\b(?:a|bb)\b).*$", r"^[a-](?!b)|^(?!.*\bb\b)b",
]  # fmt: skip


@pytest.mark.parametrize("pattern", BOUNDED)
def test_word_boundaries_in_a_look_ahead_at_the_begin_are_those_of_re(pattern: str) -> None:
    texts = ["".join(letters) for length in range(1, 6) for letters in itertools.product("ab-", repeat=length)]
    for automaton, read in ((compiled(pattern), re.fullmatch), (compile_bytes(parse_search(pattern)), re.search)):
        taken = [text for text in texts if read(pattern, text)]
        assert 0 < len(taken) < len(texts)
        assert [text for text in texts if automaton.matches(text)] == taken


@pytest.mark.parametrize("pattern", [r"a(?!\bb)b", r"a(?=b\b)b", r"(?:^|a)(?!\bb)b"])
def test_word_boundaries_in_a_look_ahead_elsewhere_are_refused(pattern: str) -> None:
    with pytest.raises(OptionError, match="a word boundary in a group"):
        parse(pattern)
    with pytest.raises(OptionError, match="a word boundary in a group"):
        parse(r"(?!\bab)[a-z]+", part=True)


def test_the_begin_in_a_look_ahead_elsewhere_is_refused() -> None:
    with pytest.raises(OptionError, match="not at the begin"):
        parse_search("a(?!^b)c")


EDGES = [
    r"(?=ab\Z)[ab]+", r"(?!ab\Z)[ab]+", r"(?=.*b\Z)a*[ab]", r"a(?!b\Z)[ab]*", r"\Aa+\Z|b\Z", r"(?=\Aa)[ab]*",
    r"b|(?=^a)[ab]*", r"(?!\A(?:a|b\Z))[ab]*", r"(?=[^$]*[$^])[ab$^]*", r"(?=a)[ab^]+", r"(?![ab]+[$^]{1})[ab^$]*",
    r"(?=a)\Aa", r"(?=a)(?:b|^a)", r"(?!.*b)^[ab]+", r"(?=a)(?!^ab)[ab]+", r"b|(?=.*b\Z)(?=\Aa)[ab]*",
]  # fmt: skip


@pytest.mark.parametrize("pattern", EDGES)
def test_anchors_in_a_look_ahead_and_behind_it_are_those_of_re(pattern: str) -> None:
    texts = ["".join(letters) for length in range(5) for letters in itertools.product("ab^$", repeat=length)]
    taken = [text for text in texts if re.fullmatch(pattern, text)]
    assert 0 < len(taken) < len(texts)
    # Rust's and later Pythons' name for the end is another one.
    for written in (pattern, pattern.replace(r"\Z", r"\z")):
        automaton = compiled(written)
        assert [text for text in texts if automaton.matches(text)] == taken


@pytest.mark.parametrize("pattern", [r"x(?=\Aa)a", r"x(?!^a)a", r"x(?=a)\Aa", r"x(?=a)(?:b|^a)"])
def test_a_begin_that_may_be_elsewhere_is_refused(pattern: str) -> None:
    with pytest.raises(OptionError, match=r"\^"):
        parse(pattern)


def test_general_categories_where_case_is_ignored() -> None:
    # Rust's \P{Lu} has no letter of either case then, ECMAScript's has all.
    taken = {p: [c for c in "aA1\u01c5é٣" if compiled(p).matches(c)] for p in (r"\p{Lu}", r"(?i)\p{Lu}", r"(?i)\P{Lu}")}
    assert taken == {r"\p{Lu}": ["A"], r"(?i)\p{Lu}": ["a", "A", "é"], r"(?i)\P{Lu}": ["1", "٣"]}


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("\\u{41", "a character's number is not finished at character 0"),
        ("b\\x{41a", "a character's number is not finished at character 1"),
        ("[a\\u{41]", "a character's number is not finished"),
        ("a(?<ab", "a group without a proper name at character 1"),
    ],
)
def test_what_is_not_closed_is_refused(pattern: str, what: str) -> None:
    with pytest.raises(OptionError, match=what):
        parse(pattern)
    with pytest.raises(OptionError):
        parse_search(pattern)
