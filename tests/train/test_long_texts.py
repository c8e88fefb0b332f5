"""Long texts of training data are encoded once, not once for each of their pieces."""

import json
from pathlib import Path
from typing import Any

import pytest

from gesso.text.tokenizer import Tokenizer
from gesso.train.file_data import FileData
from gesso.train.long_texts import LongTexts
from train.test_file_data import CANVAS, COPIES, open_data, write

BOOKS = [{"text": "7" * 100}, {"text": "8" * 60}, {"text": "9"}]


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are encoded."""
    texts: list[str] = []
    encode = Tokenizer.encode

    def told(tokenizer: Tokenizer, text: str, *given: Any, **named: Any) -> list[int]:
        texts.append(text)
        return encode(tokenizer, text, *given, **named)

    monkeypatch.setattr(Tokenizer, "encode", told)
    return texts


def books(folder: Path) -> FileData:
    return open_data([write(folder / "books.jsonl", BOOKS)], max_length=CANVAS + 2)


def test_a_long_text_is_encoded_once(tmp_path: Path, encoded: list[str]) -> None:
    data = books(tmp_path)
    encoded.clear()
    examples = [both for step in range(6) for both in data.batch(step, 8, CANVAS)]
    assert len(examples) == 48 > 2 * data.report.examples
    assert sum("7" * 100 in text for text in encoded) == 1
    assert sum("8" * 60 in text for text in encoded) == 1


def test_a_long_text_is_encoded_once_where_copies_vary_too(tmp_path: Path, encoded: list[str]) -> None:
    path = write(tmp_path / "books.jsonl", [*BOOKS, *COPIES])
    data = open_data([path], max_length=64, vary_copies=1.0)
    encoded.clear()
    for step in range(6):
        data.batch(step, 8, CANVAS)
    assert sum("7" * 100 in text for text in encoded) <= 2


def test_words_are_counted_of_lines_not_of_their_pieces(tmp_path: Path) -> None:
    data = books(tmp_path)
    assert data.report.examples > len(BOOKS) + 15
    assert data._sample() == BOOKS


def test_batches_are_the_same_from_kept_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [books(tmp_path).batch(step, 8, CANVAS) for step in range(6)]
    monkeypatch.setattr(LongTexts, "get", lambda *_: None)
    assert kept == [books(tmp_path).batch(step, 8, CANVAS) for step in range(6)]


def test_texts_are_kept_up_to_a_bound(tmp_path: Path) -> None:
    data = books(tmp_path)
    folder = tmp_path
    records = [data._reader.read(json.dumps(line).encode(), folder) for line in BOOKS]
    texts = LongTexts(most=165)
    for number, record in enumerate(records):
        texts.add((0, number), record)
    assert [texts.get((0, number)) is not None for number in range(3)] == [True, True, False]
    texts.add((1, 0), records[1])
    assert [texts.get(place) is not None for place in ((0, 0), (0, 1), (1, 0))] == [False, True, True]
    few = LongTexts(most=1)
    few.add((0, 0), records[0])
    assert few.get((0, 0)) is records[0], "the newest is kept, however long"
