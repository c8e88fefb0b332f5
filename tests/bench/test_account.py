"""The count of bytes against what a run really holds, tensor by tensor, and the published shape's."""

import pytest
import torch
from models.test_describe import PUBLISHED
from oracle import Shape

from gesso.bench import account as module
from gesso.bench.account import LiveBytes, account, account_report
from gesso.bench.cells import Cell, Settings
from gesso.bench.measure import prompt_tokens
from gesso.bench.random_weights import random_engine, read_formats
from gesso.engine.engine import Request
from gesso.models.cache import cache_bytes
from gesso.nn import vocabulary
from gesso.nn.quant import base
from gesso.nn.quant import vocabulary as quantized_vocabulary
from gesso.runner.memory import CPU_CHUNK

SHAPE = Shape(
    layers="ssfssf",
    vocab=4096,
    hidden=256,
    mlp=256,
    heads=4,
    head_dim=32,
    full_head_dim=64,
    window=48,
    canvas=32,
    experts=16,
    expert_size=192,
)
LONG = Cell(300, 64, 1, "canvas")


@pytest.fixture
def as_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count with the sizes of tiles and chunks that a CPU has: that is where the run is."""
    monkeypatch.setattr(vocabulary, "GPU_CHUNK", vocabulary.CPU_CHUNK)
    monkeypatch.setattr(quantized_vocabulary, "GPU_CHUNK", vocabulary.CPU_CHUNK)
    monkeypatch.setattr(base, "GPU_TILE", base.CPU_TILE)


@pytest.mark.usefixtures("as_cpu")
@pytest.mark.parametrize(
    ("cell", "quantize"),
    [
        (LONG, (None,)),
        (LONG, ("int4",)),
        (LONG, ("fp8",)),
        (Cell(40, 32, 3, "canvas"), (None, "int4")),
        (Cell(40, 32, 3, "canvas"), ("int4", "int8")),
        (Cell(300, 4, 1, "ar"), ("int4",)),
        (Cell(300, 4, 1, "ar"), ("int4", "int8")),
    ],
    ids=str,
)
def test_it_is_near_what_is_held(cell: Cell, quantize: tuple[str | None, ...]) -> None:
    config, chosen = SHAPE.config(), read_formats(*quantize)
    found = account(config, torch.float32, cell, chosen, chunk=CPU_CHUNK)
    engine = random_engine(config, "x", "cpu", "float32", [cell], chosen)
    prompts = [prompt_tokens(engine, cell.prompt, row) for row in range(cell.batch)]
    options = {**Settings(steps=2).options(cell, engine.defaults.stopping_options), "seed": 1}
    with LiveBytes() as live:
        for tensor in engine.model.state_dict().values():
            live.count(tensor)
        weights = live.now
        engine.generate_batch([Request(prompt, options) for prompt in prompts])
    assert found.experts + found.dense + found.table == weights
    # Attention and the sum over experts are one pass each on a CPU, and counted as several, which a GPU makes.
    assert 0.95 * live.most < found.total < 1.3 * live.most
    beside = live.most - weights
    assert 0.9 * beside < found.workspace + found.cache < 2.5 * beside


def test_longer_prompts_and_more_requests_take_more() -> None:
    one, more, longer = (
        account(SHAPE.config(), torch.bfloat16, cell)
        for cell in (Cell(64, 32, 1, "canvas"), Cell(64, 32, 4, "canvas"), Cell(512, 32, 1, "canvas"))
    )
    assert more.cache == 4 * one.cache
    assert more.workspace > one.workspace
    assert longer.cache > one.cache
    assert longer.workspace > one.workspace


def test_the_26b_in_4_bits_fits_18_gb() -> None:
    """With 8,192 tokens of context, in all; in 16 bits it does not fit three times as much."""
    cell = Cell(8192, 256, 1, "canvas")
    four = account(PUBLISHED, torch.bfloat16, cell, read_formats("int4"))
    assert four.total < 18e9
    assert four.experts == 30 * 128 * 3 * 2816 * 704 * 4.5 / 8
    assert four.table == 2 * 262_144 * 2816
    assert four.cache == cache_bytes(PUBLISHED, torch.bfloat16, 8192 + 256, 512)
    sliding = 25 * 2 * 8 * 256 * (1023 + 512)
    assert four.cache == 2 * (sliding + 5 * 2 * 2 * 512 * (8192 + 256))
    table = account(PUBLISHED, torch.bfloat16, cell, read_formats("int4", "int8"))
    assert table.table == 262_144 * (2816 + 4)
    assert table.total < 16.6e9
    assert (table.experts, table.dense, table.cache) == (four.experts, four.dense, four.cache)


def test_nothing_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    devices: set[str] = set()
    count = LiveBytes.count

    def seen(live: LiveBytes, tensor: torch.Tensor) -> None:
        if tensor.numel() > 32:  # a head has so few frequencies
            devices.add(tensor.device.type)
        count(live, tensor)

    monkeypatch.setattr(module.LiveBytes, "count", seen)
    report = account_report(SHAPE.config(), "x", torch.bfloat16, [Cell(64, 32, 1, "canvas")], read_formats("int8"))
    assert devices == {"meta"}
    (cell,) = report["cells"]
    assert cell["total"] == sum(cell[part] for part in ("experts", "dense", "table", "cache", "workspace"))


def test_what_is_let_go_counts_no_more() -> None:
    known = torch.zeros(1000)
    with LiveBytes([known]) as live:
        first = torch.zeros(100)
        assert live.now == 400
        del first
        second = torch.zeros(50)
        view = second[10:]
        assert known[5:].sum() == 0
        assert (live.now, live.most) == (200, 400)
        del second, view
    assert live.now == 0
