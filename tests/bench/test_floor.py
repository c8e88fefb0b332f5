import dataclasses
from math import isclose

import pytest
import torch
from oracle import SHAPES

from gesso.bench.cells import Cell
from gesso.bench.floor import Rates, Work, experts_met, step_work
from gesso.models.diffusion_gemma import DiffusionGemma


def model_of(name: str) -> DiffusionGemma:
    with torch.device("meta"):
        return DiffusionGemma(SHAPES[name].config()).to(torch.bfloat16)


def bytes_of(model: DiffusionGemma) -> int:
    return sum(tensor.nbytes for tensor in model.state_dict().values())


def test_a_wide_step_reads_every_weight_once_and_what_is_committed() -> None:
    model, shape = model_of("plain"), SHAPES["plain"]
    work = step_work(model, Cell(prompt=100, output=2 * shape.canvas, batch=50, mode="canvas"), rows=50)
    behind = 100 + shape.canvas / 2  # one canvas of two is behind the other
    sliding = 2 * 2 * shape.kv_heads * shape.head_dim * (shape.window - 1)
    full = 2 * 2 * shape.full_kv_heads * shape.full_head_dim * behind
    assert isclose(work.bytes, bytes_of(model) + 50 * 2 * (sliding + full))  # two bytes a number


def test_one_token_reads_its_own_experts_and_conditions_on_nothing() -> None:
    model, shape = model_of("plain"), SHAPES["plain"]
    work = step_work(model, Cell(prompt=1, output=2, batch=1, mode="ar"), rows=1)
    expert = 2 * 3 * shape.hidden * shape.expert_size
    idle = len(shape.layers) * (shape.experts - shape.top_k) * expert
    conditioning = sum(tensor.nbytes for tensor in model.self_conditioning.state_dict().values())
    keys = 2 * 2 * (shape.kv_heads * shape.head_dim + shape.full_kv_heads * shape.full_head_dim) * 2 * 1.5
    assert isclose(work.bytes, bytes_of(model) - idle - conditioning + keys)


def test_operations_are_those_of_the_matrices_and_of_attention() -> None:
    model, shape = model_of("three_heads_one_kv"), SHAPES["three_heads_one_kv"]
    cell = Cell(prompt=2, output=shape.canvas, batch=3, mode="canvas")
    matrices = sum(p.numel() for p in model.parameters() if p.dim() == 2)
    experts = len(shape.layers) * shape.top_k * 3 * shape.hidden * shape.expert_size
    table = shape.vocab * shape.hidden
    seen = 2 + shape.canvas
    attention = 2 * seen * shape.heads * (shape.head_dim + shape.full_head_dim)
    once = matrices + experts + table + attention  # the table's second time is the mixture
    assert step_work(model, cell, rows=3).operations == 2 * 3 * shape.canvas * once
    ar = step_work(model, dataclasses.replace(cell, mode="ar", output=2), rows=1).operations
    assert ar < 2 * once


@pytest.mark.parametrize(("tokens", "met"), [(1, 2.0), (2, 3.0), (10_000, 4.0)])
def test_experts_that_tokens_meet(tokens: int, met: float) -> None:
    assert isclose(experts_met(SHAPES["plain"].config(), tokens), met)  # 2 of 4 each


def test_the_slower_of_the_two_is_told_apart() -> None:
    rates = Rates(bytes=10.0, operations=100.0).best(Rates(bytes=5.0, operations=200.0))
    assert rates.seconds(Work(bytes=20.0, operations=100.0)) == (2.0, 0.5)
