"""Grammars: what they mean, and what is refused by name."""

import pytest

from gesso.constraints import grammar as module
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.grammar import parse_grammar
from gesso.errors import OptionError

GREETING = r"""
// A comment, and
# another.
start: greeting ", " name+ ["!"]
greeting: "hello"
        | "good " ("day" | "night")
name ::= /[A-Z][a-z]*/ | "a".."f" ~ 2..4
"""


@pytest.mark.parametrize(
    ("grammar", "inside", "outside"),
    [
        (
            GREETING,
            ["hello, Bob!", "good night, abc", "hello, ABc", "hello, aabbcc!"],
            ["good , Bob", "hello, a", "hello"],
        ),
        ('root: "a"* "b"? "c"+', ["c", "aabc", "bcc"], ["", "b", "abbc"]),
        ('start: "x" ~ 3', ["xxx"], ["xx", "xxxx"]),
        ('start: ("a" | "b" "c") ~ 0..2 "d"', ["d", "ad", "abcd", "bcbcd"], ["aaad", "bd"]),
        ('start:\n  | "a"', ["", "a"], ["b"]),
        (r'start: "\u00e9\n\"" | /a\/b|c/', ['é\n"', "a/b", "c"], ["a"]),
        ('start: a a\na: b ["," b]\nb: "1" | "2"', ["12", "1,21,1"], ["1", "1,2"]),
        ('start: "//" /#+/ // "x"', ["//##"], ["//", "//##x"]),
        ("start: /^a$/ /b/", ["ab"], ["a"]),
    ],
)
def test_what_a_grammar_contains(grammar: str, inside: list[str], outside: list[str]) -> None:
    automaton = compile_bytes(parse_grammar(grammar))
    for text in inside:
        assert automaton.matches(text), text
    for text in outside:
        assert not automaton.matches(text), text


@pytest.mark.parametrize(
    ("grammar", "what"),
    [
        ('start: a\na: b\nb: "x" a?', r"the rule 'a' leads back to itself \(a -> b -> a\)"),
        ('start: "a" start | "b"', r"the rule 'start' leads back to itself \(start -> start\)"),
        ('other: "a"', "no rule named start"),
        ("", "no rule named start"),
        ('"a"', "line 1: a rule must start with its name"),
        ('start: "a"\nstart: "b"', "line 2: the rule 'start' is there already"),
        ('start: "a"\n\n%ignore /x/', "line 3: the directive %ignore is not supported"),
        ('start: "a"\n %import common.INT', "line 2: the directive %import"),
        ('start: "a"i', "line 1: the flag 'i' after \"a\" is not supported"),
        ("start: /a/x", "the flag 'x' after /a/ is not supported"),
        ('start: "a" -> name', "'->' is not expected here, in the rule 'start'"),
        ('start: nope "a"', "there is no rule named 'nope'"),
        ('?start: "a"', "'\\?' is not expected|must start with its name|not understood"),
        ('start.2: "a"', "must start with its name|not understood"),
        ('start: ("a"', r"an unmatched \("),
        ('start: ["a"', r"an unmatched \["),
        ('start: "a")', r"'\)' is not expected"),
        ("start: * ", r"'\*' is not expected"),
        ('start: "a" ~ 3..2', "3..2 repetitions"),
        ('start: "a" ~ 99999', "of at most 10000"),
        ('start: "a" ~', "the rule 'start' is not finished"),
        ('start: "b".."a"', "is no range of characters"),
        ('start: "ab".."c"', "is no range"),
        (r'start: "\x41"', "escapes are those of JSON"),
        (r'start: "\ud800"', "escapes are those of JSON"),
        ("start: 'a'", '"\'" is not understood'),
        ("start: /(a(?=b))/", "line 1: .*look-ahead is not supported"),
        ("start: {a}", r"'\{' is not understood"),
    ],
)
def test_what_is_not_supported_is_refused(grammar: str, what: str) -> None:
    with pytest.raises(OptionError, match=f"grammar.*({what})"):
        parse_grammar(grammar)


def test_rules_that_multiply_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = "\n".join(f"r{place}: r{place + 1} r{place + 1}" for place in range(30))
    with pytest.raises(OptionError, match="more than 100000 parts"):
        parse_grammar(f'start: r0\n{rules}\nr30: "a"')
    with pytest.raises(OptionError, match="rules lead to each other"):
        parse_grammar("start: r0\n" + "\n".join(f"r{place}: r{place + 1}" for place in range(200)) + '\nr200: "a"')
    monkeypatch.setattr(module, "MAX_DEPTH", 3)
    with pytest.raises(OptionError, match="groups in each other"):
        parse_grammar('start: (((("a"))))')
