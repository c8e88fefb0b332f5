import json
from pathlib import Path

import pytest
import torch
from engine.tiny import CANVAS

from gesso.bench import random_weights
from gesso.bench.cells import Cell
from gesso.bench.random_weights import needed_bytes, random_engine, read_shape
from gesso.errors import OptionError
from gesso.models.cache import cache_bytes
from gesso.models.diffusion_gemma import PREFILL_CHUNK

CELLS = [Cell(30, CANVAS, 2, "canvas"), Cell(30, CANVAS, 1, "ar")]


def test_weights_of_a_config_alone(tiny_folder: Path, tmp_path: Path) -> None:
    config = read_shape(tiny_folder)
    alone = tmp_path / "shape.json"
    alone.write_bytes((tiny_folder / "config.json").read_bytes())
    assert read_shape(alone) == config
    engine = random_engine(config, "shape.json", "cpu", "bfloat16", CELLS)
    assert engine.model.dtype == torch.bfloat16
    for name, tensor in engine.model.state_dict().items():
        assert tensor.isfinite().all(), name
        assert tensor.dim() == 1 or tensor.float().std() > 0, name
    assert all(float(block.encoder_scalar) == float(block.decoder_scalar) == 1 for _, _, block in engine.model.blocks())
    result = engine.generate([5, 6, 7], max_new_tokens=CANVAS, ignore_eos=True, seed=1)
    assert result.completion_tokens == CANVAS


def test_what_does_not_fit_is_refused_before_it_is_allocated(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = read_shape(tiny_folder)
    needed = needed_bytes(config, torch.float32, CELLS)
    weights = sum(t.nbytes for t in random_engine(config, "x", "cpu", "float32", CELLS).model.parameters())
    assert needed == weights + 2 * cache_bytes(config, torch.float32, 30 + CANVAS, PREFILL_CHUNK)
    monkeypatch.setattr(random_weights, "free_bytes", lambda _: needed)
    random_engine(config, "x", "cpu", "float32", CELLS)
    monkeypatch.setattr(random_weights, "free_bytes", lambda _: needed - 1)
    monkeypatch.setattr(random_weights, "initialise", lambda *_: pytest.fail("allocated"))
    with pytest.raises(OptionError, match=r"--random-weights x: weights and caches take 0\.0 GB, 0\.0 GB are free"):
        random_engine(config, "x", "cpu", "float32", CELLS)


def test_no_config_of_ours(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"--random-weights .*there is no such file"):
        read_shape(tmp_path)
    other = tmp_path / "config.json"
    other.write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(OptionError, match=r"--random-weights .*model_type is 'llama'"):
        read_shape(other)
