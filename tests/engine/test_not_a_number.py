"""A model whose scores are no numbers, as damaged weights or an overflow in float16 make them, is told of."""

from pathlib import Path
from typing import Any

import pytest
import torch

from gesso.api import load
from gesso.control.at_once import choose
from gesso.engine.engine import Engine
from gesso.errors import NotANumberError

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.fixture
def damaged(tiny_folder: Path) -> Engine:
    """An engine one weight of which is no number."""
    engine = load(tiny_folder, "cpu")
    with torch.no_grad():
        engine.model.norm.weight[3] = float("nan")
    return engine


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "ar"},
        {"top_k": 5},
        {"logprobs": 1, "mode": "ar"},
        {"json_schema": SCHEMA},
        {"json_schema": SCHEMA, "mode": "ar"},
        {"prompt_logprobs": 1},
    ],
    ids=str,
)
def test_no_answer_is_made_of_it(damaged: Engine, options: dict[str, Any]) -> None:
    with pytest.raises(NotANumberError, match=r"scores are not numbers.* \(float16 ends"):
        damaged.generate("Sort: pear, fig", seed=1, max_new_tokens=8, **options)


def test_nothing_is_chosen_by_it(damaged: Engine) -> None:
    with pytest.raises(NotANumberError):
        choose(damaged, "Is it?", ["yes", "no"])
