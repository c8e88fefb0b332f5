"""Answers that the caller predicts: canvases start from them."""

from typing import Any

import pytest

from engine.tiny import CANVAS, reciter
from gesso.engine.engine import Engine, Request
from gesso.engine.settings import PREDICTION_STRENGTH
from gesso.errors import OptionError

ANSWER = "pear fig apple kiwi plum grape melon lemon"


def test_the_canvases_are_the_prediction_with_its_end_and_pad_fill(tiny: Engine) -> None:
    config = tiny.start(Request("hi", {"prediction": ANSWER, "seed": 3})).config
    tokens = tiny.tokenizer.encode(ANSWER)
    assert config.start_canvas is not None
    assert list(config.start_canvas[: len(tokens) + 1]) == [*tokens, tiny.end_of_turn]
    assert set(config.start_canvas[len(tokens) + 1 :]) <= {tiny.pad_fill}
    assert len(config.start_canvas) % CANVAS == 0
    assert (config.strength, config.stability_threshold) == (PREDICTION_STRENGTH, 0)
    narrow = tiny.start(Request("hi", {"prediction": ANSWER, "canvas_length": 5, "stability_threshold": 2})).config
    assert len(narrow.start_canvas or ()) % 5 == 0
    assert narrow.stability_threshold == 2
    assert tiny.start(Request("hi", {"prediction": ANSWER, "strength": 1.0})).config.stability_threshold == 1


def test_what_comes_is_the_models_answer_in_fewer_steps() -> None:
    model = reciter(ANSWER)
    plain = model.generate("hi", seed=1)
    for prediction in (ANSWER, "pear fig", "quite another answer"):
        found = model.generate("hi", seed=1, prediction=prediction)
        assert found.text == plain.text == ANSWER
        assert sum(found.denoising_steps) < sum(plain.denoising_steps)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prediction": 5}, "prediction must be a string"),
        ({"prediction": "a", "start_canvas": [5] * CANVAS}, "prediction does not go with start_canvas"),
        ({"prediction": "a", "begin": "a"}, "prediction does not go with begin"),
        ({"prediction": "a", "thinking": True}, "prediction does not go with thinking"),
        ({"prediction": "a", "mode": "ar"}, "prediction starts whole canvases, which mode ar does not have"),
        ({"prediction": "a", "canvas_width": "auto"}, "which canvas_width auto does not have"),
        ({"prediction": "a", "strength": 2}, "strength must be above 0"),
    ],
)
def test_what_contradicts_it_is_refused(tiny: Engine, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        tiny.generate("hi", **options)


def test_none_is_as_if_it_were_not_there(tiny: Engine) -> None:
    assert tiny.generate("hi", seed=1, prediction="").token_ids == tiny.generate("hi", seed=1).token_ids
