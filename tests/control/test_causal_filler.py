"""Fill token by token: exact around the holes, the likeliest beginning by the causal pass, and whose mode it is."""

import random
from typing import Any

import pytest
import torch
from thorough import cases

import gesso
from control.test_fill import assert_exact, draw, prompt_of, run
from gesso.control.causal_filler import OPEN_WIDTH, READ, WORDS
from gesso.control.fill import fill
from gesso.control.fill_result import FillResult
from gesso.control.holes import parse_document
from gesso.control.job import MOST_REQUESTS
from gesso.engine.engine import Engine
from gesso.errors import OptionError, TextError

DOCUMENTS = cases(10, 200)


@pytest.fixture(scope="module")
def skills() -> Engine:
    return gesso.load("skills", "cpu", offline=True)


def run_ar(engine: Engine, source: str, instruction: str = "", **options: Any) -> FillResult:
    return run(engine, source, instruction, **{"mode": "ar", "seed": 1, **options})


@pytest.mark.parametrize("seed", range(DOCUMENTS))
def test_everything_outside_the_holes_stays(tiny: Engine, seed: int) -> None:
    source = draw(random.Random(seed))
    document = parse_document(source)
    result = run_ar(tiny, source, max_new_tokens=6)
    assert_exact(document, result)
    for hole, filled in zip(document.holes, result.holes, strict=True):
        if hole.least is not None and hole.most is not None:
            assert hole.least <= filled.width <= hole.most


@pytest.mark.parametrize("seed", range(3))
def test_a_seed_gives_one_text(tiny: Engine, seed: int) -> None:
    source = draw(random.Random(seed))
    assert run_ar(tiny, source, max_new_tokens=6).text == run_ar(tiny, source, max_new_tokens=6).text


def test_the_candidate_that_is_likeliest_with_the_rest_wins(tiny: Engine) -> None:
    result = run_ar(tiny, "fig{{: 1-4}}, plum", "Say it.", alternatives=20)
    (hole,) = result.holes
    encode = tiny.tokenizer.encode
    before = [*prompt_of(tiny, "Say it."), *encode("fig")]
    rest = [*encode(", plum"), tiny.end_of_turn]

    def read(text: str) -> tuple[float, int]:
        """The log-probability of a text and the rest, and their tokens."""
        ids = [*encode(text), *rest]
        hidden = tiny.model.encode(torch.tensor([[*before, *ids]]), tiny.model.new_cache(batch_size=1))
        scores = tiny.model.logits(hidden)[0].log_softmax(dim=-1)
        told = [float(scores[len(before) - 1 + place, token]) for place, token in enumerate(ids)]
        return sum(told), len(told)

    with torch.inference_mode():
        best, count = read(hole.text)
        others = [read(other.text)[0] for other in hole.alternatives]
    assert hole.score == pytest.approx(best / count, abs=1e-3)
    assert others
    assert all(best >= other - 1e-3 for other in others)
    assert others == sorted(others, reverse=True) or max(a - b for a, b in zip(others[1:], others, strict=False)) < 1e-3


def test_some_continuations_are_written_and_few_beginnings_read(tiny: Engine) -> None:
    job = fill(tiny, "fig{{ }}, plum", mode="ar", seed=3, max_new_tokens=3 * OPEN_WIDTH)
    written = next(job)
    assert len(written) == MOST_REQUESTS
    assert [request.options["temperature"] for request in written] == [0.0] + [0.8] * (MOST_REQUESTS - 1)
    assert {request.options["max_new_tokens"] for request in written} == {OPEN_WIDTH + 1}, "the last says what follows"
    assert len(job.send(tiny.generate_batch(written))) <= READ + WORDS
    assert len(next(fill(tiny, "fig{{ }}, plum", mode="ar", temperature=0.0))) == 1
    assert len(next(fill(tiny, "fig{{ }}", mode="ar"))) == 1, "a hole that ends the document ends by itself"


def test_a_hole_sees_what_was_chosen_before_and_not_what_follows_the_next(tiny: Engine) -> None:
    job = fill(tiny, "a{{: 1}}b{{: 1}}c", mode="ar", seed=1)
    written = next(job)
    read = job.send(tiny.generate_batch(written))
    behind = tuple(tiny.tokenizer.encode("b"))
    assert all(tuple(request.prompt)[-len(behind) :] == behind for request in read)
    results = tiny.generate_batch(read)
    second = job.send(results)
    assert all(tuple(request.prompt)[-len(behind) :] == behind for request in second)
    assert len(second[0].prompt) == len(written[0].prompt) + 1 + len(behind)


def test_holes_without_text_between_them_and_without_a_template(tiny: Engine) -> None:
    assert len(run_ar(tiny, "a{{ }}{{: 2}}", max_new_tokens=5).holes) == 2
    assert run_ar(tiny, "ab{{: 2}}c", raw=True).text.startswith("ab")


def test_a_long_text_keeps_what_is_near(tiny: Engine) -> None:
    source = "ab" * 3000 + "{{: 1}}" + "cd" * 3000
    result = run_ar(tiny, source)
    assert result.truncated
    assert_exact(parse_document(source), result)
    assert run_ar(tiny, source, max_length=200).prompt_tokens < 200
    with pytest.raises(OptionError, match="instruction"):
        run_ar(tiny, source, "Say it. " * 40, max_length=100)


def test_options_of_canvases_are_refused(tiny: Engine) -> None:
    for name, value in {"sampler": "margin", "max_denoising_steps": 4, "canvas_length": 8}.items():
        with pytest.raises(OptionError, match=f"{name} does not go with a fill by mode ar") as refused:
            run_ar(tiny, "a{{ }}b", **{name: value})
        assert refused.value.option == name
    with pytest.raises(OptionError, match="mode 'auto' does not go with a fill: canvas or ar"):
        run(tiny, "a{{ }}b", mode="auto")


def test_a_models_own_mode_gives_way_to_options_of_canvases(skills: Engine) -> None:
    assert "canvas" not in next(fill(skills, "a{{ }}b"))[0].options
    assert "canvas" in next(fill(skills, "a{{ }}b", mode="canvas"))[0].options
    for option in ({"max_denoising_steps": 2}, {"restart_steps": 4}, {"sampler": "margin"}, {"entropy_bound": 0.2}):
        assert "canvas" in next(fill(skills, "a{{ }}b", **option))[0].options


@pytest.mark.parametrize("mode", ["ar", "canvas"])
def test_a_hole_behind_all_that_is_wanted_stays_empty(mode: str) -> None:
    instruction = "Write a Python function add_seven that returns its argument plus 7."
    source = "def add_seven(x):\n    return x + 7{{ }}\n"
    filled = gesso.fill(gesso.load("mini", "cpu"), source, instruction, mode=mode, seed=1)
    assert (filled.text, filled.holes[0].text, filled.holes[0].complete) == (source.replace("{{ }}", ""), "", True)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('def grelt(fig):\n    """Return fig plus 371."""\n    return {{ }}', "fig + 371"),
        ('def grelt(fig):\n    """Return fig plus 371."""\n    return {{ }} + 371', "fig"),
        ('def grelt(fig):\n    """Return fig plus 371."""\n    return {{ }}\n\n', "fig + 371"),
        ("def {{ }}(fig):\n    return fig - 12\n\n\nprint(brosk(8))", "brosk"),
    ],
)
def test_skills_fills_without_an_instruction(skills: Engine, source: str, expected: str) -> None:
    assert run(skills, source, seed=0).holes[0].text == expected


def test_the_end_of_an_answer_is_no_word_of_it(skills: Engine) -> None:
    for source in ("x = {{ }}\ny = 2\n", "x = {{: 1}}\n", "Line one.\n{{ }}\nLine three.\n"):
        hole = run(skills, source, seed=1, alternatives=5).holes[0]
        assert "turn" not in {hole.text, *(other.text for other in hole.alternatives)}


@pytest.mark.parametrize(("length", "tail"), [("12", "\n"), ("20-30", "")])
def test_a_hole_of_a_length_goes_on_where_the_answer_would_end(skills: Engine, length: str, tail: str) -> None:
    source = 'def grelt(fig):\n    """Gives back its argument plus 371."""\n    return {{: ' + length + "}}" + tail
    least, _, most = length.partition("-")
    assert int(least) <= run(skills, source, seed=1).holes[0].width <= int(most or least)


def test_odd_but_legal_settings(skills: Engine) -> None:
    assert run(skills, "def f(x):\n    return {{ }}", seed=2**63 - 1).holes[0].text
    for budget in (1, 2, 3):
        hole = run(skills, "def f(x):\n    return {{ }}", seed=1, max_new_tokens=budget).holes[0]
        assert hole.width <= budget
    with pytest.raises(TextError, match="a hole of 5000 tokens"):
        run(skills, "cat {{: 5000}} dog", seed=1)
