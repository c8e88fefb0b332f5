"""Costs of steps, the simulation beside what is known of queues, and `gesso plan`."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

import gesso
from gesso.bench.cells import Cell
from gesso.bench.random_weights import read_formats
from gesso.capacity import plan as plan_module
from gesso.capacity.cost import StepCosts, measured, memory_of, modelled
from gesso.capacity.machines import GPUS, PUBLISHED, find_gpu
from gesso.capacity.plan import Users, capacity, make_plan
from gesso.capacity.simulation import play, simulate
from gesso.capacity.traffic import Arrival, Load
from gesso.cli.app import run
from gesso.errors import OptionError
from gesso.models.describe import parameters

FLAT = StepCosts(lambda rows: 0.02, 0.0, 256, "a test")
"""Steps that cost the same however many canvases."""


def test_a_request_alone_takes_its_steps() -> None:
    """Far apart, requests meet nobody: every time is the number of steps times the cost of one."""
    costs = StepCosts(lambda rows: 0.02 * rows, 0.001, 256, "a test")
    seen = simulate(Load(1e-4, 0, 1e-9, 12), costs, replicas=2, at_once=8, requests=200)
    assert seen.requests == 200
    assert seen.first_block[0] == pytest.approx(12 * 0.02, rel=0.1)
    assert seen.whole == seen.first_block


def test_a_queue_is_as_long_as_theory_says() -> None:
    """One at a time and random arrivals: the mean wait is rho (1 + cv^2) / 2 / (1 - rho) times (Pollaczek, Khinchine).

    Every answer is one canvas, whose steps have a standard deviation of a quarter of their mean.
    """
    busy, service = 0.5, 48 * 0.01
    costs = StepCosts(lambda rows: 0.01, 0.0, 256, "a test")
    seen = simulate(Load(busy / service, 0, 1e-9, 48), costs, replicas=1, at_once=1, requests=6000)
    wait = busy * (1 + 1 / 16) / 2 / (1 - busy) * service
    assert seen.utilization == pytest.approx(busy, rel=0.05)
    assert seen.whole_mean == pytest.approx(service + wait, rel=0.08)


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_full_replicas_write_what_their_capacity_says(replicas: int) -> None:
    """More comes than they can answer: the tokens a second are those of the formula."""
    load = Load(1000.0, 300, 512, 12)
    costs = StepCosts(lambda rows: 0.01 + 0.004 * rows, 1e-5, 256, "a test")
    seen = simulate(load, costs, replicas, 8, requests=600 * replicas)
    canvases = seen.tokens_per_second / 256
    expected = replicas * capacity(load, costs, 8) / (1 - 2.718281828 ** (-256 / 512))
    assert canvases == pytest.approx(expected, rel=0.1)
    assert seen.utilization > 0.9


def test_replicas_share_processors() -> None:
    """Two requests of 10 steps at two replicas of one processor take as long as 20 steps; with one each, 10.

    The second comes when the first has had two steps to itself: they share until it has its other eight.
    """
    costs = StepCosts(lambda rows: 0.1, 0.0, 32, "a test")
    together = [Arrival(0.0, 0, [10]), Arrival(0.0, 0, [10])]
    assert play(together, costs, 2, 8).whole == pytest.approx((1.0, 1.0))
    shared = play(together, costs, 2, 8, processors=1)
    assert shared.whole == pytest.approx((2.0, 2.0))
    assert shared.utilization == pytest.approx(1.0)
    apart = [Arrival(0.0, 0, [10]), Arrival(0.2, 0, [10])]
    seen = play(apart, costs, 2, 8, processors=1)
    assert seen.whole_mean == pytest.approx((1.8 + 1.8) / 2)
    assert seen.seconds == pytest.approx(2.0)
    lost = play(apart, costs, 2, 8, processors=1, failures=[(0.4, 100.0), (0.4, 100.0)])
    assert (lost.requests, lost.repeated) == (2, 3)  # what the first loses goes to the second, which is lost with both


def test_a_canvas_is_encoded_before_the_next_and_a_request_costs_something_by_itself() -> None:
    costs = StepCosts(lambda rows: 0.1, 0.001, 32, "a test", block=0.05, request=0.3)
    seen = play([Arrival(0.0, 20, [4, 3, 2])], costs, 1, 8)
    assert seen.first_block[0] == pytest.approx(0.3 + 0.02 + 0.4)
    assert seen.whole[0] == pytest.approx(0.3 + 0.02 + 0.9 + 2 * 0.05)
    assert StepCosts(lambda rows: 0.1, 0.001, 32, "a test").commit == pytest.approx(0.032)


def test_a_fault_costs_time_and_no_request() -> None:
    load = Load(2.0, 0, 512, 12)
    undisturbed = simulate(load, FLAT, 2, 8, requests=500)
    seen = simulate(load, FLAT, 2, 8, requests=500, failures=[(50.0 + 20 * number, 5.0) for number in range(8)])
    assert undisturbed.requests == seen.requests == 500
    assert undisturbed.repeated == 0
    assert seen.repeated > 0
    assert seen.whole[1] > undisturbed.whole[1]
    assert simulate(load, FLAT, 2, 8, requests=500) == undisturbed


def test_requests_wait_where_all_replicas_are_lost() -> None:
    seen = simulate(Load(5.0, 0, 256, 12), FLAT, 1, 8, requests=100, failures=[(1.0, 30.0)])
    assert seen.requests == 100
    assert seen.whole[1] > 10


def test_the_published_shape_is_the_published_size() -> None:
    total, active = parameters(PUBLISHED)
    assert total == pytest.approx(25.2e9, rel=0.02)
    assert active == pytest.approx(3.8e9, rel=0.1)


def test_the_floor_of_a_step() -> None:
    """What reads all weights once takes at least so long; packed weights take less; more canvases never less."""
    gpu, cell = find_gpu("h200"), Cell(1024, 512, 1, "canvas")
    whole = modelled(PUBLISHED, gpu, read_formats(None), cell, 0.5)
    packed = modelled(PUBLISHED, gpu, read_formats("int4"), cell, 0.5)
    assert whole.step(1) == pytest.approx(2 * 50.5e9 / 4.8e12, rel=0.05)
    assert packed.step(1) < 0.5 * whole.step(1)
    assert whole.step(1) <= whole.step(2) <= whole.step(8) <= 8 * whole.step(1)
    assert modelled(PUBLISHED, gpu, read_formats(None), cell, 1.0).step(1) == pytest.approx(whole.step(1) / 2)


def test_memory_bounds_what_runs_at_once() -> None:
    memory = memory_of(PUBLISHED, find_gpu("h200"), read_formats(None), 4096)
    text = memory_of(dataclasses.replace(PUBLISHED, vision_config=None), find_gpu("h200"), read_formats(None), 4096)
    assert memory.weights - text.weights == pytest.approx(1.15e9, rel=0.01)
    assert text.weights == pytest.approx(50.5e9, rel=0.02)
    assert memory.requests > 8
    with pytest.raises(OptionError, match="do not fit"):
        memory_of(PUBLISHED, find_gpu("l4"), read_formats(None), 4096)
    with pytest.raises(OptionError, match="do not fit") as caught:
        memory_of(PUBLISHED, find_gpu("l4"), read_formats("int4"), 600_000)
    assert "shorter --prompt" in (caught.value.hint or ""), "the fewest bits are taken already"
    assert find_gpu("RTX4090") == GPUS["rtx4090"]
    assert memory_of(PUBLISHED, find_gpu("l4"), read_formats("int4"), 4096).requests >= 1


def report(tmp_path: Path, *more: tuple[int, float, int], **changes: Any) -> Path:
    """What `gesso bench --json` printed, as far as it is read; `more` are cells: batch, step in ms and prompt."""

    def spread(value: float) -> dict[str, float]:
        return {"median": value, "low": value, "high": value}

    def cell(batch: int, step: float, prompt: int = 100) -> dict[str, Any]:
        times = {"step_ms": spread(step), "first_block_s": spread(10 * step / 1e3 + 0.1 * batch)}
        shape = {"prompt": prompt, "output": 64, "batch": batch, "mode": "canvas", "steps_per_canvas": 10.0}
        return {**shape, **times, "tokens_per_s": spread(1.0)}

    told = {
        "benchmark": "gesso bench",
        "format": 1,
        "date": "2026-01-01",
        "model": {"canvas_length": 32},
        "machine": {},
        "steps": 10,
        "cells": [cell(1, 10.0), cell(4, 16.0), *(cell(*each) for each in more)],
        **changes,
    }
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(told))
    return path


def test_measured_costs_are_read_and_interpolated(tmp_path: Path) -> None:
    costs = measured(report(tmp_path), 100)
    assert [costs.step(rows) for rows in (1, 2, 4, 8)] == pytest.approx([0.010, 0.012, 0.016, 0.032])
    assert costs.prompt_token == pytest.approx(0.001)
    assert costs.canvas == 32
    with pytest.raises(OptionError, match="no cells of mode canvas"):
        measured(report(tmp_path, cells=[]), 100)


@pytest.mark.parametrize("name", ["first_block_s", "steps_per_canvas", "step_ms"])
def test_a_report_that_lacks_something_is_refused(tmp_path: Path, name: str) -> None:
    path = report(tmp_path)
    told = json.loads(path.read_text())
    del told["cells"][0][name]
    path.write_text(json.dumps(told))
    with pytest.raises(OptionError, match=r"lack what a plan needs|no line that gesso bench --json printed"):
        measured(path, 100)
    path = report(tmp_path, model={})
    with pytest.raises(OptionError, match="lack what a plan needs"):
        measured(path, 100)


def test_of_each_batch_the_nearest_prompt_counts(tmp_path: Path) -> None:
    path = report(tmp_path, (1, 20.0, 2000), (4, 40.0, 1000), (4, 90.0, 4000))
    for prompt, steps in ((1, (0.010, 0.016)), (900, (0.010, 0.040)), (1200, (0.020, 0.040)), (9000, (0.020, 0.090))):
        costs = measured(path, prompt)
        assert (costs.step(1), costs.step(4)) == pytest.approx(steps)


def test_a_plan_carries_its_load_with_one_lost() -> None:
    for users in (50, 500, 10_000):
        made = make_plan(Users(users=users), FLAT, None, requests=1500)
        assert (made.replicas - made.spare) * made.capacity * 0.7 >= made.requests_per_second
        assert (made.replicas - made.spare - 1) * made.capacity * 0.7 < made.requests_per_second
        assert made.usual.requests == 1500
        assert made.with_fault.requests == max(1500, math.ceil(240 * made.requests_per_second))
        assert made.with_fault.first_block[1] < 5.0


def test_a_fault_is_played_to_its_end_however_fast_requests_come() -> None:
    """One of two replicas is lost, and half of what comes cannot be answered: the queue grows for all two minutes."""
    costs = StepCosts(lambda rows: 0.008, 0.0, 256, "a test")
    made = make_plan(Users(users=9000), costs, None, utilization=0.95, spare=0)
    assert (made.replicas, made.requests_per_second) == (2, 50)
    behind = 120 * (made.requests_per_second - made.capacity)
    assert made.with_fault.first_block[1] > 0.8 * behind / made.capacity / 2
    assert made.with_fault.seconds >= 240


def test_long_answers_are_fewer(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "MOST_STEPS", 200_000)
    assert run(["plan", "--output", "100000"]) == 0
    requests = int(200_000 / (100_000.5 / 256 * 12 + 6))
    assert f"{requests} requests are played, as their answers take many steps" in capsys.readouterr().out
    made = make_plan(Users(output=50_000), FLAT, None)
    assert 70 < made.usual.requests == made.with_fault.requests < 90


def test_a_fault_that_is_cut_off_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["plan", "--users", "9000", "--utilization", "0.9"]) == 0
    assert "the fault is played" not in capsys.readouterr().out
    monkeypatch.setattr(plan_module, "MOST_PLAYED", 4000)
    assert run(["plan", "--users", "9000", "--utilization", "0.9"]) == 0
    assert "the fault is played with 4,000 requests, 80 s of them" in capsys.readouterr().out


def test_the_command_prints_its_assumptions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_module, "MOST_STEPS", 30_000)
    assert run(["plan", "--users", "500", "--gpu", "h200", "--format", "int8", "--price", "3.5"]) == 0
    told = capsys.readouterr().out
    assert "price an hour" in told
    assert "assumed" in told
    assert "500 users with 20 requests an hour" in told
    assert "weights in int8, which --format chooses" in told
    assert run(["plan", "--measured", str(report(tmp_path)), "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["memory"] is None
    assert plan["source"] == "measured, bench.json"


def test_a_model_of_texts_alone_is_planned_without_a_tower(capsys: pytest.CaptureFixture[str]) -> None:
    """Its config describes a part of one, because `transformers` wants it described."""
    mini = Path(gesso.__file__).parent / "bundled" / "mini"
    assert run(["plan", "--shape", str(mini), "--gpu", "l4", "--users", "5", "--steps", "2"]) == 0
    assert "no vision tower is counted" in capsys.readouterr().out
    assert run(["plan", "--users", "5"]) == 0
    assert "no vision tower" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpu", "abacus"], f"known: {', '.join(GPUS)}"),
        (["--gpu", "l4"], "do not fit"),
        (["--users", "0"], "users must be an integer of at least 1"),
        (["--users", f"1{'0' * 310}"], "users must be at most 1000000000000"),
        (["--requests-per-hour", "1e-310"], "requests_per_hour must be a number of at least 1e-06"),
        (["--requests-per-hour", "nan"], "requests_per_hour must be a finite number"),
        (["--steps", "0.1"], "steps must be a number of at least 1"),
        (["--output", f"1{'0' * 21}"], "output must be at most 1000000000"),
        (["--prompt", "1000000"], "prompt and output are 1,000,512 tokens together, on average; the model takes"),
        (["--output", "262144", "--prompt", "1"], "the model takes 262,144"),
        (["--output", "200000", "--steps", "10000", "--users", "1"], "too many to be played"),
        (["--max-num-seqs", f"1{'0' * 400}"], "max_num_seqs must be at most 10000"),
        (["--spare", f"1{'0' * 400}"], "spare must be at most 2000"),
        (["--utilization", "1e-320"], "more than 2000"),
        (["--efficiency", "1e-320"], "more than 2000"),
        (["--cached", "1"], "cached must be below 1"),
        (["--efficiency", "0"], "efficiency must be above 0"),
        (["--utilization", "1"], "utilization must be above 0 and below 1"),
        (["--format", "fp4"], "--format must be"),
        (["--spare", "-1"], "spare must be an integer of at least 0"),
        (["--price", "-1"], "price must be at least 0"),
        (["--price", "nan"], "price must be at least 0"),
        (["--price", "inf"], "price must be at least 0"),
        (["--users", "100000000"], "more than 2000"),
        (["--measured", "/nowhere"], "/nowhere"),
        (["--shape", "/nowhere"], "/nowhere"),
        (["--measured", "/nowhere", "--gpu", "h100"], "--measured fixes machine and model already: leave out --gpu"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
