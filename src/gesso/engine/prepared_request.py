"""Holds a request between its checks and its first pass: `RequestBuilder` makes it, `finish` its state."""

import secrets
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from torch import Tensor

from gesso.constraints.automaton import TokenAutomaton
from gesso.constraints.compilation import Compilation
from gesso.engine.canvases import Canvases, last_pin
from gesso.engine.constraint import OutputConstraint
from gesso.engine.constraint_job import ConstraintJob
from gesso.engine.cost import CostModel
from gesso.engine.output import OutputAssembler
from gesso.engine.request_state import RequestState
from gesso.engine.verifier import Verifier
from gesso.errors import ContextLengthError, OptionError, PromptLengthError
from gesso.generation import NARROWEST, GenerationConfig, RequestOptions
from gesso.options.user_code import failures_of
from gesso.runner.prompt_input import PromptInput
from gesso.runner.protocol import Runner
from gesso.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ContextLimit:
    """Bounds the positions of a request: `limit` of them, which is the bound of `holder`."""

    limit: int
    holder: str

    @classmethod
    def of(cls, runner: Runner, max_length: int | None) -> "ContextLimit":
        """Returns the model's limit, or a server's where that is less."""
        if max_length is not None and max_length < runner.max_model_len:
            return cls(max_length, "this server's")
        return cls(runner.max_model_len, "the model's")


@dataclass(slots=True)
class PreparedRequest:
    """Holds a checked and tokenised request while its constraint is compiled; it is finished or cancelled, once."""

    prompt: PromptInput
    second: PromptInput | None
    """The prompt that guidance leads away from; None without guidance."""
    begun: tuple[int, ...]
    """Tokens of the answer that the client has; they are the prompt's last."""
    response_prefix: tuple[int, ...]
    """Tokens that the answer is made to begin with."""
    config: GenerationConfig
    asked: RequestOptions
    context: ContextLimit
    job: ConstraintJob | None
    runner: Runner
    tokenizer: Tokenizer
    costs: CostModel
    chunk: int
    """Prompt tokens encoded at a time."""
    measure: bool
    """Whether `mode: auto` may measure the model in `finish`."""
    adapter: str | None
    frames: bool
    """Whether the events tell of every denoising step."""
    since: float
    """When its time began, by the monotonic clock: what its time limit counts from."""
    group: Hashable

    @property
    def compilation(self) -> Compilation[TokenAutomaton] | None:
        """Returns the making of its constraint, joined; None where there is no constraint."""
        return None if self.job is None else self.job.compilation

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
            ContextLengthError: the prompt and the answer are longer than the context.
            PromptLengthError: the prompt alone leaves no room in it.
            OptionError: the constraint cannot be used, its shortest answer is too long, or a probe is longer than the
                first canvas.
        """
        prefix = len(self.response_prefix)
        width = self.config.canvas_length or self.runner.config.canvas_length
        constraint = None if self.job is None else self.job.finish(self.config, self.runner, prefix)
        canvas = needs_canvas(self.asked)
        config, decision = _choose_mode(self.config, width, constraint, self.costs, measure=self.measure, canvas=canvas)
        # What fits must not depend on the mode that costs choose: `auto` has room for canvases.
        positions = _positions(self.config, width, prefix)
        if len(self.prompt) >= self.context.limit:
            raise PromptLengthError(
                f"the prompt has {len(self.prompt)} tokens and is, with an answer of any length, "
                f"past {self.context.holder} {self.context.limit}"
            )
        if len(self.prompt) + positions > self.context.limit:
            canvases = "" if self.config.mode == "ar" else f" (in canvases of {width})"
            raise ContextLengthError(
                f"{len(self.prompt)} prompt tokens and max_new_tokens {config.max_new_tokens}{canvases} "
                f"are past {self.context.holder} {self.context.limit}",
                option="max_new_tokens",
            )
        if canvas and config.mode == "ar":
            name = "classifier" if self.asked.classifier is not None else "accept"
            raise OptionError(f"mode ar has no canvas: leave {name} out", option=name)
        if self.second is not None and len(self.second) + positions > self.context.limit:
            raise ContextLengthError("negative_prompt and the answer are too long together", option="negative_prompt")
        return self._state(config, width, constraint, decision)

    def _state(
        self, config: GenerationConfig, canvas_length: int, constraint: OutputConstraint | None, decision: str
    ) -> RequestState:
        """Builds the state of the request, of which all is checked but what depends on its first canvas."""
        # A canvas stands behind both prompts: behind the longer one there is less room.
        limit = self.context.limit - max(0, len(self.second or ()) - len(self.prompt))
        shape = self.runner.config
        seed = secrets.randbits(31) if config.seed is None else config.seed
        chunk = self.chunk
        if shape.block_length is not None:  # keys of a block are final when it is whole
            chunk = max(shape.block_length, chunk - chunk % shape.block_length)
        whole = self.prompt.followed_by(self.response_prefix)
        output = OutputAssembler(config, self.tokenizer, self.response_prefix, last_pin(config), constraint, self.begun)

        def accepts(argmax_C: Tensor) -> bool:
            assert self.asked.accept is not None
            with failures_of("accept", "accept"):
                return bool(self.asked.accept(output.text_with(argmax_C.tolist())))

        canvases = Canvases(
            config,
            shape,
            canvas_length,
            seed,
            constraint,
            classifier=self.asked.classifier,
            accepts=None if self.asked.accept is None else accepts,
            prompt=self.prompt.ids,
            response_prefix=len(self.response_prefix),
            special=self.tokenizer.special_ids,
        )
        canvas = canvases.make(0, output.before, limit - len(whole))
        longest = max(map(len, config.probe or ()), default=0)
        if longest > canvas.width:  # the first canvas may be narrower than the others
            raise OptionError(
                f"probe has a sequence of {longest} tokens, the first canvas {canvas.width}", option="probe"
            )
        return RequestState(
            prompt=whole,
            prompt_tokens=len(self.prompt),
            config=config,
            canvas_length=canvas_length,
            limit=limit,
            max_seq_len=min(limit, len(self.prompt) + self._most_positions(config, canvas_length)),
            chunks=whole.chunks(chunk),
            seed=seed,
            tokenizer=self.tokenizer,
            canvases=canvases,
            verifier=Verifier(config),
            output=output,
            canvas=canvas,
            constraint=constraint,
            second=None if self.second is None else self.second.followed_by(self.response_prefix),
            ignored=() if self.job is None else self.job.compilation.ignored,
            prompt_logprobs=self.asked.prompt_logprobs,
            adapter=self.adapter,
            part_of=self.group,
            frames=self.frames,
            decision=decision,
            costs=self.costs,
            image_cost=self.runner.vision.token_cost if self.runner.vision is not None else 0.0,
        )

    def _most_positions(self, config: GenerationConfig, canvas_length: int) -> int:
        """Returns the positions behind the prompt that the last canvas reaches at most, where the context does not end
        before.

        Reasoning that is cut short begins a canvas before the last one was full, and so do canvases of a chosen width
        and those that end with the prompt's blocks: the last one may begin anywhere before the last token that may be
        written.
        """
        max_width = 1
        if config.thinking_budget is not None or self.runner.config.block_length is not None:
            max_width = canvas_length
        elif config.canvas_width != "full":
            max_width = min(canvas_length, NARROWEST)
        whole = _positions(config, canvas_length, len(self.response_prefix))
        return max(whole, config.max_new_tokens - 1 + max_width)

    def cancel(self) -> None:
        """Stops compiling, unless others wait for the same constraint."""
        if self.compilation is not None:
            self.compilation.leave()


def needs_canvas(asked: RequestOptions) -> bool:
    """Tells whether a request brings what works on a canvas alone."""
    return asked.classifier is not None or asked.accept is not None


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


def _positions(config: GenerationConfig, canvas_length: int, response_prefix: int) -> int:
    """Returns the positions behind the prompt that must fit the context: the response prefix, and what is drawn, in
    whole canvases or token by token."""
    drawn, width = config.max_new_tokens - response_prefix, 1 if config.mode == "ar" else canvas_length
    return response_prefix + -(-drawn // width) * width
