"""Bounds the reasoning of an answer by its token budget, and the budget by the answer."""

from collections.abc import Mapping, Sequence

from gesso.engine.constraint import OutputConstraint
from gesso.generation import GenerationConfig
from gesso.text.output import CHANNEL, CHANNEL_END, OutputParser
from gesso.text.tokenizer import Tokenizer

BESIDE_REASONING = 3
"""Tokens that the shortest answer needs beside a thought: two that open and close it, and one of its own."""


def with_reasoning_budget(config: GenerationConfig, share: float | None, prefix: int = 0) -> GenerationConfig:
    """Settles `thinking_budget`, so that there is room for an answer behind a thought.

    Args:
        config: with the length that the answer has.
        share: of that length which a thought may take, with the tokens that open and close it.
        prefix: tokens of that length which the response prefix has, where no thought begins in it.
    """
    room = config.max_new_tokens - prefix
    budgets = [] if config.thinking_budget is None else [config.thinking_budget]
    if share is not None:
        budgets.append(int(room * share) - 2)
    if not budgets:
        return config
    return config.override(thinking_budget=max(0, min(*budgets, room - BESIDE_REASONING)))


def leaves_open(response_prefix: Sequence[int], tokenizer: Tokenizer) -> bool:
    """Says whether a response prefix ends within reasoning."""
    parser = OutputParser(tokenizer)
    for token in response_prefix:
        parser.feed(token)
    return parser.thinking


def within_budget(
    block: list[int],
    parser: OutputParser,
    config: GenerationConfig,
    special: Mapping[str, int],
    constraint: OutputConstraint | None = None,
    response_prefix: Sequence[int] = (),
) -> list[int]:
    """Cuts a block where the reasoning exceeds its budget, and closes the reasoning there.

    Under a constraint that is the next place where reasoning may be closed: not within its header or a character.

    Args:
        parser: has parsed what is before the block, but for `response_prefix`, which is never cut.
    """
    budget = config.thinking_budget
    if budget is None:
        return block
    thinking, spent = parser.thinking, parser.reasoning_tokens
    ends = {special[CHANNEL_END], *(() if config.ignore_eos else config.eos_token_ids)}
    for place, token in enumerate((*response_prefix, *block), start=-len(response_prefix)):
        if token in ends:
            thinking = False
        elif thinking:
            closed = [*block[: max(0, place)], special[CHANNEL_END]]
            if place >= 0 and spent >= budget and (constraint is None or constraint.allows(closed)):
                return closed
            spent += 1
        thinking = thinking or token == special[CHANNEL]
    return block
