"""Finds graders of answers by name: a task's own, or a Python function's.

A grader takes a prompt and an answer and returns how good the answer is: 1 (or True) where it is right, less where it
is not, such as the share of it that is. So one function serves as a check, as a score to choose by, and as the
potential of particles.
"""

import hashlib
import math
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gesso.engine.engine import Engine
from gesso.engine.prompt import Prompt
from gesso.errors import OptionError
from gesso.options.kinds import is_integer
from gesso.options.user_code import failures_of, imported
from gesso.tasks.base import Augmented, Example, Task
from gesso.tasks.registry import TASKS

Grader = Callable[[str, str], float | bool]
"""Takes a prompt and an answer; 1 is right."""


Augment = Callable[[str, random.Random], Augmented | None]
"""Takes a prompt; gives the same problem in another form, or None."""


def augmentation(task: Task) -> Augment | None:
    """Returns how a task puts its prompts into other forms; None where it cannot."""
    return None if type(task).augment is Task.augment else task.augment


def find_augmentation(name: str) -> Augment | None:
    """Returns the augmentation that goes with a grader: its task's, or the attribute `augment` of its function.

    Raises:
        OptionError: there is no such task, file or function.
    """
    if name in TASKS:
        return augmentation(TASKS[name])
    found: Augment | None = getattr(find_grader(name), "augment", None)
    return found


def augmented(augment: Augment, prompt: str, rng: random.Random) -> Augmented | None:
    """Returns another form of a prompt.

    Raises:
        OptionError: the augmentation fails, or returns something else.
        DataError: it is a task's, and the prompt is none of the task's.
    """
    found = _asked("augment", "the check's augment", augment, prompt, rng)
    if found is not None and not isinstance(found, Augmented):
        raise OptionError(f"augment returns gesso.tasks.base.Augmented or None, got {found!r:.60}", option="augment")
    return found


def restored(restore: Callable[[str], str], text: str) -> str:
    """Returns the answer to a problem, made of that to another form of it.

    Raises:
        OptionError: the augmentation fails, or returns no text.
    """
    found = _asked("augment", "the check's restore", restore, text)
    if not isinstance(found, str):
        raise OptionError(f"restore of an augment returns a text, got {found!r:.60}", option="augment")
    return found


def find_grader(name: str, reference: str | None = None, *, option: str = "check") -> Grader:
    """Returns the grader that a name means: a task, or `FILE.py:FUNCTION` or `MODULE:FUNCTION`.

    Args:
        reference: the right answer, for tasks that cannot tell a right answer by its prompt.
        option: the option that named it, for errors.

    Raises:
        OptionError: there is no such task, file or function; a reference for a function, which gets none.
    """
    if name in TASKS:
        task = TASKS[name]
        if reference is not None:
            return lambda prompt, text: task.grade(Example(task.name, prompt, reference), text)
        return task.score
    place, colon, function = name.rpartition(":")
    if not colon:
        message = f"no task {name!r} to check by; known: {', '.join(TASKS)}, or FILE.py:FUNCTION"
        raise OptionError(message, option=option)
    if reference is not None:
        raise OptionError("a reference goes with a task; a function is given prompt and answer", option="reference")
    found = getattr(imported(place, option), function, None)
    if not callable(found):
        raise OptionError(f"{place} has no function {function!r}", option=option)
    grader: Grader = found
    return grader


def grader_file(name: str) -> Path | None:
    """Returns the file of a grader that is `FILE.py:FUNCTION`; None where it is not, or there is none."""
    place, _, _ = name.rpartition(":")
    path = Path(place)
    return path if place.endswith(".py") and path.is_file() else None


def grader_identity(name: str) -> str:
    """Returns what tells a grader from another: of `FILE.py:FUNCTION` the digest of the file's content and the
    function, however the path is spelled; else the name."""
    file = grader_file(name)
    if file is None:
        return name
    return f"{hashlib.sha256(file.read_bytes()).hexdigest()}:{name.rpartition(':')[2]}"


def grade(grader: Grader, prompt: str, text: str, option: str = "check") -> float:
    """Returns what a grader says of an answer, as a number.

    Args:
        option: the one that named it, by which it is told of.

    Raises:
        OptionError: it fails, or returns no finite number.
        DataError: it is a task's, which cannot tell, or the prompt is none of the task's.
    """
    found = _asked(option, f"the {option}", grader, prompt, text)
    try:
        score = float(found) if hasattr(found, "__float__") else math.nan
    except (OverflowError, TypeError, ValueError):  # too large, or an array of several
        score = math.inf
    if not math.isfinite(score):
        raise OptionError(f"a {option} returns a finite number or a boolean, got {found!r:.60}", option=option)
    return score


def _asked(option: str, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function that may be the user's own."""
    with failures_of(option, what):
        return function(*arguments)


def passes(score: float) -> bool:
    """Says whether a grader's number means that the answer is right."""
    return score >= 1


def with_prompt_text(prompt: Prompt, text: str) -> Prompt | None:
    """Puts `text` in the place of what `prompt_text` returns; None where that is not one text: token ids, or a message
    of several parts."""
    if isinstance(prompt, str):
        return text
    last: Any = prompt[-1] if prompt else None
    if not isinstance(last, dict) or not isinstance(last.get("content"), str):
        return None
    messages: Any = [*prompt[:-1], {**last, "content": text}]
    found: Prompt = messages
    return found


def prompt_text(engine: Engine, prompt: Prompt) -> str:
    """Returns the text that a grader gets as the prompt: the last message's, where it is a conversation."""
    if isinstance(prompt, str):
        return prompt
    if len(prompt) and is_integer(prompt[0]):
        return engine.tokenizer.decode([int(token) for token in prompt if is_integer(token)])
    return message_text(prompt[-1]) if len(prompt) else ""


def message_text(message: Any) -> str:
    """Returns the text of a chat message, all of its parts of text together; empty where it is no message."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    texts = (part.get("text") for part in parts if isinstance(part, Mapping) and part.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))
