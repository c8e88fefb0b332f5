"""Synthetic tasks with graders, which the bundled model is trained and tested on, and its tokenizer."""

from gesso.tasks.base import Example, Task, evaluation_set, held_out, training_stream
from gesso.tasks.registry import MINI_SKILLS, MINI_WEIGHTS, TASKS, mini_mixture
from gesso.tasks.vocabulary import SPECIAL_TOKENS, build_tokenizer

__all__ = [
    "MINI_SKILLS",
    "MINI_WEIGHTS",
    "SPECIAL_TOKENS",
    "TASKS",
    "Example",
    "Task",
    "build_tokenizer",
    "evaluation_set",
    "held_out",
    "mini_mixture",
    "training_stream",
]
