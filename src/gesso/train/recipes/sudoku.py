"""`sudoku`: the bundled model taught to solve puzzles, the published recipe's task at our size.

The whole grid is one canvas of 96 tokens: 81 digits, 8 line ends, the end of the turn, and EOS. The puzzle is read once
for several noisy grids, and the encoder, which has nothing to predict, reads the puzzle only. The sliding window is
wider than `mini`'s, so that every layer sees the whole puzzle from every cell.
"""

import dataclasses

from gesso.models.hub import resolve
from gesso.train.config import Recipe, TrainConfig
from gesso.train.recipes.mini import mini, task_data
from gesso.train.task_data import Stage

CANVAS, WINDOW = 96, 256


def sudoku() -> Recipe:
    """Sudoku from the bundled `mini`, all weights; minutes on a GPU, two hours on one CPU core with bf16 products."""
    recipe = mini()
    train = TrainConfig(
        steps=5000,
        batch_size=16,
        canvases_per_example=4,
        learning_rate=1.2e-3,
        warmup_steps=200,
        encoder_loss_weight=0.0,
        precision="bfloat16",
        checkpoint_every=250,
        evaluate_every=1000,
        evaluation_examples=128,
    )
    return dataclasses.replace(
        recipe,
        name="sudoku",
        model=dataclasses.replace(recipe.model, canvas_length=CANVAS, sliding_window=WINDOW),
        generation=dataclasses.replace(recipe.generation, verify=0),  # an answer is one canvas
        train=train,
        data=task_data((Stage(0, {CANVAS: {"sudoku": 1.0}}),), seed=0),
        start=resolve("mini"),
    )


def sudoku_2() -> Recipe:
    """The bundled `sudoku` taught further, with other puzzles: two hours more on one CPU core."""
    recipe = sudoku()
    return dataclasses.replace(
        recipe,
        name="sudoku-2",
        train=dataclasses.replace(
            recipe.train, steps=4900, warmup_steps=100, evaluate_every=500, optimizer="muon", seed=1
        ),
        data=task_data((Stage(0, {CANVAS: {"sudoku": 1.0}}),), seed=1),
        start=resolve("sudoku"),
    )


def sudoku_3() -> Recipe:
    """The bundled `sudoku` taught further: puzzles of fewer clues, noisier canvases, and drafts of its own."""
    recipe = sudoku_2()
    train = dataclasses.replace(
        recipe.train,
        steps=3000,
        time_exponent=0.5,
        self_conditioning_probability=0.75,
        own_draft_probability=0.67,
        own_draft_rounds=3,
        seed=2,
    )
    data = task_data((Stage(0, {CANVAS: {"sudoku-sparse": 1.0}}),), seed=2)
    return dataclasses.replace(recipe, name="sudoku-3", train=train, data=data)
