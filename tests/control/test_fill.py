"""Fill: exact around the holes whatever the model says, and sensible where it says something sensible."""

import dataclasses
import json
import random
from typing import Any

import pytest
from engine.tiny import CANVAS
from thorough import cases

import gesso
from gesso.control.fill import INSTRUCTION, FillResult, fill
from gesso.control.holes import Document, Hole, escape, parse_document
from gesso.control.job import MOST_REQUESTS, run_job
from gesso.control.window import leading_space, spread_widths, widths_between
from gesso.engine.engine import Engine, Request
from gesso.errors import OptionError, TextError
from gesso.generation import LARGEST_BIAS

DOCUMENTS = cases(60, 1000)
PIECES = (
    "", " ", "a", "{", "}", "\t", "\r\n", "\n", "  \n", " fig", "def f(x):", "é", "日本", "🙂", "e\u0301", "\u00a0",
    "\u200d", "\x00", "0", "word ", "\ufeff", "<0x41>", "\ufffd", "{{", "plum, ",
)  # fmt: skip
HOLES = ("{{ }}", "{{name}}", "{{: 1-3}}", "{{a name: 2}}", "{{: 1-6}}")
QUICK = {"max_denoising_steps": 1, "max_new_tokens": 6}


@pytest.fixture(scope="module")
def mini() -> Engine:
    return gesso.load("mini", "cpu", offline=True)


def run(engine: Engine, document: Document | str, instruction: str = "", **options: Any) -> FillResult:
    return run_job(engine, fill(engine, document, instruction, **options))


def assert_exact(document: Document, result: FillResult) -> None:
    """What is outside the holes is there byte for byte, and what is in them is whole text."""
    expected = ""
    for text, hole in zip(document.texts, [*result.holes, None], strict=True):
        expected += text + (hole.text if hole is not None else "")
    assert result.text.encode() == expected.encode()
    assert all("\ufffd" not in hole.text for hole in result.holes)


def requests_of(engine: Engine, document: Document | str, instruction: str = "", **options: Any) -> list[Request]:
    """The first round."""
    return next(fill(engine, document, instruction, **options))


def prompt_of(engine: Engine, message: str) -> tuple[int, ...]:
    return engine.start(Request(message)).prompt.ids


def draw(rng: random.Random) -> str:
    texts = ["".join(rng.choices(PIECES, k=rng.choice((0, 1, 2, 5, 20)))) for _ in range(rng.randint(2, 4))]
    parts = [escape(text) + rng.choice(HOLES) for text in texts]
    return "".join(parts) + escape(texts[-1])


@pytest.mark.parametrize("part", range(10))
def test_random_documents_come_back_byte_for_byte(tiny: Engine, part: int) -> None:
    rng = random.Random(part)
    for _ in range(DOCUMENTS // 10):
        source = draw(rng)
        result = run(tiny, source, rng.choice(("", "Fill it.")), seed=rng.randrange(99), **QUICK)
        assert_exact(parse_document(source), result)


def test_random_documents_with_mini(mini: Engine) -> None:
    rng = random.Random(1)
    for _ in range(DOCUMENTS // 20):
        source = draw(rng)
        assert_exact(parse_document(source), run(mini, source, seed=rng.randrange(99), **QUICK))


@pytest.mark.parametrize("mode", ["canvas", "ar"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_model_reads_a_file_as_it_would_write_it(tiny: Engine, end: str, mode: str) -> None:
    """A byte order mark, the kind of line ends and white space behind the last word say nothing of a hole."""
    text = "fig:\n  {{ }}\n  apple"
    found = requests_of(tiny, f"\ufeff{text}\n\t\n".replace("\n", end), "Fill it.", seed=1, mode=mode)
    assert found == requests_of(tiny, text, "Fill it.", seed=1, mode=mode)


@pytest.mark.parametrize("mode", ["canvas", "ar"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_files_of_every_kind_are_filled_alike(mini: Engine, start: str, end: str, mode: str) -> None:
    ask = "Write a Python function add_seven that returns its argument plus 7."
    source = start + "def add_seven(x):\n    return {{ }} \n\n".replace("\n", end)
    assert run(mini, source, ask, seed=1, mode=mode).text == source.replace("{{ }}", "x + 7")
    whole = start + "{{ }}\n".replace("\n", end)
    written = "def add_seven(x):\n    return x + 7".replace("\n", end)
    assert run(mini, whole, ask, seed=1, mode=mode).text == whole.replace("{{ }}", written)


def test_a_hole_has_a_length_of_its_range(tiny: Engine) -> None:
    document = "fig {{: 2-4}}apple\n{{: 3}}, {{: 1-2}} pear"
    result = run(tiny, document, seed=3, alternatives=9)
    for hole, (least, most) in zip(result.holes, [(2, 4), (3, 3), (1, 2)], strict=True):
        for width in [hole.width, *(other.width for other in hole.alternatives)]:
            assert least <= width <= most
    assert result.holes[1].alternatives == ()


@pytest.mark.parametrize("seed", range(4))
def test_a_hole_behind_a_space_has_the_tokens_that_it_asks_for(mini: Engine, tiny: Engine, seed: int) -> None:
    """The space, where it is a token by itself, is none of them."""
    for engine in (mini, tiny):
        result = run(engine, "fig {{: 3}} apple", seed=seed, alternatives=9)
        (hole,) = result.holes
        encode = engine.tokenizer.encode
        for text in (hole.text, *(other.text for other in hole.alternatives)):
            ids = encode(" " + text)
            assert len(ids) - (engine.tokenizer.decode(ids[:1]) == " ") <= 3
        assert {hole.width, *(other.width for other in hole.alternatives)} == {3}


@pytest.mark.parametrize("most", [0, -1, True, 1.5])
def test_a_max_length_that_is_none_is_refused(tiny: Engine, most: Any) -> None:
    with pytest.raises(OptionError, match="max_length must be an integer of at least 1") as refused:
        run(tiny, "a{{: 1}}b", max_length=most)
    assert refused.value.option == "max_length"


def test_several_holes_see_what_was_chosen_before(tiny: Engine) -> None:
    job = fill(tiny, "a{{: 1}}b{{: 2}}c", seed=1, max_denoising_steps=2)
    (first,) = next(job)
    a, b, c = (tiny.tokenizer.encode(text) for text in "abc")
    rest = [*c, tiny.end_of_turn, tiny.pad_fill, tiny.pad_fill]
    assert first.options["canvas"] == [*a, None, *b, None, None, *rest][:CANVAS]
    results = tiny.generate_batch([first])
    (second,) = job.send(results)
    assert second.options["canvas"] == [*a, results[0].token_ids[1], *b, None, None, *rest][:CANVAS]


def test_the_score_is_what_reading_hole_and_rest_gives(tiny: Engine) -> None:
    import torch

    result = run(tiny, "fig{{: 1}}, plum", "Say it.", seed=2)
    (hole,) = result.holes
    encode = tiny.tokenizer.encode
    prompt = [*prompt_of(tiny, "Say it."), *encode("fig")]
    (request,) = requests_of(tiny, "fig{{: 1}}, plum", "Say it.", seed=2)
    ids = tiny.generate_batch([request])[0].token_ids[1:]
    assert tiny.tokenizer.decode(ids[:1]) == hole.text
    assert list(ids[1:]) == [*encode(", plum"), tiny.end_of_turn]
    cache = tiny.model.new_cache(batch_size=1)
    scores = tiny.model.logits(tiny.model.encode(torch.tensor([[*prompt, *ids]]), cache))[0].log_softmax(dim=-1)
    expected = [float(scores[len(prompt) - 1 + place, token]) for place, token in enumerate(ids)]
    assert hole.score == pytest.approx(sum(expected) / len(expected), abs=1e-3)


def test_the_best_score_wins_and_the_others_are_distinct(tiny: Engine) -> None:
    result = run(tiny, "fig{{: 1-6}}", seed=5, alternatives=20)
    (hole,) = result.holes
    scores = [other.score for other in hole.alternatives]
    texts = [other.text for other in hole.alternatives]
    assert scores == sorted(scores, reverse=True)
    assert all(hole.score >= score for score in scores)
    assert len({hole.text, *texts}) == len(texts) + 1
    assert run(tiny, "fig{{: 1-6}}", seed=5, alternatives=1).holes[0].alternatives == hole.alternatives[:1]


def test_the_message_is_the_instruction_alone_where_nothing_else_is_to_tell(tiny: Engine) -> None:
    (request,) = requests_of(tiny, "a{{: 1}}b", "Do it.")
    assert request.prompt == prompt_of(tiny, "Do it.")
    (request,) = requests_of(tiny, "a{{: 1}}b")
    assert request.prompt == prompt_of(tiny, INSTRUCTION)
    (request,) = requests_of(tiny, "a{{city: 1}}{{: 1}}{{who: 1}}", "Do it.")
    assert request.prompt == prompt_of(tiny, "Do it.\n\nMissing, in this order: city; who.")


def test_a_long_document_stands_around_the_canvas_in_the_prompt(tiny: Engine) -> None:
    encode = tiny.tokenizer.encode
    before, after = "ab" * 20, "cd" * 20
    requests = requests_of(tiny, before + "{{: 1-3}}" + after, "Do it.")
    max_write_len = CANVAS - 3
    scored = max_write_len - max_write_len // 4
    near = max_write_len - scored
    left, right = encode(before), encode(after)
    told = prompt_of(tiny, f"Do it.\n\nLater the text goes on:\n\n{tiny.tokenizer.decode(right[scored:])}")
    for width, request in enumerate(requests, 1):
        assert request.prompt == (*told, *left[:-near])
        assert request.options["canvas"] == [*left[-near:], *[None] * width, *right[: CANVAS - near - width]]
    assert not run(tiny, before + "{{: 1-3}}" + after, seed=1).truncated


def test_a_document_beyond_the_model_keeps_what_is_near(tiny: Engine) -> None:
    source = "ab" * 3000 + "{{: 1}}" + "cd" * 3000
    result = run(tiny, source, seed=1, max_denoising_steps=1)
    assert result.truncated
    assert result.prompt_tokens == 4096 - CANVAS
    assert_exact(parse_document(source), result)
    assert run(tiny, source, seed=1, max_denoising_steps=1, max_length=200).prompt_tokens == 200 - CANVAS


def test_a_hole_at_the_end_is_one_request_that_may_end(tiny: Engine) -> None:
    (request,) = requests_of(tiny, "fig{{ }}", max_new_tokens=20)
    assert not set(tiny.defaults.eos_token_ids) & set(request.options["logit_bias"])
    assert list(request.options["canvas"]) == tiny.tokenizer.encode("fig")
    assert request.options["max_new_tokens"] == 21
    (hole,) = run(tiny, "fig{{ }}", seed=1, max_new_tokens=20).holes
    assert hole.width <= 20
    assert hole.complete == (hole.width < 20)


def test_no_special_token_is_in_a_hole(tiny: Engine) -> None:
    requests = requests_of(tiny, "fig{{ }}.")
    special = tiny.tokenizer.special_ids
    for request in requests:
        assert dict.fromkeys(special, -LARGEST_BIAS) == request.options["logit_bias"]
    (hole,) = run(tiny, "fig{{: 3}}.", seed=1).holes
    assert not special & set(tiny.tokenizer.encode(hole.text))


def test_raw_is_the_document_alone(tiny: Engine) -> None:
    begin = tiny.tokenizer.special["<bos>"]
    (request,) = requests_of(tiny, "a{{: 1}}b", raw=True)
    assert request.prompt == (begin,)
    assert run(tiny, "a" * 50 + "{{: 1}}" + "b" * 50, raw=True, **QUICK).truncated


def test_the_same_seed_is_the_same_result(tiny: Engine) -> None:
    one, two = (run(tiny, "a {{: 1-4}} b {{: 2}}", seed=7) for _ in range(2))
    assert dataclasses.replace(one, seconds=0.0) == dataclasses.replace(two, seconds=0.0)
    drawn = run(tiny, "a {{: 2}} b")
    assert run(tiny, "a {{: 2}} b", seed=drawn.seed).text == drawn.text


def test_the_result_is_json(tiny: Engine) -> None:
    result = run(tiny, "a {{x: 1-4}} b", seed=7)
    told = json.loads(json.dumps(dataclasses.asdict(result)))
    assert told["holes"][0]["name"] == "x"
    assert told["text"] == result.text
    assert told["denoising_steps"] > 0
    assert told["seconds"] > 0


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("all text", "no hole"),
        ("a\nb ▁ {{ }}", "line 2: this model's tokenizer cannot write '▁' exactly"),
        ("{{ }}\n\n{{ }}x\n▁", "line 4: this model's tokenizer"),
        ("<eos> {{ }}", "the text has <eos>, which is no text to this model"),
        ("\udc80 {{ }}", "no valid Unicode"),
        (f"{{{{: {CANVAS}}}}}", f"a canvas of {CANVAS} has {CANVAS - CANVAS // 4} for one at most"),
    ],
)
def test_a_document_that_cannot_be_filled_is_refused(tiny: Engine, source: str, message: str) -> None:
    with pytest.raises(TextError) as caught:
        run(tiny, source)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"canvas": [5]}, "canvas does not go with a fill"),
        ({"stop": ("a",)}, "stop does not go"),
        ({"regex": "a"}, "regex does not go"),
        ({"colour": 1}, "colour does not go"),
        ({"seed": -1}, "seed must be"),
        ({"canvas_length": 10**6}, "canvas_length 1000000 is more"),
        ({"alternatives": -1}, "alternatives must be"),
        ({"alternatives": True}, "alternatives must be"),
        ({"instruction": 5}, "instruction must be"),
        ({"instruction": "long " * 5000}, "instruction: the prompt has"),
        ({"raw": True, "instruction": "x"}, "raw leaves no place"),
    ],
)
def test_an_impossible_option_is_refused(tiny: Engine, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=f"^{message}"):
        run(tiny, "a {{ }} b", **options)


def test_hints_have_no_place_in_raw(tiny: Engine) -> None:
    with pytest.raises(OptionError, match=r"^raw leaves no place"):
        run(tiny, "a {{name}} b", raw=True)


@pytest.mark.parametrize(("least", "most"), [(1, 1), (1, 8), (1, 9), (1, 24), (2, 200), (7, 9)])
def test_widths_spread_over_the_range(least: int, most: int) -> None:
    widths = spread_widths(least, most)
    assert len(widths) == min(MOST_REQUESTS, most - least + 1)
    assert widths == sorted(set(widths))
    assert (widths[0], widths[-1]) == (least, most)


def test_widths_between_the_best_and_its_neighbours() -> None:
    assert widths_between([1, 2, 6, 9], 6) == [5, 7, 4, 8, 3]
    assert widths_between([1, 2, 3], 2) == []
    assert widths_between([1, 40], 1) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert widths_between([1, 4], 4) == [3, 2]


def test_what_a_hole_may_take_of_the_text_before_it() -> None:
    texts = ["a ", "a\n", "a  ", "a\t", "a", "", " ", "\r\n", "\n "]
    assert [leading_space(text) for text in texts] == [" ", "\n", "", "", "", "", " ", "", ""]


@pytest.mark.parametrize(
    "source",
    [
        "def add_seven(x):\n    return {{ }}",
        "def {{ }}(x):\n    return x + 7",
        "def add_seven(x):\n    {{ }} x + 7",
        "def add_seven(x):\n{{ }}",
        "{{ }}\n    return x + 7",
    ],
)
def test_mini_fills_what_it_knows(mini: Engine, source: str) -> None:
    result = run(mini, source, "Write a Python function add_seven that returns its argument plus 7.", seed=0)
    assert result.text == "def add_seven(x):\n    return x + 7"


def test_a_document_object_needs_no_braces(tiny: Engine) -> None:
    result = run(tiny, Document(("{{ ", " }}"), (Hole("", 1, 2),)), seed=1)
    assert result.text.startswith("{{ ")
    assert result.text.endswith(" }}")
