"""Makes the automaton of a list of texts letter by letter."""

import numpy as np

from gesso.constraints.byte_table import ByteAutomaton
from gesso.constraints.expression import Expression, Text, Union
from gesso.constraints.placeholders import encode


def spelled_out(expression: Expression) -> list[str] | None:
    """Returns the texts of an expression that lists them; None where it says them otherwise."""
    options = expression.options if isinstance(expression, Union) else (expression,)
    texts = [option.text for option in options if isinstance(option, Text)]
    return texts if texts and len(texts) == len(options) else None


def trie(texts: list[str]) -> ByteAutomaton:
    """Returns the automaton of exactly these texts; ends that are alike are not merged."""
    follows: dict[tuple[int, int], int] = {}
    ends = []
    for text in texts:
        state = 0
        for byte in encode(text):
            state = follows.setdefault((state, byte), len(follows) + 1)
        ends.append(state)
    letters = sorted({byte for _, byte in follows})
    # All other bytes are one group, which leads nowhere.
    group_B = np.zeros(256, dtype=np.int64)
    group_B[letters] = np.arange(1, len(letters) + 1)
    next_SG = np.full((len(follows) + 1, len(letters) + 1), -1, dtype=np.int32)
    if follows:
        source, byte = np.array(list(follows)).T
        next_SG[source, group_B[byte]] = list(follows.values())
    accepting_S = np.zeros(len(next_SG), dtype=np.bool_)
    accepting_S[ends] = True
    return ByteAutomaton(next_SG, group_B, accepting_S, 0)
