"""Which part of a text is meant: cut without loss, and put back without loss."""

import time
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gesso.control.selection import Everything, Lines, Match, Parts, Passage, parts_of, selection_of
from gesso.errors import OptionError

TEXTS = st.text(st.sampled_from("ab \t\n\r\ufeff\u00e9\u2028\U0001f600"), max_size=40)
SIMPLE = st.lists(st.sampled_from(["", "a", "  b", "\tc d", "\u00e9\u2028x", "\x0c"]), min_size=1, max_size=8)


@given(lines=SIMPLE, end=st.sampled_from(["\n", "\r\n", "\r"]), last=st.booleans(), data=st.data())
def test_lines_are_cut_where_editors_count_them(lines: list[str], end: str, last: bool, data: st.DataObject) -> None:
    lines = [*lines, "end"]
    first = data.draw(st.integers(1, len(lines)))
    upto = data.draw(st.integers(first, len(lines)))
    text = end.join(lines) + (end if last else "")
    before, selected, after = Lines(first, upto).of(text)
    assert before + selected + after == text
    assert selected == end.join(lines[first - 1 : upto])
    assert after == "" or after.startswith(end)


@given(text=TEXTS, data=st.data())
def test_whatever_the_text_the_parts_are_the_text(text: str, data: st.DataObject) -> None:
    count = len(text.splitlines()) if "\u2028" not in text else 1
    selection = data.draw(st.sampled_from([Everything(), Lines(1, max(1, count)), Lines(max(1, count), max(1, count))]))
    if text or isinstance(selection, Everything):
        parts = selection.of(text)
        assert "".join(parts) == text
        assert not parts.after.strip("\r\n") or not isinstance(selection, Everything)


def test_the_end_of_the_last_line_stays_outside() -> None:
    assert Lines(2, 3).of("a\r\nb\nc\r\nd") == ("a\r\n", "b\nc", "\r\nd")
    assert Lines(1, 1).of("\n") == ("", "", "\n")
    assert Lines(2, 2).of("a\nb") == ("a\n", "b", "")


@pytest.mark.parametrize(("written", "lines"), [("10-24", (10, 24)), ("7", (7, 7)), (" 1 - 2 ", (1, 2))])
def test_lines_as_they_are_written(written: str, lines: tuple[int, int]) -> None:
    assert Lines.parse(written) == Lines(*lines)


@pytest.mark.parametrize("written", ["", "a", "1-", "-3", "1-2-3", "1,2", "1.5", "\u0661"])
def test_what_means_no_lines_is_refused(written: str) -> None:
    with pytest.raises(OptionError, match=r"^lines must be a line such as 10 or a range such as 10-24, got"):
        Lines.parse(written)


@pytest.mark.parametrize(
    ("written", "text", "message"),
    [
        ("0-3", "a", "^lines are counted from 1, got 0"),
        ("5-3", "a", "^lines must be in order, got 5-3"),
        ("2", "a\n", "^lines: the text has 1, so there is no line 2"),
        ("1-4", "a\nb\nc", "^lines: the text has 3, so there is no line 4"),
        ("1", "", "^lines: the text has 0, so there is no line 1"),
    ],
)
def test_impossible_lines_are_refused(written: str, text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Lines.parse(written).of(text)


def test_a_match_is_the_only_one() -> None:
    assert Match("b\r\nc").of("ab\r\ncd") == ("a", "b\r\nc", "d")
    assert Match(".*").of("a.*b") == ("a", ".*", "b")
    for text, count in (("aXbXc", 2), ("abc", 0), ("XXX", 3)):
        with pytest.raises(OptionError, match=f"^match must occur exactly once in the text, it occurs {count} times"):
            Match("X").of(text)
    with pytest.raises(OptionError, match="it occurs 2 times"):
        Match("aa").of("aaa")
    with pytest.raises(OptionError, match="it occurs 100 times and more"):
        Match("X").of("X" * 101)
    with pytest.raises(OptionError, match=r"it occurs 100 times$"):
        Match("X").of("X" * 100)
    with pytest.raises(OptionError, match=r"^match is empty"):
        Match("")


@pytest.mark.parametrize(("match", "text"), [(" " * 60_000 + "x", " " * 300_000), ("-" * 60_000, "-" * 300_000)])
def test_a_long_match_is_looked_for_in_a_moment(match: str, text: str) -> None:
    """Nobody else would run meanwhile; comparing it at every place took a minute."""
    before = time.process_time()
    with pytest.raises(OptionError, match="must occur exactly once"):
        Match(match).of(text)
    assert time.process_time() - before < 2


def test_one_selection_at_most() -> None:
    assert selection_of(None, None) == Everything()
    assert selection_of("3", None) == Lines(3, 3)
    assert selection_of(None, "x") == Match("x")
    with pytest.raises(OptionError, match=r"^match and lines contradict"):
        selection_of("3", "x")


@example(before="", selected=" \ufeff", after="")
@given(before=TEXTS, selected=TEXTS, after=TEXTS)
def test_a_passage_that_is_not_changed_comes_back_as_it_was(before: str, selected: str, after: str) -> None:
    passage = Passage.of(Parts(before, selected, after))
    assert passage.restore(passage.text) == selected
    assert passage.text == passage.text.rstrip()
    assert bool(passage.text) == bool(selected.removeprefix("\ufeff").strip()), "white text is not shown"


def test_a_passage_is_shown_plainly_and_put_back_in_its_place() -> None:
    passage = Passage.of(Parts("x\r\n", "\r\n    if a:\r\n\r\n        b\r\n  \r\n", "y"))
    assert passage.text == "if a:\n\n    b"
    assert passage.restore("if c:\n    d\n\n    e") == "\r\n    if c:\r\n        d\r\n\r\n        e\r\n  \r\n"
    assert passage.restore("\n \nc\n\n") == "\r\n    c\r\n  \r\n"


@pytest.mark.parametrize("around", ["\r\n", "\r", "\n"])
def test_one_line_that_becomes_two_has_the_line_end_of_the_text(around: str) -> None:
    assert Passage.of(Parts(f"x{around}", "a", f"{around}y")).restore("b\nc") == f"b{around}c"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_answer_s_line_ends_become_those_of_the_text(end: str) -> None:
    passage = Passage.of(Parts("", f"a{end}b{end}", ""))
    written = "x\r\ny" if end != "\n" else "x\ny"
    assert passage.restore(written) == f"x{end}y{end}"


def test_mixed_line_ends_are_shown_as_they_are() -> None:
    passage = Passage.of(Parts("", "a\r\nb\nc", ""))
    assert passage.text == "a\r\nb\nc"
    assert passage.restore("a\r\nd\nc") == "a\r\nd\nc"


def test_a_lone_carriage_return_stays() -> None:
    selected = "def f(x):\r\n    y = x\r\r\n    return x + 7"
    passage = Passage.of(Parts("", selected, ""))
    assert passage.restore(passage.text) == selected
    assert Passage.of(Parts("a\r", "b", "\nc")).line_end == "\r"


def test_a_byte_order_mark_stays() -> None:
    passage = Passage.of(Everything().of("\ufeffa\n"))
    assert (passage.text, passage.restore("b")) == ("a", "\ufeffb\n")


@pytest.mark.parametrize("make", [lambda: Lines("1", 2), lambda: Lines(1, 2.0), lambda: Match(5)])  # type: ignore[arg-type]
def test_what_is_no_number_or_text_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(OptionError, match=r"^(lines must be an integer|match must be a string), got "):
        make()


class Given:
    """Selects what it is given."""

    def __init__(self, parts: object) -> None:
        self._parts = parts

    def of(self, text: str) -> Parts:
        if isinstance(self._parts, Exception):
            raise self._parts
        return self._parts  # type: ignore[return-value]


def test_a_selection_of_ones_own_is_the_text_in_three_parts() -> None:
    for parts in (("a", "b", "c"), ["ab", "c", ""]):
        assert parts_of(Given(parts), "abc") == tuple(parts)
    for wrong in ((1, 2), ("a", "c", "b"), ("a", "bc"), "abc", None, (1, "bc", "a")):
        with pytest.raises(
            OptionError, match="must return three texts that are the text when they are joined"
        ) as error:
            parts_of(Given(wrong), "abc")
        assert error.value.option == "selection"
    with pytest.raises(OptionError, match="the selection failed: KeyError: 'x'"):
        parts_of(Given(KeyError("x")), "abc")
