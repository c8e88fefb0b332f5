"""Draws `docs/canvas.svg`: one answer of the bundled model while its canvas resolves.

python docs/picture.py
"""

import io
from pathlib import Path

from rich.console import Console
from rich.text import Text

import gesso
from gesso.cli.render import draw_canvas, figures, flow, legend

PROMPT = "Remove duplicates: cat dog cat bird dog fish cat"
SEED = 7
PANELS = 3


def main() -> None:
    engine = gesso.load("mini", device="cpu")
    events = list(engine.stream(PROMPT, seed=SEED))
    frames = [event for event in events if isinstance(event, gesso.DenoisingFrame)]
    result = events[-1].result  # type: ignore[union-attr]
    picked = [frames[round(i * (len(frames) - 1) / (PANELS - 1))] for i in range(PANELS)]
    console = Console(record=True, width=96, file=io.StringIO(), highlight=False, force_terminal=True)
    console.print(Text(f'$ gesso generate --seed {SEED} "{PROMPT}"', "dim"))
    for frame in dict.fromkeys(picked):
        console.print(Text(f"\nstep {frame.step}", "bold"))
        console.print(draw_canvas(frame, engine.tokenizer.special_ids))
    console.print()
    console.print(legend())
    console.print(Text(flow(figures(result), console.width), "dim"))
    path = Path(__file__).with_name("canvas.svg")
    path.write_text(console.export_svg(title="gesso: a canvas resolves"), encoding="utf-8")
    print(f"{path.name}: {len(frames)} steps")


if __name__ == "__main__":
    main()
