"""The card of a model: read whole, or refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from gesso.errors import CheckpointError
from gesso.models.card import CARD, ModelCard, Skill, card_of, read_card
from gesso.models.hub import resolve

SKILL = {
    "name": "sums", "example": "1 + 1", "right": 0.5, "low": 0.4, "high": 0.6, "goal": 1, "steps": 2.5, "examples": 200,
    "command": "gesso eval",
}  # fmt: skip


def write(folder: Path, content: Any) -> Path:
    (folder / CARD).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def test_a_card_is_read(tmp_path: Path) -> None:
    assert read_card(tmp_path) is None
    card = read_card(write(tmp_path, {"skills": [SKILL], "thinking": True, "limits": "none"}))
    assert card == ModelCard((Skill(**SKILL),), tool_calls=False, thinking=True, limits="none")  # type: ignore[arg-type]
    assert read_card(write(tmp_path, {})) == ModelCard()


def test_a_model_is_asked_by_name_for_its_card(tmp_path: Path) -> None:
    assert card_of("mini") == read_card(resolve("mini"))
    assert card_of("mini").model_for_other_words
    (tmp_path / "config.json").write_text("{}")
    assert card_of(str(tmp_path)) == ModelCard()


def test_a_card_may_say_which_wordings_were_trained(tmp_path: Path) -> None:
    card = read_card(write(tmp_path, {"wordings": ["Sort: \\w+", "Count"]}))
    assert card is not None
    assert card.wordings == ("Sort: \\w+", "Count")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("{", "Expecting"),
        ("[]", "no JSON object"),
        ({"colour": 1}, "colour"),
        ({"thinking": "yes"}, "thinking is 'yes'"),
        ({"skills": [{**SKILL, "wright": 1}]}, "wright"),
        ({"skills": [{**SKILL, "right": "all"}]}, "right is 'all'"),
        ({"skills": [{**SKILL, "examples": True}]}, "examples is True"),
        ({"skills": [{"name": "sums"}]}, "missing"),
        ({"skills": 3}, "iterable"),
        ({"wordings": "Sort"}, "wordings is 'Sort'"),
        ({"wordings": [3]}, "must be string"),
        ({"wordings": ["("]}, "unterminated"),
    ],
)
def test_a_card_that_is_wrong_is_refused(tmp_path: Path, content: Any, what: str) -> None:
    with pytest.raises(CheckpointError, match=what):
        read_card(write(tmp_path, content))
