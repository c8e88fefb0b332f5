"""Provides synthetic tasks with graders, which models are trained and tested on, and the bundled model's tokenizer."""

from gesso.tasks.base import Example, Task, evaluation_set, held_out, training_stream
from gesso.tasks.registry import MINI_SKILLS, MINI_WEIGHTS, TASKS, default_tasks, mini_mixture
from gesso.tasks.vocabulary import SPECIAL_TOKENS, build_tokenizer

__all__ = [
    "MINI_SKILLS",
    "MINI_WEIGHTS",
    "SPECIAL_TOKENS",
    "TASKS",
    "Example",
    "Task",
    "build_tokenizer",
    "default_tasks",
    "evaluation_set",
    "held_out",
    "mini_mixture",
    "training_stream",
]
