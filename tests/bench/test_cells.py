import pytest
from engine.tiny import CANVAS, CONTEXT, tiny_recipe

from gesso.bench.cells import Cell, Settings, check_lengths, make_cells
from gesso.errors import OptionError


def test_every_combination_once() -> None:
    cells = make_cells([8, 4, 8], [16], [1, 2], ["ar", "canvas"])
    assert cells[:3] == [Cell(8, 16, 1, "canvas"), Cell(8, 16, 1, "ar"), Cell(8, 16, 2, "canvas")]
    assert len(cells) == len(set(cells)) == 8


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (([], [8], [1], ["ar"]), "--prompt is empty"),
        (([8], [8], [1], []), "--mode is empty"),
        (([8], [0], [1], ["ar"]), "--output must be at least 1, got 0"),
        (([8], [8], [-1], ["ar"]), "--batch must be at least 1, got -1"),
        (([8], [8], [1], ["fast"]), "--mode 'fast' is not measured; known: canvas, ar"),
        (([8], [8], [1], ["canvas", "auto"]), "--mode 'auto' is not measured; known: canvas, ar"),
        (([8], [1], [1], ["canvas", "ar"]), "--output must be at least 2 with --mode ar"),
    ],
)
def test_impossible_cells(lists: tuple[list[int], list[int], list[int], list[str]], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make_cells(*lists)


def test_lengths_end_at_the_models_limit() -> None:
    config = tiny_recipe().model
    check_lengths([Cell(CONTEXT - 2 * CANVAS, CANVAS + 1, 1, "canvas")], config)
    with pytest.raises(
        OptionError, match=rf"--prompt {CONTEXT - CANVAS} and --output {CANVAS + 1} .* past the model's"
    ):
        check_lengths([Cell(CONTEXT - CANVAS, CANVAS + 1, 1, "ar")], config)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"steps": 0}, "--steps"), ({"repeats": 0}, "repeats must be"), ({"warmup": -1}, "warmup must be")],
)
def test_impossible_settings(settings: dict[str, int], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Settings(**settings)
