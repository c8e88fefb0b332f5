"""Asks for what is written in a picture: numbers, words, and tables of numbers as JSON."""

import json
import random

from gesso.tasks.base import Example
from gesso.tasks.sight.drawing import SIDE, Mark, dark, encoded, new_picture, pen, text_size, write
from gesso.tasks.sight.picture_task import PictureTask, pick
from gesso.tasks.sight.words import ANSWERS
from gesso.tasks.to_json import same_json

NUMBER = ("Which number is this?", "Read the number.", "What is the number?", "What number do you see?")
WORD = ("Which word is this?", "Read the word.", "What is the word?", "What word do you see?")
_TABLE = ("Give the table as JSON.", "Read the table as JSON.", "Write the numbers as JSON.")
_CONSONANTS, _VOWELS = "bcdfghjklmnprstvwz", "aeiou"
_LARGEST, _SMALLEST = 34, 15
_MARGIN = 3


def written(text: str, rng: random.Random) -> bytes:
    """Returns a picture with one text anywhere, as large as there is room for or smaller."""
    picture, sizes = new_picture(rng), range(_SMALLEST, _LARGEST + 1)
    fits = [size for size in sizes if text_size(text, size)[0] <= SIDE - 2 * _MARGIN] or [_SMALLEST]
    size = rng.choice(fits)
    width, height = text_size(text, size)
    place = tuple(rng.randint(_MARGIN, max(_MARGIN, SIDE - _MARGIN - length)) for length in (width, height))
    write(pen(picture), (place[0], place[1]), text, size, dark(rng))
    return encoded(picture)


class Digits(PictureTask):
    """Asks such as `Which number is this?` -> `4071`."""

    name = "sight-digits"

    def sample(self, rng: random.Random) -> Example:
        """Draws a number of one to five digits; no length is rarer than another."""
        length = rng.randint(1, 5)
        number = str(rng.randint(0 if length == 1 else 10 ** (length - 1), 10**length - 1))
        return Example(self.name, pick(rng, NUMBER), number, kind=f"{length} digits", images=(written(number, rng),))

    def split_key(self, example: Example) -> str:
        """Returns the number, for those of three digits and more: they are held out whatever the picture."""
        return f"digits {example.answer}" if len(example.answer) > 2 else super().split_key(example)


class Words(PictureTask):
    """Asks such as `Which word is this?` -> `gredo`."""

    name = "sight-words"

    def sample(self, rng: random.Random) -> Example:
        """Draws a word of syllables, of three to six letters, in small letters or capitals."""
        word = draw_word(rng)
        return Example(self.name, pick(rng, WORD), word, kind=f"{len(word)} letters", images=(written(word, rng),))

    def split_key(self, example: Example) -> str:
        """Returns the word: a held-out one is never trained on."""
        return f"word {example.answer.lower()}"


def draw_word(rng: random.Random) -> str:
    """Draws a word without those that the tokenizer knows whole, which would not be read letter by letter."""
    while True:
        length = rng.randint(3, 6)
        start = rng.randint(0, 1)
        letters = [rng.choice(_VOWELS if (place + start) % 2 else _CONSONANTS) for place in range(length)]
        if rng.random() < 0.3:
            letters[rng.randrange(length)] = rng.choice(_CONSONANTS)
        word = "".join(letters)
        if not any(known in word for known in ANSWERS):
            return word.upper() if rng.random() < 0.5 else word


class Tables(PictureTask):
    """Asks such as `Give the table as JSON.` -> `[[12, 7], [3, 44]]`."""

    name = "sight-tables"

    def sample(self, rng: random.Random) -> Example:
        """Draws two or three rows of two or three numbers below 100."""
        rows, columns = rng.randint(2, 3), rng.randint(2, 3)
        numbers = [[rng.randint(0, 99) for _ in range(columns)] for _ in range(rows)]
        return Example(
            self.name, pick(rng, _TABLE), json.dumps(numbers), kind=f"{rows} x {columns}",
            images=(marked_table(numbers, rng)[0],),
        )  # fmt: skip

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the same whole numbers as JSON in any spacing; `12.0` or `true` for a number is wrong."""
        return same_json(example.answer, text)


def marked_table(numbers: list[list[int]], rng: random.Random) -> tuple[bytes, list[Mark]]:
    """Returns a picture of a table, and the digits in it, where they are; the last one of a number says that it is."""
    picture, marks = new_picture(rng), []
    draw, size, colour = pen(picture), rng.randint(16, 21), dark(rng)
    rows, columns = len(numbers), len(numbers[0])
    height, width = rng.randint(22, 31), rng.randint(26, 31)
    left = rng.randint(1, SIDE - 2 - width * columns)
    top = rng.randint(1, SIDE - 2 - height * rows)
    if rng.random() < 0.7:
        line = (150, 150, 150)
        for row in range(rows + 1):
            draw.line((left, top + row * height, left + width * columns, top + row * height), fill=line)
        for column in range(columns + 1):
            draw.line((left + column * width, top, left + column * width, top + height * rows), fill=line)
    for row, cells in enumerate(numbers):
        for column, number in enumerate(cells):
            wide, high = text_size(str(number), size)
            x = left + column * width + max(2, width - 3 - wide)
            *before, last = write(draw, (x, top + row * height + (height - high) // 2), str(number), size, colour)
            marks += [*before, last._replace(words=(*last.words, ", "))]
    return encoded(picture), marks
