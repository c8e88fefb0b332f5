"""Holds what a command line or a grid says of a search."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gesso.errors import OptionError
from gesso.options import checked, option, options_of

if TYPE_CHECKING:
    from gesso.control.grading import Augment, Grader
    from gesso.engine.engine import Engine
    from gesso.engine.particles import ParticlesResult
    from gesso.engine.prompt import Prompt
    from gesso.tasks.base import Task

Select = Literal["likelihood", "consistency"]
_SEARCH: dict[str, Any] = {"field": None, "group": "Search"}
_NEEDED = {"select": "best_of", "at_once": "best_of", "augment": "best_of"}
_NEEDED |= {"resample_every": "particles", "reward_scale": "particles"}
"""Options that mean nothing without another one, and that."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Says whether answers are searched for, and how."""

    best_of: int | None = option(
        None, "Make up to so many answers, from seeds one after the other, and choose.", **_SEARCH
    )
    check: str | None = option(
        None,
        "Stop at an answer that this finds right: a task, such as sudoku, or FILE.py:FUNCTION, which takes prompt and "
        "answer and returns 1 (or true) where it is right, less where it is not.",
        **_SEARCH,
    )
    reference: str | None = option(None, "The right answer, for tasks that cannot tell one by the prompt.", **_SEARCH)
    select: Select | None = option(
        None,
        "How to choose where no check decides: likelihood (of a token, by the causal pass) or consistency (what most "
        "answers say; the default beside a check).",
        **_SEARCH,
    )
    at_once: int = option(1, "Answers that are made at once before they are checked. [default: 1]", **_SEARCH)
    particles: int | None = option(
        None,
        "Denoise so many canvases at once, and copy promising ones over others: those that the check scores higher, or "
        "without one those that are surer.",
        minimum=2,
        maximum=256,
        **_SEARCH,
    )
    resample_every: int | None = option(None, "Steps between two such copyings. [default: 4]", **_SEARCH)
    reward_scale: float | None = option(None, "How much more a better score weighs in them. [default: 10]", **_SEARCH)
    augment: bool | None = option(
        None,
        "Ask for every answer but the first in another form of the same problem, where the check knows such forms "
        "(sudoku: its symmetries). [default: where it does]",
        flag="--*/--no-*",
        **_SEARCH,
    )

    def __post_init__(self) -> None:
        """Refuses what goes with nothing.

        Raises:
            OptionError: a value of the wrong type, an option whose other half is missing, or a contradiction.
        """
        checked(self)
        if self.best_of is not None and self.particles is not None:
            raise OptionError("best_of and particles contradict each other", option="particles")
        for name, other in _NEEDED.items():
            given = getattr(self, name) != options_of(SearchOptions)[name].default
            if given and getattr(self, other) is None:
                raise OptionError(f"{name} needs {other}", option=name)
        if self.augment and self.check is None:
            raise OptionError("augment needs check, whose task knows other forms of a prompt", option="augment")
        if self.check is not None and not self.wanted:
            raise OptionError("check needs best_of or particles", option="check")
        if self.at_once != 1 and self.check is None:
            raise OptionError("at_once needs check: without one all answers are made at once", option="at_once")
        if self.reference is not None and self.check is None:
            raise OptionError("reference needs check", option="reference")

    @property
    def wanted(self) -> bool:
        """Says whether there is anything to search by."""
        return self.best_of is not None or self.particles is not None

    @property
    def request_defaults(self) -> dict[str, Any]:
        """Returns options of an evaluation's requests, where nobody gives them: particles have one canvas, which they
        know themselves."""
        return {} if self.particles is not None else {"max_new_tokens": 512}

    def run_particles(
        self, engine: "Engine", prompt: "Prompt", grader: "Grader | None", options: dict[str, Any]
    ) -> "ParticlesResult":
        """Runs particles whose score is the grader's."""
        from gesso.control.grading import grade, prompt_text
        from gesso.engine.particles import particles

        text = prompt_text(engine, prompt)
        given = {"resample_every": self.resample_every, "reward_scale": self.reward_scale}
        options = {**options, **{name: value for name, value in given.items() if value is not None}}
        return particles(
            engine,
            prompt,
            number=self.particles or 0,
            score=None if grader is None else lambda answer: grade(grader, text, answer),
            enough=None if grader is None else 1.0,
            **options,
        )

    def augmentation(self, own: "Task | None" = None) -> "Augment | None":
        """Returns how the check makes other forms of a prompt; None where it cannot, or they are not wanted.

        Args:
            own: the task that the checks `task` and `reference` mean.

        Raises:
            OptionError: they are asked for, and the check has none.
        """
        from gesso.control.grading import augmentation, find_augmentation

        if self.check is None or self.augment is False:
            return None
        found = find_augmentation(self.check) if own is None else augmentation(own)
        if found is None and self.augment:
            message = f"augment needs other forms of a prompt, and the check {self.check} has none"
            raise OptionError(message, option="augment")
        return found

    def grader(self) -> "Grader | None":
        """Returns the grader that `check` names."""
        from gesso.control.grading import find_grader

        return None if self.check is None else find_grader(self.check, self.reference)


SEARCH_OPTIONS = tuple(options_of(SearchOptions))
