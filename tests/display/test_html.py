"""HTML of results: all that a model wrote is text in it, whatever it wrote."""

from html.parser import HTMLParser

import pytest

from gesso.control.choose import Choice, ChooseResult
from gesso.control.edit import EditResult, unified_diff
from gesso.control.fill import FilledHole, FillResult
from gesso.control.search import Candidate, SearchResult
from gesso.display import html
from gesso.engine.particles import ParticlesResult
from gesso.engine.result import GenerationResult
from gesso.text.tool_calls import ToolCall

EVIL = """<script>alert(1)</script>" onmouseover="alert(1)' x='<img src=x onerror=alert(1)></pre></details>&lt;b&gt;"""
HIDDEN = "a\x00b\x1b[31m\ud800c\x9bd\te\nf"


class Page(HTMLParser):
    """The tags of a page, its attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Page:
    page.encode("utf-8")
    found = Page(page)
    assert found.open == []
    assert found.attributes <= {"style"}
    assert not {"script", "img", "b"} & set(found.tags)
    return found


def generated(text: str, **more: object) -> GenerationResult:
    fields: dict[str, object] = {
        "reasoning": "", "token_ids": (1, 2), "finish_reason": "stop", "prompt_tokens": 3, "completion_tokens": 2,
        "denoising_steps": (2, 1), "converged": (True, True), "seed": 7, "seconds_to_first_block": 0.1, "seconds": 0.25,
    }  # fmt: skip
    return GenerationResult(text=text, **(fields | more))  # type: ignore[arg-type]


def test_an_answer() -> None:
    page = read(generated("fig\n  plum", reasoning="hm")._repr_html_())
    assert "fig\n  plum" in page.text
    assert "hm" in page.text
    for figure in ("2 tokens", "2 canvases", "3 steps", "0.25 s", "seed 7", "stop"):
        assert figure in page.text
    tokens = generated("x", mode="ar")._repr_html_()
    assert "token by token" in tokens
    assert "canvas" not in tokens
    assert "<details>" not in generated("x")._repr_html_()


def test_a_cancelled_answer_is_marked() -> None:
    assert "cancelled: the answer ends here, unfinished" in generated("x", finish_reason="cancelled")._repr_html_()


def holes(text: str) -> FillResult:
    return FillResult(text, (FilledHole(text, text, -0.5, 3, True, True, ()),), 9, 4, 7, True, 0.5)


def edited(text: str) -> EditResult:
    diff = unified_diff("a\nb\n", f"a\n{text}\n", text)
    return EditResult(f"a\n{text}\n", "a\n", "b", text, "\n", diff, generated(text), text)


def chosen(text: str) -> ChooseResult:
    return ChooseResult((Choice("other", 1, 0.3, -2.0, 0.2, -2.0), Choice(text, 1, 0.7, -1.0, 0.8, -1.0)), 5, 7)


def searched(text: str) -> SearchResult:
    best, other = (Candidate(generated(each), score, -0.25, 1) for each, score in ((text, 1.0), ("other", 0.5)))
    return SearchResult((other, best), best, "consistency", True, 6, 0)


def particles(text: str) -> ParticlesResult:
    return ParticlesResult((generated("other"), generated(text)), (0.25, 0.75), (0.4, 0.6), 8, 4, 1, 1)


EVERY = [
    lambda text: generated(text, reasoning=text, warnings=(text,), tool_calls=(ToolCall(text, text),)),
    holes, edited, chosen, searched, particles,
]  # fmt: skip


@pytest.mark.parametrize("make", EVERY)
@pytest.mark.parametrize("text", [EVIL, HIDDEN, "", "\u202e\u2066x", "a" * 10_000])
def test_what_a_model_wrote_is_text(make: object, text: str) -> None:
    page = read(make(text)._repr_html_())  # type: ignore[operator]
    assert html.clean(text).split("\n")[0] in page.text


def test_nobody_sees_control_characters() -> None:
    assert html.clean(HIDDEN) == "a\ufffdb\ufffd[31m\ufffdc\ufffdd\te\nf"
    assert html.clean("a\ufffeb\uffff") == "a\ufffdb\ufffd"  # no XML has them


def test_a_diff_has_colours() -> None:
    page = edited("c")._repr_html_()
    assert '<span style="color: #c62828">-b\n</span><span style="color: #2e7d32">+c\n</span>' in page


def test_answers_are_ranked() -> None:
    text = read(chosen("first")._repr_html_()).text
    assert text.index("first") < text.index("other")
    assert "80.0%" in text
    text = read(searched("first")._repr_html_()).text
    assert text.index("first") < text.index("other")
    assert "-0.25" in text
    assert "6 passes \N{MIDDLE DOT} chosen by consistency" in text


def test_particles_show_scores_and_weights() -> None:
    text = read(particles("first")._repr_html_()).text
    assert text.startswith("first")
    for figure in ("0.25", "0.75", "0.4", "0.6", "8 denoising passes", "1 resampling"):
        assert figure in text


def test_numbers_have_their_words() -> None:
    assert [html.count(n, "canvas", "canvases") for n in (0, 1, 2000)] == ["0 canvases", "1 canvas", "2,000 canvases"]
    assert html.count(1, "step") == "1 step"
