"""Shows a report of `gesso bench` in a terminal of 80 columns; a narrower one leaves the least and the most out."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from gesso.bench.report import Report, has_energy, key_of, label
from gesso.cli.output import print_table

Cells = list[dict[str, Any]]
WIDE = 76
"""Columns that the widest table takes with everything in it."""


def show_report(report: Report) -> None:
    """Shows what a reader of the report wants at a glance."""
    console = Console(highlight=False, soft_wrap=False)
    model, machine = report["model"], report["machine"]
    weights = f"{model['parameters'] / 1e6:,.1f} million parameters, {model['weights_mb']:,.0f} MB of weights"
    console.print(f"{model['name']}: {weights}, {model['dtype']}", style="bold")
    console.print(f"{machine['device']}; {machine['cpu']}, {machine['threads']} of {machine['cores']} cores")
    console.print(
        f"reads {machine['gb_per_s']:,.1f} GB/s, multiplies {machine['matmul_gflop_per_s']:,.0f} GFLOP/s"
        + (f"; load {machine['load']:.1f} at the start" if machine["load"] is not None else "")
    )
    console.print(_steps_line(report))
    if report["cells"]:
        wide = console.width >= WIDE
        _print(console, _steps(report["cells"], wide))
        _print(console, _tokens(report["cells"], wide))
    if report.get("images"):
        console.print(_images_line(report["images"]))
    if "peer" in report:
        peer = report["peer"]
        if "error" in peer:
            console.print(f"\n{peer['name']} failed: {peer['error']}")
        else:
            _print(console, _peer(report["cells"], peer))
    if "changes" in report:
        _show_changes(console, report["changes"])
    if not report["complete"]:
        console.print("interrupted: this is what was measured so far", style="bold")


def show_account(report: Report) -> None:
    """Shows the bytes of every cell, in GB, or in MB where none has a GB."""
    console = Console(highlight=False, soft_wrap=False)
    model, cells = report["model"], report["cells"]
    console.print(
        f"{model['name']}: {model['parameters'] / 1e6:,.1f} million parameters, {model['dtype']}", style="bold"
    )
    console.print(f"counted, not measured: nothing was allocated; canvases of {model['canvas_length']}")
    unit, size = ("GB", 1e9) if max(cell["total"] for cell in cells) >= 1e9 else ("MB", 1e6)
    parts = ("experts", "dense", "table", "cache", "workspace", "total")
    table = _table(f"\n{unit} on the device", *parts)
    for cell in cells:
        table.add_row(label(cell), cell["mode"], *(f"{cell[part] / size:,.2f}" for part in parts))
    _print(console, table)


def _print(console: Console, table: Table) -> None:
    """Prints a table none of whose cells may be cut: half a figure is another one."""
    options = console.options.update(max_width=4 * WIDE)
    print_table(console, table, console.measure(table, options=options).maximum)


def _steps_line(report: Report) -> str:
    facts = f"{report['repeats']} repeat{'s' * (report['repeats'] != 1)} after {report['warmup']} to warm up, "
    facts += f"canvases of {report['model']['canvas_length']}, "
    if report["steps"] == "real":
        return facts + "as many steps as they take"
    facts += f"{report['steps']} step{'s' * (report['steps'] != 1)} each"
    return facts + (": random weights never settle" if report["model"]["random_weights"] else "")


def _images_line(images: Mapping[str, Any]) -> str:
    """What the images of one prompt take, which the seconds to the first block have in them."""
    shown = f"{images['images']} image{'s' * (images['images'] != 1)} of {sum(images['soft_tokens'])} soft tokens"
    tower = f"tower {_short(images['tower_ms']['median'])} ms, {images['times_floor']:.1f} times its floor"
    return f"\nA prompt's {shown}: prepared in {_short(images['prepare_ms']['median'])} ms, {tower}"


def _table(title: str, *headings: str, gap: int = 2) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, gap, 0, 0))
    table.add_column("cell", no_wrap=True)
    table.add_column("mode", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _steps(cells: Cells, wide: bool) -> Table:
    spread = ["min..max"] if wide else []
    table = _table("\nA step beside its floor", "first s", "step ms", *spread, "floor", "by", "times")
    for cell in cells:
        table.add_row(
            label(cell),
            cell["mode"],
            f"{cell['first_block_s']['median']:.3f}",
            _short(cell["step_ms"]["median"]),
            *([_range(cell["step_ms"])] if wide else []),
            _short(cell["floor_ms"]),
            "reads" if cell["floor_by"] == "reads" else "FLOPs",
            f"{cell['times_floor']:.1f}",
        )
    return table


def _tokens(cells: Cells, wide: bool) -> Table:
    energy = has_energy(cells)
    headings = ["steps", "tok/pass", "tok/s", *(["min..max"] if wide else []), "peak MB", "x ar"]
    table = _table("\nTokens", *headings, *(["joules"] if energy else []), gap=1 if energy or not wide else 2)
    for cell in cells:
        row = [
            label(cell),
            cell["mode"],
            f"{cell['steps_per_canvas']:.1f}",
            f"{cell['tokens_per_forward']:.1f}",
            _short(cell["tokens_per_s"]["median"]),
            *([_range(cell["tokens_per_s"])] if wide else []),
            f"{'' if cell['peak_is_of_cell'] else '<'}{cell['peak_mb']:,.0f}",
            "" if cell["times_ar"] is None else f"{cell['times_ar']:.2f}",
        ]
        table.add_row(*row, *([_short(cell["joules"] or 0.0)] if energy else []))
    return table


def _peer(cells: Cells, peer: Mapping[str, Any]) -> Table:
    table = _table(
        f"\nThe same weights in {peer['name']}", "first s", "step ms", "steps", "tok/s", "gesso: step", "tok/s"
    )
    ours = {key_of(cell): cell for cell in cells}
    for cell in peer["cells"]:
        own = ours[key_of(cell)]
        table.add_row(
            label(cell),
            cell["mode"],
            f"{cell['first_block_s']['median']:.3f}",
            _short(cell["step_ms"]["median"]),
            f"{cell['steps_per_canvas']:.1f}",
            _short(cell["tokens_per_s"]["median"]),
            f"{cell['step_ms']['median'] / own['step_ms']['median']:.2f}x",
            f"{own['tokens_per_s']['median'] / cell['tokens_per_s']['median']:.2f}x",
        )
    return table


def _show_changes(console: Console, changes: Mapping[str, Any]) -> None:
    table = _table(f"\nSince {changes['since']}", "step", "min..max", "tok/s", "min..max")
    for cell in changes["cells"]:
        parts = [(cell[name]["percent"], cell[name]["low"], cell[name]["high"]) for name in ("step_ms", "tokens_per_s")]
        facts = [text for middle, low, high in parts for text in (f"{middle:+.1f}%", f"{low:+.0f}..{high:+.0f}%")]
        table.add_row(label(cell), cell["mode"], *facts)
    if changes["cells"]:
        _print(console, table)
    else:
        console.print(f"\nSince {changes['since']}: no cell in common")
    if changes["differs"]:
        console.print(f"not as it was then: {', '.join(changes['differs'])}", style="bold")


def _short(value: float) -> str:
    """Three figures or so."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _range(spread: Mapping[str, float]) -> str:
    return f"{_short(spread['low'])}..{_short(spread['high'])}"
