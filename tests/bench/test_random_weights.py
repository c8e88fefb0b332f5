import json
from pathlib import Path

import pytest
import torch
from engine.tiny import CANVAS
from oracle import Shape

from gesso.bench import random_weights
from gesso.bench.cells import Cell
from gesso.bench.random_weights import empty_model, needed_bytes, random_engine, read_formats, read_shape
from gesso.errors import OptionError
from gesso.models.cache import cache_bytes
from gesso.models.diffusion_gemma import PREFILL_CHUNK, DiffusionGemma
from gesso.models.quantization.plan import Quantization
from gesso.nn.linear import Linear
from gesso.nn.quant.base import dequantize
from gesso.nn.quant.fp8 import FP8
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear

FORMS = {"int8": Int8, "int4": Int4, "fp8": FP8}
CELLS = [Cell(30, CANVAS, 2, "canvas"), Cell(30, CANVAS, 1, "ar")]


def bytes_of(model: DiffusionGemma) -> int:
    return sum(tensor.nbytes for tensor in model.state_dict().values())


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
    weights = bytes_of(random_engine(config, "x", "cpu", "float32", CELLS).model)
    assert needed == weights + 2 * cache_bytes(config, torch.float32, 30 + CANVAS, PREFILL_CHUNK)
    monkeypatch.setattr(random_weights, "free_bytes", lambda _: needed)
    random_engine(config, "x", "cpu", "float32", CELLS)
    monkeypatch.setattr(random_weights, "free_bytes", lambda _: needed - 1)
    monkeypatch.setattr(random_weights, "initialise", lambda *_: pytest.fail("allocated"))
    with pytest.raises(OptionError, match=r"--random-weights x: weights and caches take 0\.0 GB, 0\.0 GB are free"):
        random_engine(config, "x", "cpu", "float32", CELLS)


@pytest.mark.parametrize("quantize", list(FORMS))
def test_weights_in_fewer_bits(quantize: str) -> None:
    config = Shape(hidden=64, mlp=64, heads=4, head_dim=16, expert_size=64, canvas=CANVAS, bias=True).config()
    chosen = read_formats(quantize)
    model = random_engine(config, "x", "cpu", "float32", CELLS, chosen).model
    assert bytes_of(model) == bytes_of(empty_model(config, torch.float32, chosen))
    assert all(buffer.eq(0).all() for name, buffer in model.named_buffers() if name.endswith(".bias"))
    whole = random_engine(config, "x", "cpu", "float32", CELLS).model
    packed = [module for module in model.modules() if isinstance(module, QuantizedLinear | QuantizedExperts)]
    linear = [name for name, module in whole.named_modules() if isinstance(module, Linear)]
    assert len(packed) == len(linear), "all but the routers, and as many experts"
    for module in packed:
        assert isinstance(module.form, FORMS[quantize])
        assert all(buffer.float().isfinite().all() for buffer in module.buffers())
    experts, form = model.layers[0].experts, FORMS[quantize]()
    (_, _), (rows, columns) = experts.shapes
    for expert in range(config.num_experts):
        down = dequantize(tuple(experts.get_buffer(f"down_{part}")[expert] for part in form.parts), form, torch.float32)
        assert down.shape == (rows, columns)
        assert float(down.std()) == pytest.approx(config.initializer_range, rel=0.1)
    needed = needed_bytes(config, torch.float32, CELLS, chosen)
    assert needed == bytes_of(model) + 2 * cache_bytes(config, torch.float32, 30 + CANVAS, PREFILL_CHUNK)


def test_formats_that_do_not_serve(tiny_folder: Path) -> None:
    assert read_formats(None) == Quantization()
    with pytest.raises(OptionError, match=r"--quantize: layers\.0\.attention\.q_proj cannot be held in 4 bits"):
        empty_model(read_shape(tiny_folder), torch.float32, read_formats("int4"))
    with pytest.raises(OptionError, match="--quantize 'nf4' does not exist; known: int8, int4, fp8"):
        read_formats("nf4")
    with pytest.raises(OptionError, match=r"--quantize-embedding 'fp8' does not exist; known: int8, int4$"):
        read_formats("fp8", "fp8")
    with pytest.raises(OptionError, match="--quantize-embedding: vocabulary cannot be held in 4 bits"):
        empty_model(read_shape(tiny_folder), torch.float32, read_formats("int8", "int4"))


@pytest.mark.parametrize("embedding", ["int8", "int4"])
def test_a_table_in_fewer_bits(embedding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_weights, "TABLE_ROWS", 50)
    config = Shape(hidden=64, canvas=CANVAS).config()
    chosen = read_formats(None, embedding)
    model = random_engine(config, "x", "cpu", "bfloat16", CELLS, chosen).model
    whole = random_engine(config, "x", "cpu", "bfloat16", CELLS).model
    assert {name for name, _ in model.named_parameters()} == {n for n, _ in whole.named_parameters()} - {
        "vocabulary.weight"
    }
    assert model.vocabulary.dtype == torch.bfloat16
    table = model.vocabulary.rows_between(0, config.vocab_size).float()
    assert table.shape == whole.vocabulary.weight.shape
    assert float(table.std()) == pytest.approx(float(whole.vocabulary.weight.float().std()), rel=0.05)
    assert len({row.tobytes() for row in table.numpy()}) == config.vocab_size, "no tile is another's"
    assert bytes_of(model) == bytes_of(empty_model(config, torch.bfloat16, chosen)) < bytes_of(whole)


def test_no_config_of_ours(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"--random-weights .*there is no such file"):
        read_shape(tmp_path)
    other = tmp_path / "config.json"
    other.write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(OptionError, match=r"--random-weights .*model_type is 'llama'"):
        read_shape(other)
