"""Crowded pictures: what is told of them is what is drawn in them."""

import io
import random

import numpy as np
from PIL import Image

from gesso.tasks.sight.charts import marked_chart
from gesso.tasks.sight.drawing import COLOURS, SHAPES, SIDE, new_picture, pen, write
from gesso.tasks.sight.reading import marked_table
from gesso.tasks.sight.scenes import Scene, draw_scene
from gesso.tasks.sight.shapes import COLUMNS, ROWS


def pixels(picture: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")).astype(int)


def test_a_scene_follows_from_its_seed_and_lies_inside() -> None:
    rng = random.Random(2)
    drawn = [draw_scene(rng) for _ in range(80)]
    assert drawn[:3] == [draw_scene(again) for again in [random.Random(2)] for _ in range(3)]
    assert all(pixels(scene.picture).shape == (SIDE, SIDE, 3) for scene in drawn)
    assert all(0 <= mark.x < SIDE and 0 <= mark.y < SIDE for scene in drawn for mark in scene.marks)
    assert 4 < sum(len(scene.marks) for scene in drawn) / len(drawn) < 16


def test_signs_are_marked_in_the_middle_of_their_ink() -> None:
    for text in ("471", "Mili", "ogaH"):
        picture = new_picture(random.Random(0))
        marks = write(pen(picture), (10, 20), text, 30, (0, 0, 0))
        assert [mark.words for mark in marks] == [(sign,) for sign in text]
        assert len({mark.y for mark in marks}) == 1
        dark = np.asarray(picture.convert("L")) < 128
        for mark, (left, right) in zip(marks, columns_of(dark), strict=True):
            assert left - 3 <= mark.x <= right + 3
        rows = np.flatnonzero(dark.any(axis=1))
        assert abs(marks[0].y - (rows[0] + rows[-1]) / 2) <= 1


def columns_of(dark: np.ndarray) -> list[tuple[int, int]]:
    """The first and last column of each sign: they do not touch at this size."""
    filled = np.flatnonzero(dark.any(axis=0))
    groups = np.split(filled, np.flatnonzero(np.diff(filled) > 1) + 1)
    return [(int(group[0]), int(group[-1])) for group in groups]


def test_shapes_are_marked_with_their_colour_kind_and_place() -> None:
    scene = of_kind("shapes")
    seen = pixels(scene.picture)
    for mark in scene.marks:
        colour, shape, row, column = mark.words
        assert shape in SHAPES
        assert (row, column) == (ROWS[int(mark.y / SIDE * 3)], COLUMNS[int(mark.x / SIDE * 3)])
        if shape != "ring":
            assert np.abs(seen[int(mark.y), int(mark.x)] - COLOURS[colour]).max() <= 14


def of_kind(kind: str) -> Scene:
    class Always(random.Random):
        def choices(self, population: tuple[str, ...], *_: object) -> list[str]:  # type: ignore[override]
            assert kind in population
            return [kind]

    return draw_scene(Always(5))


def test_texts_do_not_touch() -> None:
    scene = of_kind("texts")
    assert len({mark.y for mark in scene.marks}) > 1
    assert {len(mark.words) for mark in scene.marks} == {1}


def test_the_letter_of_the_largest_bar_stands_below_it() -> None:
    rng = random.Random(7)
    for kind in ("largest", "smallest") * 6:
        picture, marks = marked_chart(kind, rng)
        seen, floor = pixels(picture), min(int(mark.y) for mark in marks) - 9
        heights = {}
        for mark in marks:
            column = seen[:floor, int(mark.x)]
            heights[mark.words[0]] = int((np.abs(column - seen[1, 0]).max(axis=1) > 30).sum())
        said = {word: mark.words[0] for mark in marks for word in mark.words[1:]}
        assert kind in said
        found = {"largest": max(heights, key=heights.__getitem__), "smallest": min(heights, key=heights.__getitem__)}
        assert said == {word: found[word] for word in said}


def test_a_table_is_read_back_from_its_marks() -> None:
    rng = random.Random(3)
    for _ in range(8):
        numbers = [[rng.randint(0, 99) for _ in range(3)] for _ in range(2)]
        _, marks = marked_table(numbers, rng)
        texts = "".join("".join(mark.words).replace(", ", " ") for mark in marks).split()
        assert [int(text) for text in texts] == [number for row in numbers for number in row]


def test_every_kind_comes() -> None:
    rng = random.Random(1)
    words: set[str] = set()
    for _ in range(60):
        words |= {word for mark in draw_scene(rng).marks for word in mark.words}
    assert {"largest", "smallest", ", "} <= words
    assert words & set(SHAPES)
