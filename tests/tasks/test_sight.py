"""Pictures and questions: every example is what its picture shows, pictures are held out, and graders are exact."""

import io
import json
import random
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from PIL import Image

from gesso.tasks.base import Example, evaluation_set, held_out
from gesso.tasks.sight.catalogue import SIGHT
from gesso.tasks.sight.drawing import COLOURS, SHAPES, SIDE, draw_shape, encoded, new_picture, pen, text_size, write
from gesso.tasks.sight.first import First
from gesso.tasks.sight.picture_task import PictureTask
from gesso.tasks.sight.shapes import Placed, draw_shapes
from gesso.tasks.sight.talks import Talks
from gesso.tasks.sight.words import ANSWERS, build_sight_tokenizer
from gesso.text.tokenizer import Tokenizer

BY_NAME = {task.name: task for task in (*SIGHT, First(), Talks())}
ALL = pytest.mark.parametrize("name", BY_NAME)
CANVAS = 32


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


def drawn(task: PictureTask, count: int, seed: int = 3) -> list:
    rng = random.Random(seed)
    return [task.sample(rng) for _ in range(count)]


@ALL
def test_an_example_follows_from_its_seed_and_has_pictures(name: str) -> None:
    task = BY_NAME[name]
    assert drawn(task, 4) == drawn(task, 4) != drawn(task, 4, seed=4)
    for example in drawn(task, 12):
        pictures = (*example.images, *example.clip)
        assert bool(example.images) != bool(example.clip)
        assert {pixels(picture).shape for picture in pictures} == {(SIDE, SIDE, 3)}
        assert task.grade(example, f" {example.answer}\n")
        assert not task.grade(example, "")
        assert example.task == name


@ALL
def test_held_out_pictures_are_apart_from_those_of_training(name: str) -> None:
    task = BY_NAME[name]
    cases = evaluation_set(task, 8, seed=0)
    keys = {task.split_key(case) for case in cases}
    assert len(keys) == 8
    assert all(map(held_out, keys))
    shares = [held_out(task.split_key(example)) for example in drawn(task, 300)]
    assert 0.05 < sum(shares) / len(shares) < 0.22


@ALL
def test_the_tokenizer_has_the_words_of_questions_and_fits_answers_into_a_canvas(name: str) -> None:
    tokenizer = Tokenizer(build_sight_tokenizer())
    for example in drawn(BY_NAME[name], 60):
        pieces = [tokenizer.piece(token) for token in tokenizer.encode(example.prompt)]
        assert "".join(pieces) == example.prompt
        words = [piece for piece in pieces if len(piece.strip()) == 1 and piece.strip().isalpha()]
        assert words == [], f"{example.prompt!r} is spelled"
        answer = tokenizer.encode(example.answer)
        assert len(answer) + 1 <= (CANVAS if name == "sight-tables" else 8)
        assert tokenizer.decode(answer) == example.answer


@ALL
def test_another_picture_has_the_same_question_and_another_answer(name: str) -> None:
    task, rng = BY_NAME[name], random.Random(0)
    for example in drawn(task, 3):
        other = task.other_picture(example, rng)
        assert other.prompt == example.prompt
        assert not task.grade(other, example.answer)


def test_where_there_is_no_other_picture_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gesso.tasks.sight.picture_task._TRIES", 20)

    class Same(PictureTask):
        name = "same"

        def sample(self, rng: random.Random):
            return BY_NAME["sight-counts"].sample(random.Random(0))

    example = Same().sample(random.Random(0))
    with pytest.raises(ValueError, match="found no other picture"):
        Same().other_picture(example, random.Random(0))


def test_a_word_is_read_letter_by_letter() -> None:
    tokenizer = Tokenizer(build_sight_tokenizer())
    words = [example.answer for example in drawn(BY_NAME["sight-words"], 200)]
    assert all(len(tokenizer.encode(word)) == len(word) for word in words)
    assert {word.isupper() for word in words} == {True, False}
    assert not any(known in word.lower() for word in words for known in ANSWERS)


def test_words_and_long_numbers_are_held_out_in_every_picture() -> None:
    words, digits = BY_NAME["sight-words"], BY_NAME["sight-digits"]
    assert words.split_key(drawn(words, 1)[0]) == f"word {drawn(words, 1)[0].answer.lower()}"
    for example in drawn(digits, 40):
        long = len(example.answer) > 2
        assert (digits.split_key(example) == f"digits {example.answer}") == long


def test_texts_lie_within_their_pictures() -> None:
    for name in ("sight-digits", "sight-words", "sight-tables", "sight-charts"):
        for example in drawn(BY_NAME[name], 20):
            shown = pixels(example.images[0])
            ink = np.argwhere(shown.sum(2) < 500)
            assert len(ink) > 10
            assert ink.min() > 0 or name == "sight-charts"
            assert ink.max() < SIDE - 1


@pytest.mark.parametrize("colour", COLOURS)
def test_a_shape_has_its_colour_and_lies_in_its_cell(colour: str) -> None:
    for cell, shape in enumerate(SHAPES):
        shown = pixels(draw_shapes([Placed(shape, colour, cell)], random.Random(cell)))
        near = np.argwhere(np.abs(shown - np.array(COLOURS[colour])).max(2) <= 14)
        rows, columns = near[:, 0], near[:, 1]
        row, column = divmod(cell, 3)
        # A shape at the edge of its cell may touch the next by a pixel.
        assert 32 * row <= rows.min() <= rows.max() <= 32 * row + 32
        assert 32 * column <= columns.min() <= columns.max() <= 32 * column + 32
        assert len(near) > 60


def test_places_have_names() -> None:
    names = [Placed("ring", "red", cell).where for cell in range(9)]
    assert names[0] == "top left"
    assert names[4] == "middle centre"
    assert names[8] == "bottom right"
    assert len(set(names)) == 9


def test_counts_count_what_they_ask_for() -> None:
    """All shapes of a picture of one cell each, by the cells that have ink."""
    for example in drawn(BY_NAME["sight-counts"], 80):
        shown = pixels(example.images[0])
        background = shown[0, 0] if (shown[0, 0] > 230).all() else shown[-1, -1]
        inked = sum(
            bool((np.abs(shown[r + 1 : r + 32, c + 1 : c + 32] - background).max(2) > 30).any())
            for r in (0, 32, 64)
            for c in (0, 32, 64)
        )
        if example.kind == "shapes":
            assert int(example.answer) == inked
        else:
            assert 1 <= int(example.answer) <= inked


def test_the_largest_bar_is_the_one_with_the_most_ink_above_its_letter() -> None:
    for example in drawn(BY_NAME["sight-charts"], 30):
        shown = pixels(example.images[0])
        floor = max(r for r in range(SIDE) if (shown[r, 2:-2].max(1) < 140).mean() > 0.9)
        ink = np.abs(shown[: floor - 1] - shown[0, 0]).max(2) > 30
        heights = ink.sum(0)
        edges = np.flatnonzero(np.diff(np.concatenate(([0], (heights > 3).astype(int), [0]))))
        bars = [int(np.median(heights[a:b])) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a > 3]
        wanted = max(bars) if example.kind == "largest" else min(bars)
        assert Counter(bars)[wanted] == 1
        assert 3 <= len(bars) <= 5


def test_tables_are_graded_by_their_numbers() -> None:
    task = BY_NAME["sight-tables"]
    for example in islice(drawn(task, 10), 5):
        numbers = json.loads(example.answer)
        assert task.grade(example, json.dumps(numbers, separators=(",", ":")))
        numbers[0][0] += 1
        assert not task.grade(example, json.dumps(numbers))
        assert not task.grade(example, "no json")
        assert not task.grade(example, "[" * 9999)
        assert example.kind == f"{len(numbers)} x {len(numbers[0])}"


def test_a_table_s_numbers_are_no_truths() -> None:
    example = Example("sight-tables", "", "[[1, 7], [3, 0]]")
    assert BY_NAME["sight-tables"].grade(example, "[[1,7],[3,0]]")
    assert not BY_NAME["sight-tables"].grade(example, "[[true, 7], [3, false]]")


def test_two_pictures_differ_in_what_is_asked_for() -> None:
    for example in drawn(BY_NAME["sight-comparisons"], 60):
        first, second = map(pixels, example.images)
        assert not np.array_equal(first, second)
        if example.kind == "more":
            assert example.answer in ("first", "second")
        elif example.kind == "missing":
            colour, shape = example.answer.split()
            assert (colour in COLOURS, shape in SHAPES) == (True, True)
        else:
            assert example.answer in SHAPES


def test_clips_ask_about_the_colours_of_their_frames() -> None:
    for example in drawn(BY_NAME["sight-clips"], 40):
        colours = []
        for frame in example.clip:
            shown = pixels(frame).reshape(-1, 3)
            found = {name: int((np.abs(shown - np.array(value)).max(1) <= 14).sum()) for name, value in COLOURS.items()}
            colours.append(max(found, key=found.__getitem__))
        if example.kind == "order":
            assert example.answer == ", ".join(colours)
        elif example.kind == "after":
            before = example.prompt.rstrip("?").split()[-1]
            assert example.answer == colours[colours.index(before) + 1]
        else:
            assert example.answer == colours[int(example.prompt.rstrip("?").split(":")[-1])]


def test_what_is_written_begins_where_it_is_put() -> None:
    picture = new_picture(random.Random(0))
    write(pen(picture), (20, 30), "472", 18, (0, 0, 0))
    ink = np.argwhere(pixels(encoded(picture)).sum(2) < 500)
    width, height = text_size("472", 18)
    assert abs(ink[:, 1].min() - 20) <= 1
    assert abs(ink[:, 0].min() - 30) <= 1
    assert ink[:, 1].max() < 20 + width
    assert ink[:, 0].max() < 30 + height


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_fit_their_radius(shape: str) -> None:
    picture = new_picture(random.Random(0))
    draw_shape(pen(picture), shape, (48, 48), 12, (0, 0, 0))
    ink = np.argwhere(pixels(encoded(picture)).sum(2) < 300)
    assert ink.min() >= 48 - 12
    assert ink.max() <= 48 + 12


def test_a_talk_asks_many_things_of_one_picture_and_contradicts_itself_in_none() -> None:
    lengths = Counter()
    for example in drawn(Talks(), 80):
        turns = [*example.history, example.prompt, example.answer]
        asked = list(zip(turns[::2], turns[1::2], strict=True))
        lengths[len(asked)] += 1
        assert len(example.images) == 1
        if example.kind == "counts":
            counts = {
                question.split(" are ")[0].split(" do ")[0].rstrip("."): int(answer) for question, answer in asked
            }
            everything = [
                count for question, count in counts.items() if question.endswith(("many shapes", "the shapes"))
            ]
            assert all(count <= whole for whole in everything for count in counts.values())
            continue
        colours = {question.split()[-1].rstrip("?."): answer for question, answer in asked if "colour" in question}
        for answer in (answer for question, answer in asked if question.startswith(("What is", "Which shape"))):
            colour, shape = answer.split()
            assert colours.get(shape, colour) == colour
    assert max(lengths) == 8
    assert min(lengths) == 3
