"""Grammars: what they mean, and what is refused by name."""

import pytest

from gesso.constraints import grammar as module
from gesso.constraints import grammar_rules
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.constraint import constraint
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
        ('other: "a"', "no rule named start"),
        ("", "no rule named start"),
        ('"a"', "line 1: a rule must start with its name"),
        ('start: "a"\nstart: "b"', "line 2: the rule 'start' is there already"),
        ('start: "a"\n\n%declare X', "line 3: the directive %declare is not supported"),
        ('start: "a"\n %import python.NAME', "line 2: %import python.NAME: only common.NAME can be imported"),
        ('start: "a"\n %import common.NONE', "line 2: .* there is no common.NONE"),
        ('start: "a" start "b"', "the rule 'start' never comes to an end"),
        ("start: a\na: b\nb: a", "never comes to an end"),
        ('start: t{"a"}\nt{x, y}: x y', "the template 't' needs 2 parameters"),
        ("start: t\nt{x}: x", "the template 't' needs 1 parameters"),
        ('root ::= "a" {3,1}', "3..1 repetitions"),
        ("root ::= [a", "'\\[' is not understood"),
        ("root ::= [[:alpha:]]", r"'\]' is not understood"),
        ("start: /a/x", "the flag 'x' after /a/ is not supported"),
        ('start: nope "a"', "there is no rule named 'nope'"),
        ('start.2: "a"', "line 1: the priority of the rule 'start' is not supported"),
        ('start: ("a"', r"an unmatched \("),
        ('start: ["a"', r"an unmatched \["),
        ('start: "a")', r"'\)' is not expected"),
        ("start: * ", r"'\*' is not expected"),
        ('start: "a" ~ 3..2', "3..2 repetitions"),
        ('start: "a" ~ 99999', "of at most 10000"),
        ('start: "a" ~', "the rule 'start' is not finished"),
        ('start: "b".."a"', "is no range of characters"),
        ('start: "ab".."c"', "is no range"),
        (r'start: "\q"', "escapes are those of JSON"),
        (r'start: "\["', "escapes are those of JSON"),
        (r'root ::= "\x4"', "escapes are those of JSON"),
        (r'root ::= "\UFFFFFFFF"', "escapes are those of JSON"),
        (r'start: "\ud800"', "escapes are those of JSON"),
        ("start: 'a'", '"\'" is not understood'),
        ("start: /(a(?=b))/", "line 1: .*look-ahead in a group"),
        ('start: /a(?=b)/ "b"', "line 1: .*a look-ahead at the end of what a terminal matches .* character 1"),
        (r'start: /a\b|c/ "b"', "line 1: .*a word boundary at an edge of what a terminal matches .* character 1"),
        (r'start: "b" /\ba/', "line 1: .*a word boundary at an edge of what a terminal matches .* character 0"),
        (r'start: /a\b-?/ "b"', "line 1: .*a word boundary at an edge of what a terminal matches .* character 1"),
        (r'start: /a(?=b)c*/ "b"', "line 1: .*a look-ahead at the end of what a terminal matches .* character 1"),
        ("start: {a}", r"'\{' is not expected here"),
        ('root ::= "a"{1 2}', r"line 1: '\{' is not understood"),
        # What never ends is found out at once, however long it is.
        ('root ::= "a"{' + " " * 20_000, r"line 1: '\{' is not understood"),
        ('start: "a"\n' + "b" * 20_000, "line 2: there is no rule named 'bbb"),
    ],
)
def test_what_is_not_supported_is_refused(grammar: str, what: str) -> None:
    with pytest.raises(OptionError, match=f"grammar.*({what})"):
        parse_grammar(grammar)


def test_rules_that_multiply_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = "\n".join(f"r{place}: r{place + 1} r{place + 1}" for place in range(30))
    with pytest.raises(OptionError, match="more than 10000000 parts"):
        parse_grammar(f'start: r0\n{rules}\nr30: "a"')
    templates = "\n".join(f"t{place}{{x}}: t{place + 1}{{x}} t{place + 1}{{x}}" for place in range(30))
    with pytest.raises(OptionError, match="more than 100000 parts, its templates"):
        parse_grammar(f'start: t0{{"b"}}\n{templates}\nt30{{x}}: x "a"')
    with pytest.raises(OptionError, match="rules lead to each other"):
        parse_grammar("start: r0\n" + "\n".join(f"r{place}: r{place + 1}" for place in range(200)) + '\nr200: "a"')
    monkeypatch.setattr(grammar_rules, "MAX_DEPTH", 3)
    with pytest.raises(OptionError, match="groups in each other"):
        parse_grammar('start: (((("a"))))')


CALCULATOR = r"""
?start: sum
?sum: product
    | sum "+" product   -> add
    | sum "-" product   -> sub
?product: atom
    | product "*" atom  -> mul
?atom: NUMBER           -> number
     | "-" atom         -> neg
     | "(" sum ")"
%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE
"""
AMBIGUOUS = r"""
start: e
e: e "+" e   -> add
 | e "*" e
 | "-" e
 | e "!"
 | "(" e ")"
 | /[0-9]+/
"""
JSON_GBNF = r"""
# Objects in objects.
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ws
ws ::= | " " | "\n" [ \t]{0,20}
"""
PROGRAM = r"""
root ::= function*
function ::= type name "(" (type name)? ")" block
block ::= "{" statement* "}"
type ::= ("int" | "float") " "
name ::= [a-z_] [a-z_0-9]*
statement ::= type name "=" sum ";" | name "=" sum ";" | name "(" list? ")" ";" | "return " sum ";"
  | "while(" test ")" block | "for(" type name "=" sum ";" test ";" name "=" sum ")" block
  | "if(" test ")" block ("else" block)? | "//" [^\n]* "\n"
test ::= sum ("<" | "==") sum
sum ::= product (("+" | "-") product)*
product ::= factor (("*" | "/") factor)*
factor ::= name | [0-9]+ | "-" factor | name "(" list? ")" | "(" sum ")"
list ::= sum ("," sum)*
"""
NESTED = "if(a<f(1,(b+2))){while(x==-1){x=g(h(3));}}else{return (1+2)*3;}"
NOTATIONS = [
    (PROGRAM, ["int f(){}", f"int f(int a){{{NESTED}//[x]\n}}"], ["int f(", "int f(){x=;}", "int f(){if(a){}}"]),
    (CALCULATOR, ["1", "1 + 2*3", " -1-(2 + 3)", "--1", "((1))*2", "1.5e3 "], ["", "1 +", "(1", "1 1", "+1"]),
    (JSON_GBNF, ["{}", '{"a": [1, true, {"b\\n": -1.5}]}', '{ "a":null}\n  '], ["[]", '{"a" 1}', '{"a": 01}']),
    (
        AMBIGUOUS,
        ["3*(1+2)", "(1+2)*3", "(1+2)+(3+4)", "((1+2))", "1+2+3*4", "--1!", "-1!+-2!!*(3)", "+".join("1" * 60)],
        ["", "1+", "+1", "(1", "1!2", "1-2", "()"],
    ),
    ('start: start start | "a"', ["a", "aa", "aaa"], ["", "b"]),
    ('start: start "," [start] start | "a"', ["a", "a,a", "a,aa"], ["", "a,", ",a"]),
    ('start: "a" start | "b"', ["b", "aab", "a" * 50 + "b"], ["", "a", "ba"]),
    ('start: start "," "x" | "x"', ["x", "x,x", ",".join("x" * 50)], ["", "x,", ",x"]),
    ('start: "(" start ")" | "x"', ["x", "(x)", "((x))"], ["(x", "((((((x))))))"]),
    ('start: "Ab1"i "c"', ["AB1c", "ab1c"], ["ab1C"]),
    ("start: /[a-c]x/i /./s", ["AXz", "bx\n"], ["dxz"]),
    ('start: _list{item, ","}\n_list{x, sep}: x (sep x)*\n!item: "a" | "b" -> named', ["a", "a,b,b"], ["", "a,", "ab"]),
    ('start: WORD "!"\nWORD: "a" "b"\n%ignore " "\n%ignore /#+/', ["ab!", " ab # ! ", "#ab!"], ["a b!", "ab"]),
    ("start: T [N]\n%import common (INT, CNAME)\nT: CNAME\nN: INT", ["a", "a_1", "b2"], ["1", ""]),
    ("start: W+\n%import common.ESCAPED_STRING -> W", ['"a"', '"a\\"b""c"'], ["a", '"a\\"']),
    # In GBNF's classes nothing but the first ^, the - between two, the backslash and ] means more than itself.
    (r"""root ::= [!"#$%&'()*+,-./:;<=>?@[\\\]^_`{|}~]""", list("![]\\^-./~"), ["", "a", " "]),
    ("root ::= [a&&b] [+--]", ["a+", "&,", "b-"], ["a.", "c+"]),
    ("root ::= [--0-] [^a^-]", ["-b", "/0", "0z"], [",b", "-a", "-^", "--"]),
    (r"root ::= [\x41-\u0043\U0001F600] [a\-z\n]", ["Aa", "B-", "C\n", "\U0001f600z"], ["Da", "Ab"]),
    (r'root ::= "\[\x41\]\\x41\U0001F600\x22"', ['[A]\\x41\U0001f600"'], ['[A]A\U0001f600"']),
    (r'start: "\x41\\x41\U0001F600"', ["A\\x41\U0001f600"], ["AA\U0001f600"]),
    (r"start: /\p{Lu}\P{L}/", ["\u00c91"], ["\u00e91", "\u00c9a"]),
    ('root ::= "a"{ 2 } "b"{1 , } "c"{,2}', ["aab", "aabbcc"], ["ab", "aa", "aabccc"]),
    ('root ::= item-a{2,3} (" " .)?\nitem-a ::= [^a-y] | "\\x41"', ["zA", "AAA é", "zz \n"], ["A", "aa", "AAAA"]),
]


@pytest.mark.parametrize(("grammar", "inside", "outside"), NOTATIONS)
def test_what_each_notation_means(grammar: str, inside: list[str], outside: list[str]) -> None:
    automaton = compile_bytes(parse_grammar(grammar))
    assert [text for text in inside if not automaton.matches(text)] == []
    assert [text for text in outside if automaton.matches(text)] == []


def test_rules_stand_in_each_other_as_deep_as_there_is_room_for() -> None:
    brackets = constraint(grammar='root ::= "(" root ")" | "x"')
    assert [depth for depth in range(8) if brackets.accepts("(" * depth + "x" + ")" * depth)] == [0, 1, 2, 3, 4]
    words = " | ".join(f'"{chr(97 + number)}" root "{number}" root' for number in range(9))
    large = constraint(grammar=f'root ::= {words} | "x"')
    assert large.accepts("abcx2x1x0x")
    assert not large.accepts("abcdx3x2x1x0x")
    assert large.size < module.MAX_STATES
