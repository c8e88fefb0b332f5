"""Allows reasoning before an answer that is constrained."""

from gesso.constraints import charset
from gesso.constraints.expression import Chars, Expression, Repeat, Text, repeat, sequence
from gesso.constraints.placeholders import mark
from gesso.text.output import CHANNEL, CHANNEL_END

SPECIAL = (CHANNEL, CHANNEL_END)
"""The special tokens around reasoning, in the order of their placeholders."""


def after_reasoning(answer: Expression, first_mark: int, *, begun: bool = False) -> Expression:
    """Returns the answer alone, or behind one piece of reasoning of any text and length.

    Args:
        first_mark: number of the first mark of `SPECIAL`: those below are the answer's own.
        begun: reasoning was opened before, so that the answer stands behind its end alone.
    """
    opened, closed = (Text(mark(first_mark + number)) for number in range(len(SPECIAL)))
    written = Repeat(Chars(charset.ANY))
    if begun:
        return sequence(written, closed, answer)
    return sequence(repeat(sequence(opened, Text("thought\n"), written, closed), 0, 1), answer)
