"""Builds a `RequestState` from a prompt and options: parse, tokenise, constrain, choose the mode, build.

Whatever can be wrong with a request is found here, before the first pass of the model. `prepare` does all but what has
to wait for a constraint that is being compiled; `PreparedRequest.finish` does the rest.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from gesso.engine.constraint_job import compile_constraint
from gesso.engine.constraint_language import request_language, with_constraint
from gesso.engine.cost import CostModel
from gesso.engine.media import media_of
from gesso.engine.prepared_request import ContextLimit, PreparedRequest, needs_canvas
from gesso.engine.prompt import Prompt, PromptReader
from gesso.engine.reasoning import leaves_open, with_reasoning_budget
from gesso.engine.request import Request
from gesso.engine.settings import check_settings, start_predicted
from gesso.errors import OptionError
from gesso.generation import GenerationConfig, RequestOptions, split_options
from gesso.runner.prompt_input import PromptInput
from gesso.runner.protocol import Runner
from gesso.text.chat_template import ChatTemplate
from gesso.text.output import CHANNEL
from gesso.text.tokenizer import Tokenizer

END_OF_TURN = "<turn|>"
"""The end-of-turn token of the Gemma chat format."""


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
        self, request: Request, *, chunk: int, max_length: int | None, costs: CostModel, measure: bool
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
        prompt, shape, context = request.prompt, self._runner.config, ContextLimit.of(self._runner, max_length)
        asked, given = split_options(with_constraint(request.options))
        if self._defaults.mode == "ar" and given.get("mode") is None and (needs_canvas(asked) or asked.prediction):
            given["mode"] = "canvas"  # a checkpoint's mode gives way to what a request asks for
        generation = self._predicted(asked, given, context) if asked.prediction else given
        config = self._defaults.override(**generation)
        language = request_language(config, asked)
        if language is not None:
            _refuse_other_ends(config, language.option)
        begun = self._encode_begun(asked.begun, context)
        inputs = self._tokenise(prompt, asked, context).followed_by(begun)
        check_settings(config, shape, self._tokenizer.special, asked)
        if asked.strict_schema and config.json_schema is None:
            raise OptionError("strict_schema needs json_schema", option="strict_schema")
        width = config.canvas_length or shape.canvas_length
        response_prefix = self._encode("begin", asked.begin, context) if asked.begin else []
        whole = len(inputs) + len(response_prefix)
        given_length = generation.get("max_new_tokens") is not None
        config = _with_length(config, width, context.limit - whole, len(response_prefix), given=given_length)
        if len(response_prefix) >= config.max_new_tokens:
            message = f"begin has {len(response_prefix)} tokens, and max_new_tokens, of which they are a part, is"
            raise OptionError(f"{message} {config.max_new_tokens}", option="begin")
        self._check_prefix(response_prefix, config)
        begins_thought = self._tokenizer.special.get(CHANNEL) in response_prefix  # it is a part of the budget then
        config = with_reasoning_budget(config, asked.thinking_share, 0 if begins_thought else len(response_prefix))
        second = self._second(prompt, asked, config, context)
        job = None
        if language is not None:
            fill = self.pad_fill
            open_thought = leaves_open((*begun, *response_prefix), self._tokenizer)
            job = compile_constraint(language, asked.thinking, config, self._tokenizer, shape, fill, begun=open_thought)

        return PreparedRequest(
            prompt=inputs,
            second=None if second is None else second.followed_by(begun),
            begun=begun,
            response_prefix=tuple(response_prefix),
            config=config,
            asked=asked,
            context=context,
            job=job,
            runner=self._runner,
            tokenizer=self._tokenizer,
            costs=costs,
            chunk=chunk,
            measure=measure,
            adapter=request.adapter,
            frames=request.frames,
            since=time.monotonic() if request.since is None else request.since,
            group=request.group,
        )

    @property
    def end_of_turn(self) -> int:
        """Returns the token that a finished answer ends with."""
        ends = self._defaults.eos_token_ids
        named = self._tokenizer.special.get(END_OF_TURN)
        return named if named in ends else (*ends, self._runner.config.eos_token_id)[0]

    @property
    def pad_fill(self) -> int:
        """Returns the token that fills a canvas after the end of an answer: the model's own, whatever ends it."""
        ends, eos = self._defaults.eos_token_ids, self._runner.config.eos_token_id
        return eos if eos in ends else (*ends, eos)[0]

    def canvases_of(self, tokens: Sequence[int], width: int) -> list[int]:
        """Returns the token ids of whole canvases of `width` that hold an answer, its end-of-turn token and the pad
        fill."""
        answer = [*tokens, self.end_of_turn]
        return answer + [self.pad_fill] * (-len(answer) % width)

    def _check_prefix(self, response_prefix: Sequence[int], config: GenerationConfig) -> None:
        ends = () if config.ignore_eos else config.eos_token_ids
        if (end := next((token for token in response_prefix if token in ends), None)) is not None:
            piece = self._tokenizer.piece(end)
            message = f"begin holds {piece!r}, which ends the answer: leave that out, or set ignore_eos"
            raise OptionError(message, option="begin")

    def _encode(self, name: str, text: str, context: ContextLimit) -> list[int]:
        return self._reader.encode_typed(text, f"{name}: the text", context.limit, option=name)

    def _encode_begun(self, text: str, context: ContextLimit) -> tuple[int, ...]:
        if not text:
            return ()
        name = "the beginning of the answer"
        return tuple(self._reader.encode_typed(text, name, context.limit, option="begun"))

    def _predicted(self, asked: RequestOptions, given: Mapping[str, Any], context: ContextLimit) -> Mapping[str, Any]:
        """Returns the options of a request whose canvases start from a predicted answer."""
        others = {
            "thinking": asked.thinking,
            "begin": asked.begin,
            "a begun answer": asked.begun,
            "start_canvas": given.get("start_canvas"),
        }
        options, width = start_predicted(given, others, self._defaults, self._runner.config)
        tokens = self._encode("prediction", asked.prediction, context)
        return {**options, "start_canvas": self.canvases_of(tokens, width)}

    def _tokenise(self, prompt: Prompt, asked: RequestOptions, context: ContextLimit) -> PromptInput:
        return self._reader.read(
            prompt,
            raw=asked.raw,
            thinking=asked.thinking,
            tools=asked.tools if asked.tool_choice != "none" else (),
            media=media_of(asked),
            max_tokens=context.limit,
        )

    def _second(
        self, prompt: Prompt, asked: RequestOptions, config: GenerationConfig, context: ContextLimit
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


def _with_length(
    config: GenerationConfig, width: int, space: int, response_prefix: int, *, given: bool
) -> GenerationConfig:
    """Settles `max_new_tokens`: where the request does not set it, as many canvases, or tokens, as fit `space`.

    Args:
        space: positions behind the response prefix.
        response_prefix: tokens that the answer is made to begin with; what `canvas` pins stands behind them.
    """
    pinned = response_prefix + len(config.canvas) if config.canvas else 0
    if not given:
        width = 1 if config.mode == "ar" else width
        room = response_prefix + space // width * width
        config = config.override(max_new_tokens=max(width, pinned, min(config.max_new_tokens, room)))
    if pinned > config.max_new_tokens:
        behind = f" behind the {response_prefix} of begin" if response_prefix else ""
        message = f"canvas has {pinned - response_prefix} positions{behind}, max_new_tokens is {config.max_new_tokens}"
        raise OptionError(message, option="canvas")
    return config


def _refuse_other_ends(config: GenerationConfig, option: str) -> None:
    """Refuses what has a say in where an answer ends beside `option`, of which an answer is the whole."""
    for name in ("ignore_eos", "min_new_tokens"):
        if value := getattr(config, name):
            message = f"{name} must be left out beside {option}, which says what a whole answer is, got {value}"
            raise OptionError(message, option=name)
