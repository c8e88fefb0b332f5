"""Finds the prompts that `gesso quantize --calibrate` observes a model with."""

import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gesso.cli.files import read_text
from gesso.errors import OptionError

if TYPE_CHECKING:
    from gesso.models.quantization.calibration import Calibration

BUILT_IN = 16
"""Prompts of gesso's own tasks; those that evaluations ask are not among them."""


def calibration_for(model: str, folder: Path, file: Path | None) -> "Calibration":
    """Returns the prompts of a file, or built-in ones, as the model reads them.

    Args:
        model: its name, which says what tasks it was trained on.
        folder: of its checkpoint.
        file: one prompt a line; None for `BUILT_IN` prompts of its tasks.

    Raises:
        OptionError: no tokenizer, or a file that cannot be read, or a line that is no prompt.
        TextError: a prompt that the model cannot read.
    """
    from gesso.engine.prompt import PromptReader
    from gesso.errors import TextError
    from gesso.models.loading import read_model_config
    from gesso.models.quantization.calibration import Calibration
    from gesso.text.chat_template import ChatTemplate
    from gesso.text.tokenizer import Tokenizer

    prompts = _built_in(model) if file is None else _of_file(file)
    if not (folder / "tokenizer.json").exists():
        raise OptionError(
            f"{model} has no tokenizer.json, without which prompts cannot be read: it cannot be calibrated",
            option="calibrate",
        )
    template = ChatTemplate.from_folder(folder)
    reader = PromptReader(Tokenizer.from_folder(folder), template, read_model_config(folder))
    read = []
    for number, prompt in enumerate(prompts, 1):
        try:
            read.append(tuple(reader.read(prompt, raw=template is None and isinstance(prompt, str)).ids))
        except TextError as error:
            raise TextError(f"{'the built-in prompts' if file is None else file}, prompt {number}: {error}") from None
    return Calibration(tuple(read))


def _built_in(model: str) -> list[Any]:
    from gesso.tasks.base import training_stream
    from gesso.tasks.registry import TASKS, default_tasks

    tasks = [(TASKS[name], 1.0) for name in default_tasks(model)]
    return [example.prompt for example in islice(training_stream(tasks, seed=0), BUILT_IN)]


def _of_file(file: Path) -> list[Any]:
    """Reads a prompt or a conversation a line; blank lines are nothing."""
    try:
        _, text = read_text(str(file))
    except OSError as error:
        raise OptionError(
            f"--calibration-prompts {file} cannot be read: {error.strerror}", option="calibration_prompts"
        ) from None
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("{"):
            found.append(_of_json(line, f"--calibration-prompts {file}, line {number}"))
        elif line.strip():
            found.append(line)
    if not found:
        raise OptionError(f"--calibration-prompts {file} holds no prompt", option="calibration_prompts")
    return found


def _of_json(line: str, place: str) -> Any:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise OptionError(f"{place} is no JSON", option="calibration_prompts") from None
    prompt, messages = record.get("prompt"), record.get("messages")
    if isinstance(prompt, str):
        return prompt
    if isinstance(messages, list) and all(isinstance(message, dict) for message in messages):
        return messages
    raise OptionError(f"{place} has no prompt (a text) and no messages", option="calibration_prompts")
