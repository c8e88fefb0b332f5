"""The page of a replay: whole, quiet, and harmless whatever the model wrote."""

import json
import re
from html import unescape

import pytest

from display.test_html import EVIL, HIDDEN
from gesso.display.replay import Frame, in_frame, lines_of, replay_page

TRICKS = (EVIL, HIDDEN, "</script><!--<script>", "%DATA%%ANSWER%", "\u2028\u2029", "]]>", "&quot;", "\\", "__proto__")


def frame(*pieces: str | None, blocks: int = 0) -> Frame:
    count = len(pieces)
    return Frame(blocks, pieces, [0.01, 0.1, 1.0, 9.0][:count], [True, False, True, False][:count], "step 1")


def data_of(page: str) -> dict[str, object]:
    found = re.findall(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])  # type: ignore[no-any-return]


def test_a_page_holds_its_steps() -> None:
    frames = [frame("a", "b", None, "a"), frame("c", "b", None, "a", blocks=1)]
    page = replay_page(frames, [("hm", "text")], prompt="p", answer="all", summary="stop")
    data = data_of(page)
    assert data["pieces"] == ["a", "b", "c"]
    first, second = data["frames"]  # type: ignore[misc]
    assert first == {
        "blocks": 0, "tokens": [0, 1, -1, 0], "bands": "0123", "entropy": [0.01, 0.1, 1.0, 9.0], "accepted": "1010",
        "status": "step 1",
    }  # fmt: skip
    assert (second["blocks"], second["tokens"]) == (1, [2, 1, -1, 0])
    assert (data["prompt"], data["summary"], data["blocks"]) == ("p", "stop", [{"reasoning": "hm", "text": "text"}])
    assert '<pre id="canvas">all</pre>' in page


@pytest.mark.parametrize("text", TRICKS)
def test_whatever_a_model_wrote_ends_no_element(text: str) -> None:
    plain = replay_page([frame("x")], [("x", "x")], prompt="x", answer="x", summary="x")
    page = replay_page([frame(text)], [(text, text)], prompt=text, answer=text, summary=text)
    page.encode("utf-8")
    assert page.count("<") == plain.count("<"), "no tag is added"
    data = data_of(page)
    assert data["pieces"] == [data["prompt"]]
    inside = in_frame(page, 3)
    assert inside.count("<") == 2
    assert inside.count('"') == 6, "no attribute is added"


def test_a_page_asks_no_network() -> None:
    page = replay_page([frame("x")], [])
    assert "default-src 'none'" in page
    assert not re.search(r"https?:|//[a-z]|src=|href=|@import|url\(", page)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(", page)


def test_a_frame_of_a_notebook_has_no_origin_and_holds_the_page() -> None:
    page = replay_page([frame('a"b')], [])
    inside = in_frame(page, 1)
    assert 'sandbox="allow-scripts"' in inside
    assert "allow-same-origin" not in inside
    assert unescape(re.findall(r'srcdoc="(.*?)"', inside, re.DOTALL)[0]) == page


def test_a_frame_is_as_high_as_its_text() -> None:
    heights = [int(re.findall(r"height: (\d+)px", in_frame("", lines))[0]) for lines in (1, 10, 1000)]
    assert heights == sorted(heights)
    assert len(set(heights)) == 3
    assert heights[-1] < 1000
    assert (lines_of("a\nb"), lines_of("a" * 200)) == (2, 3)
