"""Holds a list and how it is to be."""

from collections.abc import Sequence
from dataclasses import dataclass

from gesso.tasks.skills.layouts import COMMAS, LINES, SPACES, Layout
from gesso.tasks.skills.patterns import Phrasings
from gesso.tasks.skills.placing import placed_request
from gesso.tasks.skills.slots import Slots

LINE_LAYOUTS = (Layout("\n"), Layout("\n"), Layout("\n", item="- {}"), Layout("; "))
"""Layouts for items with spaces or commas in them."""
OF_WHOLE = (
    r"\b(temperatures|times|prices|ages|bids|weights|distances|grades|scores?|marks|points|bills|results|coldest|warmest|"
    r"cheapest|expensive|youngest|oldest|lightest|heaviest|(page|house|room|ticket|lottery) numbers)\b"
)
"""What numbers with a unit, a sign or a point may not be."""
OF_GOODS = (
    r"\b(ingredients|spices?|guests?|plants?|tools?|groceries|supplies|shopping|packing|wish|reading|vocabulary|"
    r"class)\b"
)
"""What codes, files and addresses are not."""
_UNQUOTED_SHARE = 0.3
"""How often words between spaces have no quotes in the middle of a request, as in a hurry."""

_FENCED_SHARE = 0.15
"""How often lines stand in a fence, which answers leave out."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """Holds what is given and how it is to be, with the requests for it."""

    phrasings: Phrasings
    given: Sequence[str]
    result: Sequence[str]
    layout: Layout
    without: str = ""

    def ask(self, slots: Slots) -> tuple[str, str]:
        """Draws a prompt, and returns it with its answer."""
        data, answer = self.layout.write(self.given), self.layout.answer(self.result)
        if self.layout == LINES and slots.rng.random() < _FENCED_SHARE:
            return slots.request(self.phrasings, f"```\n{data}\n```", without=self.without), answer
        loose = self.layout.separator == " " and self.layout.item == "{}" and slots.rng.random() >= _UNQUOTED_SHARE
        prompt = placed_request(
            slots, self.phrasings, data, count=len(self.given), loose=loose, without=self.without,
            joint=self.layout.separator,
        )  # fmt: skip
        return prompt, answer


def in_order(texts: dict[int, str], phrasings: Phrasings, layout: Layout, *, down: bool) -> Sorted:
    """Returns the texts as they are given, and by their numbers."""
    result = [texts[key] for key in sorted(texts, reverse=down)]
    if layout.separator == SPACES.separator and any(" " in text for text in result):
        layout = COMMAS
    return Sorted(phrasings, list(texts.values()), result, layout)
