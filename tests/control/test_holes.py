"""Documents with holes: what is read, and what is refused."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gesso.control.holes import MOST_HOLES, Document, Hole, escape, parse_document
from gesso.errors import TextError

TEXTS = st.text(st.sampled_from('{}: \t\r\n-2ae"é日') | st.characters(codec="utf-8"), max_size=12)
NAMES = st.text(st.sampled_from("ab é_.-3'") | st.characters(codec="utf-8"), max_size=8).filter(
    lambda name: not set(name) & set("{}:\r\n")
)


@pytest.mark.parametrize(
    ("around", "filled"),
    [
        ("a\r\nb\r\n", "x\r\ny\r\n"),
        ("a\nb\r\n", "x\ny\r\n"),
        ("a\nb", "x\ny\r\n"),
        ("ab", "x\ny\r\n"),
        ("a\rb\r", "x\ry\r"),
    ],
)
def test_lines_of_a_hole_end_as_all_others_do(around: str, filled: str) -> None:
    assert Document((around, ""), (Hole(),)).own_line_ends("x\ny\r\n") == filled


@pytest.mark.parametrize(
    ("written", "hole"),
    [
        ("{{}}", Hole()),
        ("{{ }}", Hole()),
        ("{{name}}", Hole("name")),
        ("{{ what he said }}", Hole("what he said")),
        ("{{name: 2-12}}", Hole("name", 2, 12)),
        ("{{name:5}}", Hole("name", 5, 5)),
        ("{{: 3}}", Hole("", 3, 3)),
        ("{{ : 3 - 4 }}", Hole("", 3, 4)),
    ],
)
def test_a_hole(written: str, hole: Hole) -> None:
    assert parse_document(f"a {written}\r\n") == Document(("a ", "\r\n"), (hole,))


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("{{{{x}} {{ }}", ("{{x}} ", "")),
        ("{{{ }}}", ("{", "}")),
        ("{{{{{{{ }}", ("{{{", "")),
        ("{{{{{{ }}", ("{{", "")),
        ("{{ }}{{ }}", ("", "", "")),
        ("}} {{ }} }}", ("}} ", " }}")),
        ("{ } {{ }}", ("{ } ", "")),
    ],
)
def test_braces_that_are_text(source: str, texts: tuple[str, ...]) -> None:
    assert parse_document(source).texts == texts


@given(data=st.data())
def test_what_is_written_is_read_back(data: st.DataObject) -> None:
    texts = data.draw(st.lists(TEXTS, min_size=2, max_size=6))
    names = [data.draw(NAMES) for _ in texts[1:]]
    lengths = [data.draw(st.none() | st.tuples(st.integers(1, 9), st.integers(0, 9))) for _ in names]
    holes = [
        Hole(name.strip()) if length is None else Hole(name.strip(), length[0], sum(length))
        for name, length in zip(names, lengths, strict=True)
    ]
    written = [
        f"{{{{{name}}}}}" if length is None else f"{{{{{name}: {length[0]}-{sum(length)}}}}}"
        for name, length in zip(names, lengths, strict=True)
    ]
    source = "".join(escape(text) + hole for text, hole in zip(texts, [*written, ""], strict=True))
    document = parse_document(source)
    assert document == Document(tuple(texts), tuple(holes))
    contents = [data.draw(TEXTS) for _ in holes]
    whole = "".join(text + content for text, content in zip(texts, [*contents, ""], strict=True))
    assert document.filled(contents).encode() == whole.encode()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "no hole"),
        ("all { here } is {{{{ }} text", "no hole"),
        ("a\nb {{ c", "line 2: {{ is not closed by }} on its line"),
        ("a\n{{ b\n}}", "line 2: {{ is not closed"),
        ("{{ {a} }}", "line 1: {{ is not closed"),
        ("\n\n{{a: b}}", "line 3: a length is a number of tokens or a range such as 2-12, not 'b'"),
        ("{{a:}}", "line 1: a length is"),
        ("{{a: 1-}}", "line 1: a length is"),
        ("{{a: 2: 3}}", "line 1: a length is"),
        ("{{: 0}}", "line 1: no hole has 0 tokens"),
        ("{{: 5-2}}", "line 1: no hole has 5-2 tokens"),
        ("{{ }}" * (MOST_HOLES + 1), f"{MOST_HOLES} are the most"),
    ],
)
def test_a_malformed_document_is_refused(source: str, message: str) -> None:
    with pytest.raises(TextError) as caught:
        parse_document(source)
    assert message in str(caught.value)


def test_many_holes_are_refused_in_a_moment() -> None:
    before = time.process_time()
    with pytest.raises(TextError, match="the text has 200000 holes; 64 are the most"):
        parse_document("{{}}\n" * 200_000)
    with pytest.raises(TextError, match=r"line 100001: \{\{ is not closed"):
        parse_document("{{{{\n" * 100_000 + "{{")
    assert time.process_time() - before < 4
