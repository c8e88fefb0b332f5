"""Builds a `RequestState` from a prompt and options: parse, tokenise, constrain, choose the mode, build.

Whatever can be wrong with a request is found here, before the first pass of the model. `prepare` does all but what has
to wait for a constraint that is being compiled; `PreparedRequest.finish` does the rest.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gesso.constraints.automaton import TokenAutomaton
from gesso.constraints.compilation import Compilation
from gesso.engine.constraint import OutputConstraint, tool_language, with_constraint
from gesso.engine.constraint_job import compile_constraint
from gesso.engine.cost import CostModel
from gesso.engine.media import media_of
from gesso.engine.prompt import Prompt, PromptReader
from gesso.engine.reasoning import with_thoughts
from gesso.engine.request_state import RequestState, answer_positions, new_request
from gesso.engine.settings import check_settings, start_predicted
from gesso.errors import OptionError
from gesso.generation import GenerationConfig, RequestOptions, split_options
from gesso.runner.prompt_input import PromptInput
from gesso.runner.protocol import Runner
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer

END_OF_TURN = "<turn|>"
"""The end-of-turn token of the Gemma chat format."""


@dataclass(frozen=True, slots=True)
class Context:
    """Bounds the positions of a request: `limit` of them, which is the bound of `holder`."""

    limit: int
    holder: str

    @classmethod
    def of(cls, runner: Runner, max_length: int | None) -> "Context":
        """Returns the model's limit, or a server's where that is less."""
        if max_length is not None and max_length < runner.max_model_len:
            return cls(max_length, "this server's")
        return cls(runner.max_model_len, "the model's")


@dataclass(slots=True)
class PreparedRequest:
    """Holds a checked and tokenised request while its constraint is compiled; it is finished or cancelled, once."""

    compilation: Compilation[TokenAutomaton] | None
    """Joined; None where there is no constraint."""
    _build: Callable[[], RequestState]
    since: float = field(default_factory=time.monotonic)
    """When it was checked, by the monotonic clock: what its time limit counts from."""

    @property
    def ready(self) -> bool:
        """Tells whether `finish` has nothing to wait for."""
        return self.compilation is None or self.compilation.ready

    def on_ready(self, listener: Callable[[], None]) -> None:
        """Calls `listener` when it is: here, or in the thread that compiles."""
        if self.compilation is None:
            listener()
        else:
            self.compilation.on_ready(listener)

    def finish(self) -> RequestState:
        """Returns the state, after the constraint is compiled.

        Raises:
            OptionError: the constraint cannot be used, or its shortest answer is too long.
        """
        return self._build()

    def cancel(self) -> None:
        """Stops compiling, unless others wait for the same constraint."""
        if self.compilation is not None:
            self.compilation.leave()


class RequestBuilder:
    """Builds request states for one runner, tokenizer and chat template."""

    def __init__(
        self, runner: Runner, tokenizer: Tokenizer, template: ChatTemplate | None, defaults: GenerationConfig
    ) -> None:
        self._runner = runner
        self._tokenizer = tokenizer
        self._template = template
        self._defaults = defaults
        self._reader = PromptReader(tokenizer, template, runner.config, runner.vision)

    def prepare(
        self,
        prompt: Prompt,
        options: Mapping[str, Any],
        *,
        chunk: int,
        max_length: int | None,
        costs: CostModel,
        measure: bool,
        adapter: str | None,
        frames: bool,
    ) -> PreparedRequest:
        """Checks a request, tokenises it, and begins to compile its constraint.

        Args:
            chunk: prompt tokens encoded at a time.
            max_length: tokens that prompt and answer may have, where that is less than the model's limit.
            measure: whether `mode: auto` may measure the model here and now.

        Raises:
            OptionError: an unknown option, an impossible value, or a prompt that does not fit.
            TextError: a prompt that cannot be used.
            ImageError: an image or a clip that cannot be read.
        """
        shape, context = self._runner.config, Context.of(self._runner, max_length)
        asked, given = split_options(with_constraint(options))
        needs_canvas = asked.classifier is not None or asked.accept is not None
        if self._defaults.mode == "ar" and (needs_canvas or asked.prediction):
            given.setdefault("mode", "canvas")  # a checkpoint's mode gives way to what a request asks for
        calls = tool_language(asked.tools, asked.tool_choice, asked.parallel_tool_calls)
        generation = self._predicted(asked, given, context) if asked.prediction else given
        config = self._defaults.override(**generation)
        inputs = self._tokenise(prompt, asked, context)
        check_settings(config, shape, self._tokenizer.special, asked)
        if asked.strict_schema and config.json_schema is None:
            raise OptionError("strict_schema needs json_schema", option="strict_schema")
        width = config.canvas_length or shape.canvas_length
        prefix = self._encode("begin", asked.begin, context) if asked.begin else []
        whole = len(inputs) + len(prefix)
        given_length = generation.get("max_new_tokens") is not None
        config = _with_length(config, width, context.limit - whole, len(prefix), given=given_length)
        if len(prefix) >= config.max_new_tokens:
            message = f"begin has {len(prefix)} tokens, and max_new_tokens, of which they are a part, is"
            raise OptionError(f"{message} {config.max_new_tokens}", option="begin")
        config = with_thoughts(config, asked.thinking_share)
        second = self._second(prompt, asked, config, context)
        job = compile_constraint(config, calls, asked, self._tokenizer, shape, self.pad_fill(config))

        def build() -> RequestState:
            constraint = None if job is None else job.finish(config, self._runner, len(prefix))
            settled, decision = _choose_mode(config, width, constraint, costs, measure=measure, canvas=needs_canvas)
            if whole + answer_positions(settled, width) > context.limit:
                raise OptionError(
                    f"{len(inputs)} prompt tokens and max_new_tokens {settled.max_new_tokens} (in canvases of {width}) "
                    f"are past {context.holder} {context.limit}",
                    option="max_new_tokens",
                )
            if needs_canvas and settled.mode == "ar":
                name = "classifier" if asked.classifier is not None else "accept"
                raise OptionError(f"mode ar has no canvas: leave {name} out", option=name)
            if second is not None and len(second) + len(prefix) + answer_positions(settled, width) > context.limit:
                raise OptionError("negative_prompt and the answer are too long together", option="negative_prompt")
            return new_request(
                inputs,
                settled,
                self._tokenizer,
                shape.vocab_size,
                width,
                limit=context.limit,
                response_prefix=prefix,
                prefill_chunk=chunk,
                adapter=adapter,
                frames=frames,
                constraint=constraint,
                ignored=() if job is None else job.compilation.ignored,
                prompt_logprobs=asked.prompt_logprobs,
                decision=decision,
                costs=costs,
                image_cost=self._runner.vision.token_cost if self._runner.vision is not None else 0.0,
                second=second,
                classifier=asked.classifier,
                accept=asked.accept,
                mask_token=shape.mask_token_id,
                block_length=shape.block_length,
            )

        return PreparedRequest(None if job is None else job.compilation, build)

    @property
    def end_of_turn(self) -> int:
        """Returns the token that a finished answer ends with."""
        ends = self._defaults.eos_token_ids
        named = self._tokenizer.special.get(END_OF_TURN)
        return named if named in ends else (*ends, self._runner.config.eos_token_id)[0]

    def pad_fill(self, config: GenerationConfig) -> int:
        """Returns the token that fills a canvas after the end of an answer."""
        eos = self._runner.config.eos_token_id
        return eos if eos in config.eos_token_ids else (*config.eos_token_ids, eos)[0]

    def canvases_of(self, tokens: Sequence[int], width: int) -> list[int]:
        """Returns the token ids of whole canvases of `width` that hold an answer, its end-of-turn token and the pad
        fill."""
        answer = [*tokens, self.end_of_turn]
        return answer + [self.pad_fill(self._defaults)] * (-len(answer) % width)

    def _encode(self, name: str, text: str, context: Context) -> list[int]:
        return self._reader.encode_typed(text, f"{name}: the text", context.limit, option=name)

    def _predicted(self, asked: RequestOptions, given: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
        """Returns the options of a request whose canvases start from a predicted answer."""
        others = {
            "thinking": asked.thinking,
            "begin": asked.begin,
            "start_canvas": given.get("start_canvas"),
        }
        options, width = start_predicted(given, others, self._defaults, self._runner.config)
        tokens = self._encode("prediction", asked.prediction, context)
        return {**options, "start_canvas": self.canvases_of(tokens, width)}

    def _tokenise(self, prompt: Prompt, asked: RequestOptions, context: Context) -> PromptInput:
        return self._reader.read(
            prompt,
            raw=asked.raw,
            thinking=asked.thinking,
            tools=asked.tools if asked.tool_choice != "none" else (),
            media=media_of(asked),
            max_tokens=context.limit,
        )

    def _second(
        self, prompt: Prompt, asked: RequestOptions, config: GenerationConfig, context: Context
    ) -> PromptInput | None:
        """The prompt that guidance leads away from; None where there is no such guidance."""
        if config.guidance_scale == 1:
            if asked.negative_prompt is not None:
                raise OptionError("negative_prompt needs a guidance_scale other than 1", option="negative_prompt")
            return None
        text = asked.negative_prompt or ""
        as_it_is = asked.raw or (not isinstance(prompt, str) and not isinstance(prompt[0], Mapping))
        if as_it_is:
            # Nothing at all cannot be encoded, and every text begins with bos.
            ids = self._encode("negative_prompt", text, context) if text else []
            return PromptInput(tuple(ids) or (self._runner.config.bos_token_id,))
        message = {"role": "user", "content": text}
        return self._reader.read([message], thinking=asked.thinking, max_tokens=context.limit)


def _with_length(config: GenerationConfig, width: int, space: int, prefix: int, *, given: bool) -> GenerationConfig:
    """Settles `max_new_tokens`: where the request does not set it, as many canvases as fit `space` positions.

    Args:
        prefix: tokens that the answer is made to begin with; what `canvas` pins stands behind them.
    """
    pinned = prefix + len(config.canvas) if config.canvas else 0
    if not given:
        room = space // width * width
        config = config.override(max_new_tokens=max(width, pinned, min(config.max_new_tokens, room)))
    if pinned > config.max_new_tokens:
        behind = f" behind the {prefix} of begin" if prefix else ""
        message = f"canvas has {pinned - prefix} positions{behind}, max_new_tokens is {config.max_new_tokens}"
        raise OptionError(message, option="canvas")
    return config


def _choose_mode(
    config: GenerationConfig,
    width: int,
    constraint: OutputConstraint | None,
    costs: CostModel,
    *,
    measure: bool,
    canvas: bool,
) -> tuple[GenerationConfig, str]:
    """Settles `mode: auto`; returns the settings and the reason. `canvas`: what the request brings needs one."""
    if config.mode != "auto":
        return config, ""
    asks = (canvas, config.canvas, config.start_canvas, config.probe, config.guidance_scale != 1)
    if any(asks) or config.verify not in (0, "auto"):
        return config.override(mode="canvas"), "what it asks for needs a canvas"
    longest = None if constraint is None else constraint.automaton.longest
    most = config.max_new_tokens if longest is None else min(config.max_new_tokens, longest)
    if measure:
        costs.measure(width)
    decision = costs.choose(width, most)
    return config.override(mode=decision.mode), decision.reason
