"""Reads what a checkpoint was measured to do: the `card.json` beside its weights."""

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gesso.errors import CheckpointError
from gesso.json_files import read_json
from gesso.models.hub import resolve

CARD = "card.json"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Skill:
    """Describes one kind of prompt, and how well the model does on prompts that training never drew. Shares are from 0
    to 1."""

    name: str
    example: str
    """A prompt of this kind, or what it consists of."""
    right: float
    """Share of answers that are right to the letter."""
    low: float
    """Lower end of the 95% interval of `right`."""
    high: float
    goal: float
    """The share that was aimed at."""
    steps: float
    """Mean of the denoising steps a canvas."""
    examples: int
    """Prompts measured."""
    command: str
    """What measures it."""
    whole: bool = True
    """Whether the example is a prompt as it stands."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """Says what a model can do and cannot."""

    skills: tuple[Skill, ...] = ()
    measured_on: str = ""
    """Which weights the figures of `skills` are of; empty where they are of those beside the card."""
    tool_calls: bool = False
    """Whether it was trained to call tools."""
    thinking: bool = False
    """Whether it was trained to think before it answers."""
    limits: str = ""
    """What must not be expected of it, in a sentence."""
    model_for_other_words: str = ""
    """The bundled model for words and wordings that this one was not trained on; empty where it takes any."""
    wordings: tuple[str, ...] = ()
    """Where words and wordings are fixed: regular expressions, of which the whole of a prompt matches one if it is
    worded as in training."""

    @property
    def thinks(self) -> bool:
        """Says whether it may be asked to think: nothing that was measured says that it was not trained to."""
        return self.thinking or not self.skills


def read_card(folder: Path) -> ModelCard | None:
    """Reads the card of a checkpoint; None where it has none.

    Raises:
        CheckpointError: the file is no JSON object, lacks a field, or has one that is unknown.
    """
    path = folder / CARD
    if not path.is_file():
        return None
    raw = read_json(path)
    try:
        skills = tuple(_checked(Skill(**skill)) for skill in raw.pop("skills", ()))
        return _checked(ModelCard(skills, wordings=_patterns(raw.pop("wordings", [])), **raw))
    except (TypeError, AttributeError, re.error) as error:
        raise CheckpointError(f"{path} is no card of a model: {error}") from None


def card_of(model: str) -> ModelCard:
    """Returns the card of a model that is on this machine, by the name it is loaded by; an empty one where it has none.

    Raises:
        HubError: the model is not here.
        CheckpointError: see `read_card`.
    """
    return read_card(resolve(model, offline=True)) or ModelCard()


def _patterns(wordings: list[str]) -> tuple[str, ...]:
    if not isinstance(wordings, list):
        raise TypeError(f"wordings is {wordings!r}")
    return tuple(re.compile(wording).pattern for wording in wordings)


def _checked(record: T) -> T:
    """Returns `record`, if its plain fields are of the types that they were declared with."""
    for field in dataclasses.fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        if field.type in (str, bool) and type(value) is not field.type:
            raise TypeError(f"{field.name} is {value!r}")
        if field.type in (int, float) and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise TypeError(f"{field.name} is {value!r}")
    return record
