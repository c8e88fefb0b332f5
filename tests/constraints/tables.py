"""Builds small automata and transitions from tables that a test writes down."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gesso.constraints.automaton import TokenAutomaton
from gesso.constraints.transitions import REFUSED, Transitions


def automaton_of(
    next_SV: ArrayLike,
    accepting: Iterable[int],
    end_tokens: Iterable[int],
    start: int = 0,
    fill_token: int | None = None,
) -> TokenAutomaton:
    """Returns an automaton from its text states' transitions, token by token (`REFUSED` where there is none)."""
    table_SV = np.asarray(next_SV, dtype=np.int32)
    accepting_S = np.zeros(len(table_SV), dtype=np.bool_)
    accepting_S[list(accepting)] = True
    columns_VS = np.ascontiguousarray(table_SV.T)
    number = {np.full_like(columns_VS[0], REFUSED).tobytes(): REFUSED}
    class_V = np.array([number.setdefault(row.tobytes(), len(number) - 1) for row in columns_VS], dtype=np.int32)
    _, firsts = np.unique(class_V[class_V >= 0], return_index=True)
    next_SK = table_SV[:, np.flatnonzero(class_V >= 0)[firsts]]
    return TokenAutomaton.assemble(class_V, transitions_of(next_SK), accepting_S, start, tuple(end_tokens), fill_token)


def transitions_of(next_RK: NDArray[np.integer]) -> Transitions:
    """Lists what a table of rows and classes says."""
    kind_E, source_E = np.nonzero(next_RK.T >= 0)
    length_K = np.bincount(kind_E, minlength=next_RK.shape[1])
    target_E = next_RK[source_E, kind_E].astype(np.int32)
    return Transitions(length_K.cumsum() - length_K, length_K, source_E.astype(np.int32), target_E)
