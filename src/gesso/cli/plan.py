"""Implements `gesso plan`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gesso.cli import options as opt
from gesso.cli.output import print_json

if TYPE_CHECKING:
    from gesso.capacity.plan import Plan
    from gesso.config import ModelConfig

_USERS, _MACHINE, _PLAN = ({"rich_help_panel": panel} for panel in ("Users", "Machine", "Plan"))
UserCount = Annotated[int, typer.Option("--users", metavar="N", help="Users at the busiest hour.", **_USERS)]
PerHour = Annotated[float, typer.Option(metavar="X", help="Requests an hour of one user.", **_USERS)]
Prompt = Annotated[int, typer.Option(metavar="N", help="Tokens of a prompt, on average.", **_USERS)]
Output = Annotated[int, typer.Option(metavar="N", help="Tokens of an answer, on average.", **_USERS)]
Cached = Annotated[float, typer.Option(metavar="X", help="Share of prompts that the prefix store has.", **_USERS)]
Steps = Annotated[float, typer.Option(metavar="X", help="Denoising steps of a canvas, on average.", **_USERS)]
GpuName = Annotated[
    str | None,
    typer.Option(
        "--gpu",
        metavar="NAME",
        help="One a replica: h200 (the default), h100, b200, a100, l40s, l4, rtx5090 or rtx4090.",
        **_MACHINE,
    ),
]
Format = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="Weights: bf16 (the default), fp8, int8 or int4.", **_MACHINE),
]
Shape = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A config.json; the published 26B model's without it.", **_MACHINE),
]
Efficiency = Annotated[
    float | None,
    typer.Option(metavar="X", help="The floor of a step over what one takes; 0.5 without it.", **_MACHINE),
]
Measured = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="What gesso bench --json measured, in the place of the floor.", **_MACHINE),
]
Price = Annotated[float | None, typer.Option(metavar="X", help="Of one replica an hour, to add up.", **_MACHINE)]
Running = Annotated[int, typer.Option(metavar="N", help="Requests that a replica runs at once.", **_PLAN)]
Utilization = Annotated[float, typer.Option(metavar="X", help="Share of its capacity to plan for.", **_PLAN)]
Spare = Annotated[int, typer.Option(metavar="N", help="Replicas that may be lost.", **_PLAN)]


def plan(
    users: UserCount = 500,
    requests_per_hour: PerHour = 20.0,
    prompt: Prompt = 1024,
    output: Output = 512,
    cached: Cached = 0.5,
    steps: Steps = 12.0,
    gpu: GpuName = None,
    weights: Format = None,
    shape: Shape = None,
    efficiency: Efficiency = None,
    measured: Measured = None,
    price: Price = None,
    max_num_seqs: Running = 8,
    utilization: Utilization = 0.7,
    spare: Spare = 1,
    as_json: opt.AsJsonLine = False,
) -> int:
    """Plan how many replicas so many users need, and play minutes of the busiest hour and a fault over them."""
    from gesso.bench.cells import Cell
    from gesso.bench.random_weights import read_formats, read_shape
    from gesso.capacity import cost
    from gesso.capacity.machines import PUBLISHED, find_gpu
    from gesso.capacity.plan import FAULT_PLAYED, REQUESTS, Users, make_plan
    from gesso.errors import OptionError

    asked = Users(users, requests_per_hour, prompt, output, cached, steps)
    given = {"gpu": gpu, "format": weights, "shape": shape, "efficiency": efficiency}
    for name in [name for name, value in given.items() if value is not None] if measured is not None else ():
        raise OptionError(f"--measured fixes machine and model already: leave out --{name}", option=name)
    gpu, weights, efficiency = gpu or "h200", weights or "bf16", 0.5 if efficiency is None else efficiency
    if not 0 < efficiency <= 1:
        raise OptionError(f"efficiency must be above 0 and at most 1, got {efficiency}", option="efficiency")
    if weights not in ("bf16", "fp8", "int8", "int4"):
        raise OptionError(f"--format must be bf16, fp8, int8 or int4, got {weights!r}", option="format")
    if price is not None and not 0 <= price < float("inf"):
        raise OptionError(f"price must be at least 0, got {price}", option="price")
    config = PUBLISHED if shape is None else read_shape(shape, "shape")
    chosen, machine = read_formats(None if weights == "bf16" else weights), find_gpu(gpu)
    if measured is not None:
        costs, memory = cost.measured(measured, prompt), None
    else:
        asked.check(config)
        # Lengths vary: memory is counted for requests three times as long as the mean.
        memory = cost.memory_of(config, machine, chosen, 3 * (prompt + output))
        cell = Cell(prompt, output, 1, "canvas")
        costs = cost.modelled(config, machine, chosen, cell, efficiency)
    made = make_plan(asked, costs, memory, max_num_seqs=max_num_seqs, utilization=utilization, spare=spare)
    if as_json:
        print_json({"source": costs.source, "price_per_hour": _price(made, price), **made.to_dict()})
        return 0
    for name, value in _rows(made, price):
        print(f"{name:40}{value}")
    milliseconds = 1e3 * costs.step(made.at_once)
    assumed = [
        f"a step: {costs.source}; {milliseconds:.1f} ms with {made.at_once} canvases of {costs.canvas}",
        f"{users} users with {requests_per_hour:g} requests an hour each, at random moments of the busiest hour",
        f"prompts of {prompt} tokens, {cached:.0%} of them stored; answers of {output}; lengths vary exponentially",
        f"{steps:g} steps a canvas, a quarter more or less; replicas work at {utilization:.0%} of their capacity",
        "the router costs nothing; a lost replica's requests are asked again from their beginning",
    ]
    if made.memory is not None:
        assumed += _memory_told(config, weights)
    if round(made.fault_seen) < FAULT_PLAYED:
        played = f"{made.with_fault.requests:,} requests, {made.fault_seen:.0f} s of them"
        assumed.append(f"the fault is played with {played}: a queue that grows on is longer in the end")
    if made.usual.requests < REQUESTS:
        assumed.append(f"{made.usual.requests:,} requests are played, as their answers take many steps")
    print("\nassumed")
    for line in assumed:
        print(f"  {line}")
    return 0


def _price(made: "Plan", price: float | None) -> float | None:
    return None if price is None else made.replicas * price


def _memory_told(config: "ModelConfig", weights: str) -> list[str]:
    from gesso.models.vision_config import is_stub

    told = [
        f"weights in {weights}, which --format chooses, however a checkpoint holds them",
        "caches for requests three times as long as the mean; 10% of the memory is left free",
    ]
    if config.vision_config is not None and is_stub(config.vision_config):
        told.append("no vision tower is counted: the config describes none whole")
    return told


def _rows(made: "Plan", price: float | None) -> list[tuple[str, str]]:
    rows = [
        ("replicas", f"{made.replicas}, of which {made.spare} may be lost"),
        ("requests a second", f"{made.requests_per_second:.2f}; one replica answers {made.capacity:.2f} at full load"),
        ("tokens a second of one replica", f"{made.tokens_per_second:,.0f} at full load"),
        ("requests at once, each", str(made.at_once)),
    ]
    if (memory := made.memory) is not None:
        held = (memory.weights + made.at_once * memory.request) / 1e9
        weights = f"{memory.weights / 1e9:.1f} of it weights"
        rows.append(("memory of one", f"{held:.1f} of {memory.limit / 1e9:.1f} GB, {weights}"))
    if price is not None:
        rows.append(("price an hour", f"{made.replicas * price:,.2f}"))
    for name, seen in (("usual", made.usual), ("one lost for two minutes", made.with_fault)):
        (first, late), (whole, slow) = seen.first_block, seen.whole
        rows.append((f"{name}: first block", f"{first:.2f} s, 95% within {late:.2f} s"))
        rows.append((f"{name}: whole answer", f"{whole:.2f} s, 95% within {slow:.2f} s"))
        rows.append((f"{name}: at work", f"{seen.utilization:.0%} of the time"))
    return rows
