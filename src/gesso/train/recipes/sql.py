"""Trains `sql`: the bundled model taught to write queries for a schema in the prompt; the second task that closes."""

from gesso.train.recipes.common import continued
from gesso.train.recipes.mini import RELEASED, mini
from gesso.train.task_data import Stage

CANVAS = 32

sql = continued(
    mini, "sql",
    "SQL from a schema and a request, from the bundled `mini`, all weights.",
    Stage(0, {CANVAS: {"sql": 1.0}}), start="mini", generation=RELEASED,
    steps=1000, batch_size=48, canvases_per_example=2, narrow=(), learning_rate=1.2e-3, warmup_steps=50,
    self_conditioning_probability=0.75, own_draft_probability=0.5, own_draft_rounds=2,
    precision="bfloat16", optimizer="muon", evaluate_every=250, evaluation_examples=128,
)  # fmt: skip
