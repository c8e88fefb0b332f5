"""Provides synthetic tasks with graders, which models are trained and tested on, and the bundled model's tokenizer.

A file for each generator with its grader, `registry` for their names; `run_code` and `run_sql` run what is graded so,
on `tried_arguments`. `vocabulary` and `spelled` (the skills') are the vocabularies, beside a chat template. `skills/`
has open words (`slots`, `lexicon`, `catalogue`, a file or a folder a skill, wordings in `phrasings/`), `sight/`
pictures. No torch.
"""

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
