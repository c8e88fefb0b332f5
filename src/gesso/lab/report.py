"""Writes a comparison as one page of HTML, without anything from elsewhere: tables, and accuracy over passes drawn."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from math import log2
from pathlib import Path

from gesso.errors import DataError
from gesso.lab.grid import Setting
from gesso.lab.run import LabResult
from gesso.lab.statistics import Row, accuracy_under_parallelism
from gesso.whole_file import write_whole

WIDTH, HEIGHT, MARGIN = 560, 300, 46
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1b1b1b; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
tr.best td:first-child { font-weight: 600; }
svg { display: block; margin: 1rem 0; max-width: 100%; }
p { color: #555; }
@media (prefers-color-scheme: dark) { body { background: #161616; color: #e6e6e6; } th, td { border-color: #444; } }
"""
AREA = "right answers (percent) times tokens a pass, over all settings, more is better (AUP)"
HEADS = (
    "setting",
    "right",
    "95%",
    "passes",
    "95%",
    "tokens/pass",
    "fixed",
    "broken",
    "p",
    "p (Holm)",
    "passes, change",
)


def groups(rows: Sequence[Row]) -> Iterator[tuple[str, str, list[Row]]]:
    """Yields model, task and their rows, in order."""
    for (model, task), part in groupby(rows, key=lambda row: (row.model, row.task)):
        yield model, task, list(part)


def write_report(result: LabResult, path: Path) -> None:
    """Writes the page.

    Raises:
        DataError: the file cannot be written.
    """
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><title>gesso lab</title><style>{STYLE}</style>"]
    parts.append("<h1>gesso lab</h1>")
    parts.append(
        f"<p>{result.examples} examples of each task, set {result.seed}, the same with the same seeds for every"
        " setting. Right: Wilson's interval. Passes: of an answer behind its prompt. Fixed, broken and p (McNemar's"
        " exact test, two-sided) beside the first setting of the table; Holm: the same, for as many comparisons as the"
        " table has. Bold: no other is right as often in fewer"
        " passes.</p>"
    )
    for model, task, rows in groups(result.rows):
        area = accuracy_under_parallelism([(row.tokens_per_forward, row.right / row.examples) for row in rows])
        parts.append(f"<h2>{escape(model)} &middot; {escape(task)}</h2>")
        parts += [_plot(rows), _table(rows), f"<p>{AREA}: {area:.0f}</p>"]
    try:
        write_whole(path, ("\n".join(parts) + "</html>\n").encode())
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}") from None


def cells(row: Row) -> tuple[str, ...]:
    """Returns a row's cells as text, in the order of `HEADS`."""
    (low, high), (least, most), (down, up) = row.interval, row.passes_interval, row.passes_change_interval
    return (
        str(Setting(row.options)),
        f"{row.right}/{row.examples}",
        f"{low:.0%} to {high:.0%}",
        f"{row.passes:.1f}",
        f"{least:.1f} to {most:.1f}",
        f"{row.tokens_per_forward:.1f}",
        str(row.fixed),
        str(row.broken),
        f"{row.p:.3f}",
        f"{row.p_holm:.3f}",
        f"{row.passes_change:+.1f} ({down:+.1f} to {up:+.1f})",
    )


def _table(rows: Sequence[Row]) -> str:
    head = "".join(f"<th>{name}</th>" for name in HEADS)
    body = "".join(
        f"<tr{' class=best' if row.best else ''}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells(row))}</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _plot(rows: Sequence[Row]) -> str:
    """Shares that are right over passes, on a scale that doubles; the Pareto front is a line."""
    costs = [log2(max(row.passes, 0.5)) for row in rows]
    first, last = min(costs) - 0.3, max(costs) + 0.3

    def x(row: Row) -> float:
        return MARGIN + (log2(max(row.passes, 0.5)) - first) / (last - first) * (WIDTH - 2 * MARGIN)

    def y(share: float) -> float:
        return HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN)

    lines = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width={WIDTH} role=img aria-label="accuracy over passes">']
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        lines.append(f'<line x1={MARGIN} x2={WIDTH - MARGIN} y1={y(share):.1f} y2={y(share):.1f} stroke="#8884"/>')
        lines.append(f"<text x={MARGIN - 6} y={y(share) + 4:.1f} {_TEXT} text-anchor=end>{share:.0%}</text>")
    front = sorted((row for row in rows if row.best), key=x)
    points = " ".join(f"{x(row):.1f},{y(row.right / row.examples):.1f}" for row in front)
    lines.append(f'<polyline points="{points}" fill=none stroke="#2a7" stroke-width=1.5 />')
    for row in rows:
        low, high = row.interval
        colour = "#2a7" if row.best else "#888"
        lines.append(f'<line x1={x(row):.1f} x2={x(row):.1f} y1={y(low):.1f} y2={y(high):.1f} stroke="{colour}"/>')
        lines.append(
            f'<circle cx={x(row):.1f} cy={y(row.right / row.examples):.1f} r=4 fill="{colour}">'
            f"<title>{escape(cells(row)[0])}: {row.right}/{row.examples}, {row.passes:.1f} passes</title></circle>"
        )
        lines.append(
            f"<text x={x(row):.1f} y={HEIGHT - MARGIN + 16} {_TEXT} text-anchor=middle>{row.passes:.1f}</text>"
        )
    lines.append(f"<text x={WIDTH / 2} y={HEIGHT - 8} {_TEXT} text-anchor=middle>passes an answer</text></svg>")
    return "".join(lines)


_TEXT = 'font-size=11 fill="#888"'
