"""Declares what a request may ask of generation: a checkpoint's `generation_config.json` sets it, a request overrides
it.

Frozen, complete, hashable, changed with `override`, which refuses by name. How a canvas is denoised is three
strategies, each with options of its own, which are declared in its own file: the sampler, the schedule and the stopping
rule. Their options are set and read here by their plain names, such as `GenerationConfig(t_min=0.2).t_min`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gesso.diffusion.penalties import Penalties
from gesso.generation import bounds
from gesso.generation.contradictions import given_constraints
from gesso.generation.denoising_config import DenoisingConfig
from gesso.generation.table import ANSWER, CONSTRAINT, SAMPLING, TOKENS, with_strategies
from gesso.options import (
    BiasMap,
    JsonSchema,
    Option,
    PinnedTokens,
    Texts,
    TokenIds,
    TokenSequences,
    option,
)


@dataclass(frozen=True, slots=True, init=False)
class GenerationConfig(DenoisingConfig):
    """Configures how one request is denoised. Defaults are the published ones; a checkpoint's `generation_config.json`
    replaces them and a request overrides both.

    Besides its fields, those of a `DenoisingConfig` first, it takes and has the options of the chosen sampler, schedule
    and stopping rule.

    Raises:
        OptionError: an option that does not exist or is not the chosen strategy's, or a value that is impossible.
    """

    temperature: float = option(
        1.0,
        "Sampling temperature: 1 is as trained, 0 takes the likeliest tokens. It multiplies the schedule's, at which "
        "entropies are measured.",
        minimum=0,
        maximum=bounds.MOST_TEMPERATURE,
        field="*",
        file="gesso.json",
        group=SAMPLING,
    )
    top_k: int = option(
        0, "Draw from so many likeliest tokens; 0 counts all.", unit="tokens", minimum=0, field="*", group=SAMPLING
    )
    top_p: float = option(
        1.0, "Draw from the likeliest tokens of this probability in all.", above=0, maximum=1, field="*", group=SAMPLING
    )
    min_p: float = option(
        0.0,
        "Draw from the tokens that are at least this share as likely as the likeliest; 0 keeps all.",
        minimum=0,
        maximum=1,
        field="*",
        group=SAMPLING,
    )
    logit_bias: Mapping[int, float] = option(
        {},
        "Added to the logits of these token ids, in every pass; -100 or less keeps a token out.",
        kind=BiasMap(bounds.LARGEST_BIAS),
        field="*",
        flag=None,
        group=SAMPLING,
    )
    frequency_penalty: float = option(
        0.0,
        "Taken from a token's logit for each time that it stands in the answer before; see penalty_window.",
        minimum=-bounds.LARGEST_PENALTY,
        maximum=bounds.LARGEST_PENALTY,
        field="*",
        group=SAMPLING,
    )
    presence_penalty: float = option(
        0.0,
        "Taken from a token's logit where it stands in the answer before.",
        minimum=-bounds.LARGEST_PENALTY,
        maximum=bounds.LARGEST_PENALTY,
        field="*",
        group=SAMPLING,
    )
    repetition_penalty: float = option(
        1.0,
        "Divides a token's logit, where it is positive, and multiplies it elsewhere, if the token stands in the prompt "
        "or in the answer before. 1 is none.",
        minimum=bounds.LEAST_REPETITION_PENALTY,
        maximum=bounds.LARGEST_REPETITION_PENALTY,
        field="*",
        group=SAMPLING,
    )
    penalty_window: int | None = option(
        None,
        "Penalties look at so many tokens before; on a canvas these are what is committed, and the draft further left.",
        unit="tokens",
        minimum=0,
        maximum=bounds.WIDEST_WINDOW,
        unset="all",
        field="*",
        group=SAMPLING,
    )
    thinking_budget: int | None = option(
        None,
        "Most tokens of reasoning, which is closed then; fewer where no answer would have room behind it.",
        unit="tokens",
        minimum=0,
        unset="it ends by itself",
        field="*",
        group=ANSWER,
    )
    logprobs: int | None = option(
        None,
        "Report every token's log-probability, by the causal pass of the same weights, beside so many of the "
        "likeliest.",
        unit="tokens",
        minimum=0,
        maximum=bounds.MOST_LOGPROBS,
        field="*",
        flag=None,
        group=ANSWER,
    )
    probe: tuple[tuple[int, ...], ...] | None = option(
        None,
        "Token sequences of which the first pass over the first canvas tells the log-probability, each as if the "
        "answer began with it; they do not change the answer.",
        kind=TokenSequences(),
        field=None,
        flag=None,
        group=TOKENS,
    )
    seed: int | None = option(
        None,
        "Reproduces a result; without it a fresh one is drawn, which a terminal and JSON show.",
        minimum=0,
        below=2**63,
        unset="drawn",
        field="*",
        group=ANSWER,
    )
    stop: tuple[str, ...] = option(
        (), "End the answer before this text.", kind=Texts(may_be_empty=True), field="*", group=ANSWER
    )
    include_stop: bool = option(
        False,
        "Leave the stop text, or the text of the token, in the answer that it ends.",
        field="include_stop_str_in_output",
        group=ANSWER,
    )
    ignore_eos: bool = option(False, "Write on past the end of the answer.", group=ANSWER)
    start_canvas: tuple[int, ...] | None = option(
        None,
        "Token ids that canvases start from, whole canvases of them.",
        kind=TokenIds(),
        unset="uniform noise",
        group=TOKENS,
    )
    strength: float | None = option(
        None,
        "How much of start_canvas may change: each of its tokens is re-noised with this probability, and this share of "
        "max_denoising_steps is left, the coolest ones.",
        above=0,
        maximum=1,
        unset="it is taken as it is, with all steps",
        flag=None,
        group=TOKENS,
    )
    start_step: int | None = option(
        None,
        "Steps that the last canvas of start_canvas has behind it: the schedule goes on from there.",
        unit="steps",
        minimum=0,
        unset="0",
        flag=None,
        group=TOKENS,
    )
    canvas: tuple[int | None, ...] | None = option(
        None,
        "Tokens that the answer holds, by place, behind begin; it does not end before the last of them.",
        kind=PinnedTokens(),
        group=TOKENS,
    )
    regex: str | None = option(
        None, "The whole answer matches this regular expression.", field="structured_outputs.*", group=CONSTRAINT
    )
    json_schema: Mapping[str, Any] | bool | None = option(
        None,
        "The answer is JSON, valid under this schema.",
        kind=JsonSchema(),
        field="response_format",
        source="schema file",
        group=CONSTRAINT,
    )
    json_object: bool = option(False, "The answer is a JSON object.", field="response_format", group=CONSTRAINT)
    choices: tuple[str, ...] | None = option(
        None,
        "The answer, behind begin, is one of these.",
        kind=Texts(),
        field="structured_outputs.choice",
        source="commas",
        group=CONSTRAINT,
    )
    grammar: str | None = option(
        None,
        "The answer follows this grammar.",
        field="structured_outputs.*",
        source="file",
        group=CONSTRAINT,
    )
    eos_token_ids: tuple[int, ...] = option(
        (1,),
        "Token ids that end an answer.",
        kind=TokenIds(may_be_empty=True),
        field=None,
        flag=None,
        file="generation_config.json",
        group=TOKENS,
    )
    pad_token_id: int = option(
        0,
        "Token id that fills a batch up.",
        minimum=0,
        field=None,
        flag=None,
        file="generation_config.json",
        group=TOKENS,
    )

    @property
    def penalties(self) -> Penalties:
        """Returns what penalises tokens that stand before a place."""
        return Penalties(self.frequency_penalty, self.presence_penalty, self.repetition_penalty, self.penalty_window)

    @property
    def constraint(self) -> str | None:
        """Returns the name of the constraint that is given; None without one."""
        return next(iter(given_constraints(self)), None)


def generation_options() -> Mapping[str, Option]:
    """Returns the table of what a `GenerationConfig` takes: its own options, those of a strategy behind the one that
    chooses it."""
    return with_strategies(GenerationConfig)
