"""Writes a replay as one animated SVG: it needs no script, follows the reader's theme, and stands still where motion is
to be reduced."""

from collections.abc import Sequence

from gesso.display.html import escape
from gesso.display.layout import Picture, Run

WIDTH, HEIGHT, MARGIN = 8.4, 21.0, 12.0
"""Width of a column, height of a line, margin around all, in pixels."""
STEP_SECONDS, LAST_SECONDS = 0.3, 2.5

STYLE = """
svg { --ground: #ffffff; --text: #15191e; --dim: #505a66; --sure: #cfe2f9; --likely: #e9f1fb; --open: #fdebcb;
  --noise: #f9cd91; }
@media (prefers-color-scheme: dark) { svg { --ground: #14171b; --text: #eef1f4; --dim: #aab4bf; --sure: #173a63;
  --likely: #1c2b3d; --open: #4a3510; --noise: #6b4208; } }
text { font: 14px ui-monospace, monospace; fill: var(--text); white-space: pre; }
.ground { fill: var(--ground); }
.dim { fill: var(--dim); }
.redrawn { font-style: italic; }
line { stroke: var(--text); stroke-width: 1.5; }
"""


def svg_page(pictures: Sequence[Picture], columns: int) -> str:
    """Returns the file, which asks no network and runs no script.

    Args:
        pictures: one for each step, one at least.
        columns: of a line.
    """
    lines = max(picture.lines for picture in pictures)
    width, height = columns * WIDTH + 2 * MARGIN, (lines + 2) * HEIGHT + 2 * MARGIN
    seconds = STEP_SECONDS * (len(pictures) - 1) + LAST_SECONDS
    groups = "".join(_group(number, picture, lines) for number, picture in enumerate(pictures))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-label="A canvas resolves, step by step">'
        f"<style>{STYLE}{_motion(len(pictures), seconds)}</style>"
        f'<rect class="ground" width="100%" height="100%" rx="8"/>{groups}</svg>\n'
    )


def _motion(count: int, seconds: float) -> str:
    """Each step is seen in its time; without motion the last one alone."""
    rules = [f".step {{ opacity: 0; animation: {seconds:g}s step-end infinite; }}"]
    for number in range(count):
        begin = 100 * number * STEP_SECONDS / seconds
        end = 100 * (number + 1) * STEP_SECONDS / seconds
        shown = f"0% {{ opacity: {int(number == 0)}; }} {begin:.3f}% {{ opacity: 1; }}"
        gone = "" if number == count - 1 else f" {end:.3f}% {{ opacity: 0; }}"
        rules.append(f"@keyframes s{number} {{ {shown}{gone} }} .s{number} {{ animation-name: s{number}; }}")
    still = f".step {{ animation: none; }} .s{count - 1} {{ opacity: 1; }}"
    return "\n".join([*rules, f"@media (prefers-reduced-motion: reduce) {{ {still} }}\n"])


def _group(number: int, picture: Picture, lines: int) -> str:
    runs = "".join(map(_run, picture.runs))
    foot = MARGIN + (lines + 1.5) * HEIGHT
    status = f'<text class="dim" x="{MARGIN:g}" y="{foot:g}">{escape(picture.status)}</text>'
    return f'<g class="step s{number}">{runs}{status}</g>'


def _run(run: Run) -> str:
    left, top, width = MARGIN + run.column * WIDTH, MARGIN + run.line * HEIGHT, run.columns * WIDTH
    parts = []
    if run.style not in ("plain", "dim"):
        place = f'x="{left:.1f}" y="{top:g}" width="{width:.1f}" height="{HEIGHT - 2:g}"'
        parts.append(f'<rect {place} style="fill: var(--{run.style})"/>')
        if run.accepted:
            under = top + HEIGHT - 2
            parts.append(f'<line x1="{left:.1f}" y1="{under:g}" x2="{left + width:.1f}" y2="{under:g}"/>')
    kind = "dim" if run.style == "dim" else "" if run.style == "plain" or run.accepted else "redrawn"
    named = f' class="{kind}"' if kind else ""
    if run.text.strip():
        # The length is set, so that columns stay in line in whatever font there is.
        length = f'textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs"' if run.columns else ""
        parts.append(f'<text{named} x="{left:.1f}" y="{top + 15:g}" {length}>{escape(run.text)}</text>')
    return "".join(parts)
