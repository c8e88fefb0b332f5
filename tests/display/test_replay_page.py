"""The page of a replay: whole, quiet, and harmless whatever the model wrote."""

import json
import re
from html import unescape
from typing import Any

import pytest

from display.test_html import EVIL, HIDDEN
from gesso.display.replay import in_frame, lines_of, replay_page
from gesso.studio import PageFile, page_files
from gesso.studio.bundle import script_of

TRICKS = (EVIL, HIDDEN, "</script><!--<script>", "%DATA%%ANSWER%", "\u2028\u2029", "]]>", "&quot;", "\\", "__proto__")


def rows(*pieces: str, prompt: str = "p") -> list[dict[str, Any]]:
    """A trace of one step."""
    count = len(pieces)
    draft = {"seconds": 0.1, "event": "draft", "canvas": 0, "step": 1, "max_denoising_steps": 9, "temperature": 0.5}
    lists = {"tokens": [30] * count, "pieces": pieces, "accepted": [True] * count, "entropy": [0.01] * count}
    return [{"gesso_trace": 1, "model": "m", "prompt": prompt, "special": []}, {**draft, **lists}]


def data_of(page: str) -> list[dict[str, Any]]:
    """The rows of the trace that a page holds."""
    found = re.findall(r'<script id="trace" type="application/jsonl">(.*?)</script>', page, re.DOTALL)
    assert len(found) == 1
    return [json.loads(line) for line in found[0].rstrip("\n").split("\n")]


def test_a_page_holds_its_trace_and_the_studio_that_shows_it() -> None:
    given = rows("a", "b")
    page = replay_page(given, answer="all", note="out of memory")
    assert data_of(page) == json.loads(json.dumps(given))
    assert '<pre dir="auto">all</pre>' in page
    assert '<p class="warning" dir="auto">out of memory</p>' in page
    for name in ("class CanvasView", "class Player", "class HistoryView", "function recordingOf"):
        assert page.count(name) == 1, name


def test_the_script_is_that_of_the_studio_and_whole() -> None:
    script = script_of("replay/main.js")
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    assert "</" not in script
    for name in ("canvas/panel.js", "ui/dom.js", "run/trace.js"):
        code = page_files()[name].content.decode()
        for line in re.findall(r"^  +[a-z#]\w+\(.*\) \{$", code, re.MULTILINE):
            assert line in script, (name, line)


def test_a_module_that_does_not_fit_a_script_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for source in ('import * as x from "./x.js";\n', "export default 1;\n", "import.meta.url;\n", '"</script>";\n'):
        files = {"x.js": PageFile(source.encode(), "text/javascript")}
        monkeypatch.setattr("gesso.studio.bundle.page_files", lambda files=files: files)
        with pytest.raises(ValueError, match=r"x\.js: .* cannot stand in one script"):
            script_of.__wrapped__("x.js")


@pytest.mark.parametrize("text", TRICKS)
def test_whatever_a_model_wrote_ends_no_element(text: str) -> None:
    plain = replay_page(rows("x"), answer="x", note="x")
    page = replay_page(rows(text, prompt=text), answer=text, note=text)
    page.encode("utf-8")
    assert page.count("<") == plain.count("<"), "no tag is added"
    head, draft = data_of(page)
    assert draft["pieces"] == [head["prompt"]] == [text]
    inside = in_frame(page, 3)
    assert inside.count("<") == 2
    assert inside.count('"') == 6, "no attribute is added"


def test_a_page_asks_no_network() -> None:
    page = replay_page(rows("x"))
    assert "default-src 'none'" in page
    assert not re.search(r"https?:|//[a-z]|src=|href=|@import|url\((?!.data:)", page)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(", page)


def test_a_frame_of_a_notebook_has_no_origin_and_holds_the_page() -> None:
    page = replay_page(rows('a"b'))
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
