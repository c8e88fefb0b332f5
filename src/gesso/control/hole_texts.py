"""Says which texts a hole may hold, and ranks those that were found: what both ways to fill holes share."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from gesso.control.fill_result import FillCandidate, FilledHole
from gesso.control.holes import Hole
from gesso.engine.engine import Engine
from gesso.generation import LARGEST_BIAS
from gesso.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Found:
    """Holds a candidate for a hole with its tokens."""

    candidate: FillCandidate
    ids: tuple[int, ...]
    converged: bool
    complete: bool = True


def tries(lead: str) -> list[tuple[str, bool]]:
    """Returns the ways to fill a hole until one succeeds: what of the text before it is part of it, and whether only
    tokens that are whole text by themselves are allowed."""
    return [*([(lead, False)] if lead else []), ("", False), ("", True)]


def banned_tokens(engine: Engine, *, ends: bool, whole_only: bool) -> dict[int, float]:
    """Returns the tokens that a hole must not hold, as a bias; the end is one of them unless the hole may end.

    Args:
        whole_only: tokens that are no whole text by themselves are banned, too.
    """
    tokenizer, eos = engine.tokenizer, frozenset(engine.defaults.eos_token_ids)
    banned = tokenizer.special_ids - eos if ends else tokenizer.special_ids | eos
    return dict.fromkeys(banned | _partial(tokenizer) if whole_only else banned, -LARGEST_BIAS)


def text_of(tokenizer: Tokenizer, ids: Sequence[int], lead: str) -> tuple[str, int] | None:
    """Returns the text of a hole's tokens behind `lead`, and how many tokens it has; None where it is no text."""
    text = tokenizer.decode(ids)
    if "\ufffd" in text or not text.startswith(lead):
        return None
    alone = bool(lead) and tokenizer.decode(ids[:1]) == lead
    return text.removeprefix(lead), len(ids) - alone


def score_of(found: Found) -> float:
    """Returns the score of a candidate."""
    return found.candidate.score


def chosen(hole: Hole, found: Sequence[Found], alternatives: int) -> FilledHole:
    """Returns the first of `found`, and of the others, which are in order, each text once."""
    best = found[0].candidate
    others: dict[str, FillCandidate] = {}
    for one in found:
        others.setdefault(one.candidate.text, one.candidate)
    del others[best.text]
    return FilledHole(
        name=hole.name,
        text=best.text,
        score=best.score,
        width=best.width,
        converged=found[0].converged,
        complete=found[0].complete,
        alternatives=tuple(others.values())[:alternatives],
    )


@lru_cache(maxsize=4)
def _partial(tokenizer: Tokenizer) -> frozenset[int]:
    """Returns the tokens that are no whole text by themselves, such as the first byte of a character."""
    return frozenset(token for token in range(tokenizer.size) if "\ufffd" in tokenizer.piece(token))
