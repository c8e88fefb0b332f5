"""Goes through the holes of a document: what both ways to fill them share.

Holes are filled in order, each behind what was chosen before it. A word's token mostly holds the space before it, so a
single space or line break before a hole is tried as part of the hole first; a candidate that does not begin with it is
dropped. So is one that ends within a character.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from gesso.control.fill_result import FilledHole
from gesso.control.hole_texts import Found, chosen, tries
from gesso.control.holes import Document
from gesso.control.job import Job
from gesso.control.window import check_exact, leading_space
from gesso.engine.engine import Engine
from gesso.errors import OptionError, TextError
from gesso.generation import Mode


class HoleFiller(ABC):
    """Fills the holes of one document, and counts what that takes."""

    def __init__(
        self,
        engine: Engine,
        document: Document,
        adapter: str | None,
        settings: dict[str, Any],
        *,
        mode: Mode,
        known: Sequence[str],
        what: str = "a fill",
    ) -> None:
        """
        Args:
            document: as a model reads it.
            mode: in which its requests are answered, whatever the model does by itself.
            known: the settings that such a fill takes.
            what: what it is called where another one is refused.
        """
        for name in settings:
            if name not in known:
                raise OptionError(f"{name} does not go with {what}, which takes {', '.join(known)}", option=name)
        check_exact(document, engine.tokenizer)
        self._document, self._engine, self._adapter = document, engine, adapter
        self._config = engine.defaults.override(mode=mode, **settings)
        self._budget = self._config.max_new_tokens
        self.seed = secrets.randbits(31) if self._config.seed is None else self._config.seed
        self.prompt_tokens = self.steps = 0

    @property
    @abstractmethod
    def truncated(self) -> bool:
        """Says whether text too far from a hole was left out of what the model saw."""

    @abstractmethod
    def _candidates(self, number: int, before: Sequence[int], lead: str, *, whole_only: bool) -> Job[list[Found]]:
        """Returns candidates for hole `number`, the best first.

        Args:
            before: tokens of the answer up to the hole, without `lead`.
            lead: what of the text before the hole is tried as part of it.
            whole_only: tokens that are no whole text by themselves are left out.
        """

    def run(self, alternatives: int) -> Job[list[FilledHole]]:
        """Fills one hole after the other.

        Raises:
            TextError: the model wrote no whole text for a hole.
            OptionError: the user's message leaves no room for an answer.
        """
        texts = self._document.texts
        done: list[int] = []
        filled = []
        for number, hole in enumerate(self._document.holes):
            for lead, whole_only in tries(leading_space(texts[number])):
                before = [*done, *self._engine.tokenizer.encode(texts[number].removesuffix(lead))]
                found = yield from self._candidates(number, before, lead, whole_only=whole_only)
                if found:
                    break
            else:
                raise TextError(f"hole {number + 1}: the model wrote no whole text")
            filled.append(chosen(hole, found, alternatives))
            done = [*before, *found[0].ids]
        return filled

    def _ends(self, number: int) -> bool:
        """Says whether hole `number` ends the document, and ends by itself."""
        hole = self._document.holes[number]
        return number + 1 == len(self._document.holes) and not self._document.texts[-1] and hole.least is None
