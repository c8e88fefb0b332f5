"""What images cost: the tower runs in every repeat, prompts keep their lengths, and the figures are of all images."""

from pathlib import Path
from typing import Any

import pytest
from engine.seeing import make_seeing_folder, picture
from engine.tiny import CANVAS

from gesso.api import load
from gesso.bench.cells import Cell, Settings
from gesso.bench.floor import Rates
from gesso.bench.images import BenchImages, tower_operations
from gesso.bench.measure import Bench, prompt_tokens
from gesso.engine.engine import Engine, Request
from gesso.errors import ImageError, OptionError
from gesso.models.vision_config import read_vision_config
from gesso.models.vision_tower import VisionModel

RATES = Rates(bytes=1e10, operations=1e11)


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return load(make_seeing_folder(tmp_path_factory.mktemp("seeing")), "cpu")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pictures")
    picture(seed=1).save(folder / "a.png")
    picture(60, 30, seed=2).save(folder / "b.png")
    return [folder / "a.png", folder / "b.png"]


def test_every_repeat_encodes_the_images_anew(seeing: Engine, files: list[Path]) -> None:
    images = BenchImages(seeing, files, 70)
    before = seeing.runner.images_encoded
    cell = Cell(200, CANVAS, 2, "canvas")
    result = Bench(seeing, Settings(steps=2, repeats=2, warmup=1), images=images).measure(cell)
    assert result is not None
    assert result.repeats == 2
    assert seeing.runner.images_encoded - before == len(files) * cell.batch * 3


def test_a_prompt_has_as_many_tokens_as_it_is_said_to_have(seeing: Engine, files: list[Path]) -> None:
    images = BenchImages(seeing, files, 70)
    ids = images.before(prompt_tokens(seeing, 200, 0))
    state = seeing.start(Request(ids, {"images": images.fresh(), "max_new_tokens": CANVAS}))
    assert len(state.prompt) == 200
    assert [span.length for span in state.prompt.spans] == [64, 55]
    assert images.tokens == 64 + 55 + 4
    images.check([Cell(124, CANVAS, 1, "canvas")])
    with pytest.raises(OptionError, match="--prompt 123 counts the images' tokens, too, and they are 123"):
        images.check([Cell(500, CANVAS, 1, "canvas"), Cell(123, CANVAS, 1, "canvas")])


def test_the_report_tells_of_all_images_of_a_prompt(seeing: Engine, files: list[Path]) -> None:
    one, two = (BenchImages(seeing, some, 70).report(RATES, 2, 0) for some in (files[:1], files))
    assert one is not None
    assert two is not None
    assert (one["images"], two["images"], two["soft_tokens"]) == (1, 2, [64, 55])
    assert one["tower_floor_ms"] < two["tower_floor_ms"] < 2 * one["tower_floor_ms"]
    for name in ("prepare_ms", "tower_ms"):
        assert 0 < two[name]["low"] <= two[name]["median"] <= two[name]["high"]
    assert BenchImages(seeing, (), 70).report(RATES, 1, 0) is None


def test_the_arithmetic_is_that_of_the_towers_weights() -> None:
    from models.test_vision_config import PUBLISHED

    config = read_vision_config(PUBLISHED)
    assert tower_operations(config, 2520) == pytest.approx(3.54e12, rel=0.02)
    import torch

    with torch.device("meta"):
        matrices = sum(p.numel() for p in VisionModel(config, 8).tower.layers.parameters() if p.dim() > 1)
    few = tower_operations(config, 1) - 4 * config.num_hidden_layers * 1152
    assert few == 2 * (matrices + 768 * 1152)


def test_what_cannot_be_shown_is_refused(tiny: Engine, seeing: Engine, files: list[Path], tmp_path: Path) -> None:
    for engine, some, error in (
        (tiny, files, "--image: this model reads text only"),
        (seeing, [tmp_path / "none.png"], "none.png' is no file"),
    ):
        kind: Any = ImageError if engine is seeing else OptionError
        with pytest.raises(kind, match=error):
            BenchImages(engine, some, 70)
    with pytest.raises(OptionError, match="an image may take 70"):
        BenchImages(seeing, files, 71)
