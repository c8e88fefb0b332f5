"""Trains `sudoku`: the bundled model taught to solve puzzles, the published recipe's task at our size.

The whole grid is one canvas of 96 tokens: 81 digits, 8 line ends, the end of the turn, and EOS. The puzzle is read once
for several noisy grids, and the encoder, which has nothing to predict, reads the puzzle only. The sliding window is
wider than `mini`'s, so that every layer sees the whole puzzle from every cell.
"""

from gesso.train.recipes.common import continued
from gesso.train.recipes.mini import RELEASED, mini
from gesso.train.task_data import Stage

CANVAS, WINDOW = 96, 256
PUZZLES = Stage(0, {CANVAS: {"sudoku": 1.0}})
SPARSE = Stage(0, {CANVAS: {"sudoku-sparse": 1.0}})
"""Puzzles of fewer clues."""
HARD = Stage(0, {CANVAS: {"sudoku-hard": 1.0}})
"""And of fewer still."""
LONG = Stage(0, {CANVAS: {"sudoku-long": 0.7, "sudoku-hard": 0.3}})
"""And those of any number of clues whose cells must wait for many others."""

ONE_CANVAS = {**RELEASED, "verify": 0, "max_denoising_steps": 96, "restart_steps": 24}
"""An answer is one canvas; docs/lab.md has what other settings do."""
TRAINED_ATTEMPTS = {"max_denoising_steps": 50, "restart_steps": 10, "confidence_threshold": 0.001}
"""Attempts that `sudoku-4` trains along: where it began, a canvas that was right in the end was so within ten steps or
hardly ever."""

sudoku = continued(
    mini, "sudoku",
    "Sudoku from the bundled `mini`, all weights; minutes on a GPU, two hours on one CPU core with bf16 products.",
    PUZZLES, start="mini",
    model={"canvas_length": CANVAS, "sliding_window": WINDOW},
    generation=ONE_CANVAS,
    steps=5000, batch_size=16, canvases_per_example=4, narrow=(), learning_rate=1.2e-3, encoder_loss_weight=0.0,
    precision="bfloat16", evaluate_every=1000, evaluation_examples=128,
)  # fmt: skip
sudoku_2 = continued(
    sudoku, "sudoku-2",
    "The bundled `sudoku` taught further, with other puzzles: two hours more on one CPU core.",
    PUZZLES, start="sudoku", seed=1,
    steps=4900, warmup_steps=100, evaluate_every=500, optimizer="muon",
)  # fmt: skip
sudoku_3 = continued(
    sudoku_2, "sudoku-3",
    "The bundled `sudoku` taught further: fewer clues, noisier canvases, self-generated corruption.",
    SPARSE, seed=2,
    steps=3000, time_exponent=0.5, self_conditioning_probability=0.75, own_draft_probability=0.67, own_draft_rounds=3,
)  # fmt: skip
sudoku_4 = continued(
    sudoku_3, "sudoku-4",
    "The bundled `sudoku` taught further, on every step of canvases that it denoises itself.",
    SPARSE, start="sudoku", seed=4, generation=TRAINED_ATTEMPTS,
    steps=600, batch_size=16, canvases_per_example=1, learning_rate=8e-4,
    on_policy=True, time_exponent=1.0, own_draft_probability=0.0,
)  # fmt: skip
sudoku_5 = continued(
    sudoku_4, "sudoku-5",
    "The bundled `sudoku` taught further along its own canvases: harder puzzles, longer attempts.",
    HARD, start="sudoku", seed=5, generation={**TRAINED_ATTEMPTS, "max_denoising_steps": 48, "restart_steps": 16},
    steps=600, learning_rate=7e-4, warmup_steps=50,
)  # fmt: skip
sudoku_6 = continued(
    sudoku_5, "sudoku-6",
    "The bundled `sudoku` taught further along its own canvases: puzzles dug straight, those that take long chains.",
    LONG, seed=6,
    steps=600, learning_rate=7e-4, warmup_steps=30,
)  # fmt: skip
sudoku_distill = continued(
    sudoku, "sudoku-distill",
    "The bundled `sudoku` taught to need fewer steps: consistency distillation from itself.",
    SPARSE, start="sudoku", seed=3, distill=0.25,
    steps=300, warmup_steps=20, learning_rate=2e-4, canvases_per_example=1, time_exponent=0.5,
    precision="float32", evaluate_every=0,
)  # fmt: skip
