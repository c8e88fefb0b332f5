"""Replays as pictures: laid out whole, harmless, and moving only where that is wanted."""

import re
from io import BytesIO
from xml.etree import ElementTree

import pytest

from display.test_replay_page import TRICKS
from gesso.display.gif import gif_bytes
from gesso.display.layout import COLUMNS, Picture, Run, pictures
from gesso.display.replay import Frame
from gesso.display.svg import svg_page
from gesso.errors import OptionError

Image = pytest.importorskip("PIL.Image")
SVG = "{http://www.w3.org/2000/svg}"


def frame(*pieces: str | None, blocks: int = 0, entropy: float = 0.01, accepted: bool = True) -> Frame:
    count = len(pieces)
    return Frame(blocks, pieces, [entropy] * count, [accepted] * count, "step 1")


def text_of(picture: Picture) -> list[str]:
    lines = [""] * picture.lines
    for run in picture.runs:
        lines[run.line] = lines[run.line].ljust(run.column) + run.text
    return lines


def test_lines_are_wrapped_and_their_ends_marked() -> None:
    (one,) = pictures([frame("ab", "cd", "e\nf", None)], [], "", "", columns=3)
    assert text_of(one) == ["abc", "de\u21b5", "f\u00b7"]
    assert one.runs[0] == Run(0, 0, 3, "abc", "sure", True)


def test_prompt_and_what_is_committed_come_first_and_the_summary_last() -> None:
    first, last = pictures([frame("x"), frame("y", blocks=1)], [("hm ", "done ")], "ask", "stop")
    assert text_of(first) == ["ask", "", "x"]
    assert text_of(last) == ["ask", "", "hm done y"]
    assert (first.status, last.status) == ("step 1", "step 1 \u00b7 stop")


def test_certainty_has_four_looks_and_wide_characters_two_columns() -> None:
    frames = [frame("a", entropy=entropy, accepted=False) for entropy in (0.01, 0.1, 1.0, 2.0)]
    assert [one.runs[0].style for one in pictures(frames, [], "", "")] == ["sure", "likely", "open", "noise"]
    (one,) = pictures([frame("\u65e5\u672c", "e", "\u0301", "x")], [], "", "", columns=4)
    assert text_of(one) == ["\u65e5\u672c", "e\u0301x"]
    assert one.runs[0].columns == 4
    assert sum(run.columns for run in one.runs) == 6


def test_steps_of_too_much_text_are_refused_before_they_are_laid_out() -> None:
    """Each picture has all text before it: of a long answer they would be gigabytes."""
    blocks = [("", "x" * 256)] * 1000
    frames = [frame("y" * 256, blocks=number) for number in range(1000)]
    with pytest.raises(OptionError, match="all 1,000 steps would hold 129,128,000 characters, 20,000,000 at most"):
        pictures(frames, blocks, "ask!" * 250, "")
    assert len(pictures(frames[:9], blocks, "ask", "")) == 9


@pytest.mark.parametrize("text", TRICKS)
def test_an_svg_holds_whatever_a_model_wrote_as_text(text: str) -> None:
    page = svg_page(pictures([frame(text), frame(text, blocks=1)], [(text, text)], text, text), COLUMNS)
    tree = ElementTree.fromstring(page)
    assert {element.tag for element in tree.iter()} <= {
        SVG + tag for tag in ("svg", "style", "rect", "g", "text", "line")
    }
    assert not any(name.startswith("on") or "href" in name for element in tree.iter() for name in element.attrib)
    assert not re.search(r"https?:(?!//www\.w3\.org/2000/svg)|url\(|@import", re.sub(r"<text.*?</text>", "", page))


def test_an_svg_shows_one_step_at_a_time_or_the_last_alone() -> None:
    page = svg_page(pictures([frame(text) for text in "abc"], [], "", ""), COLUMNS)
    assert [group.attrib["class"] for group in ElementTree.fromstring(page).iter(SVG + "g")] == [
        "step s0",
        "step s1",
        "step s2",
    ]
    assert "@media (prefers-reduced-motion: reduce) { .step { animation: none; } .s2 { opacity: 1; } }" in page


def test_a_gif_has_every_step_and_its_time() -> None:
    made = pictures([frame("a", entropy=2.0), frame("b\u65e5", "x"), frame("c")], [], "p", "")
    image = Image.open(BytesIO(gif_bytes(made, COLUMNS)))
    times, looks = [], set()
    for number in range(image.n_frames):
        image.seek(number)
        times.append(image.info["duration"])
        looks.add(image.convert("RGB").tobytes())
    assert times == [300, 300, 2500]
    assert len(looks) == 3
    assert image.info["loop"] == 0
