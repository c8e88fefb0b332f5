"""The engine: prompts in, events out.

Here a request is checked and made a `RequestState`; the passes themselves are the `EngineCore`'s. A call of `generate`,
`generate_batch` or `stream` runs a loop of its own to the end; `gesso.engine.async_engine` keeps one going for ever.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gesso.constraints import reasoning, tool_calls
from gesso.constraints.compile import compile_constraint
from gesso.constraints.constraint import Constraint
from gesso.constraints.expression import Expression
from gesso.engine.constraint import OutputConstraint, constraint_expression, lattice_of, tool_expression
from gesso.engine.cost import CostModel
from gesso.engine.engine_core import EngineCore
from gesso.engine.events import Event
from gesso.engine.prompt import Prompt, prompt_ids
from gesso.engine.request_state import RequestState
from gesso.engine.result import GenerationResult
from gesso.engine.settings import check_settings, start_predicted
from gesso.errors import OptionError, UserError
from gesso.generation import GenerationConfig
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer

MAX_BATCH = 8
"""Requests of `generate_batch` that run at once; the rest wait."""
CPU_CHUNK, CHUNK = 128, 512
"""Prompt tokens encoded at a time, on a CPU and elsewhere."""
END_OF_TURN = "<turn|>"
"""As the Gemma chat format writes it."""

_SWITCHES = ("raw", "thinking")


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt with its settings.

    `options` are fields of `GenerationConfig` and
        raw (bool): the prompt is the text itself, without the chat template.
        thinking (bool): let the model think first.
        tools (list of mappings): functions it may call, as OpenAI's API describes them.
        tool_choice (str or mapping): `auto`, `none`, `required`, or the function that is to be called. A call that is
            asked for, or of a function with `strict: true`, has arguments that are valid under its schema.
        parallel_tool_calls (bool): whether there may be more than one call.
        begin (str): what the answer is made to begin with; it is part of the output.
        constraint (Constraint): what `gesso.constraint` compiled, in the place of the option of its kind.
        prediction (str): what the answer will mostly be. Canvases start from it, with noise in the place of a share
            `strength` (0.3 without it), and are done as soon as they are confident: a good one saves steps.
    """

    prompt: Prompt
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    adapter: str | None = None
    """Name of the adapter it runs with, of those a service was started with."""
    drafts: bool = False
    """Whether the events tell of every denoising step."""


class Stream:
    """The events of one request, in order; `cancel` ends it with what is committed."""

    def __init__(self, sequence: RequestState, events: Iterator[tuple[RequestState, Event]]) -> None:
        self._sequence = sequence
        self._events = events

    def __iter__(self) -> Iterator[Event]:
        return (event for _, event in self._events)

    def cancel(self) -> None:
        """No further pass of the model begins: what the last one made is still told, then `Finished` with reason
        `cancelled`. May be called from a signal handler."""
        self._sequence.cancelled = True


class Engine:
    """A model with its text side and the defaults of its checkpoint."""

    def __init__(
        self,
        model: DiffusionGemma,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        defaults: GenerationConfig,
        name: str = "model",
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.template = template
        self.defaults = defaults
        self.name = name
        self.costs = CostModel(model)

    @property
    def chunk(self) -> int:
        """Prompt tokens encoded at a time."""
        return CPU_CHUNK if self.model.device.type == "cpu" else CHUNK

    @property
    def end_of_turn(self) -> int:
        """The token that a finished answer ends with."""
        ends = self.defaults.eos_token_ids
        named = self.tokenizer.special.get(END_OF_TURN)
        return named if named in ends else ends[0]

    @property
    def filling(self) -> int:
        """The token that the rest of a canvas holds after the end of an answer."""
        return self._filling(self.defaults)

    def _filling(self, config: GenerationConfig) -> int:
        eos = self.model.config.eos_token_id
        return eos if eos in config.eos_token_ids else config.eos_token_ids[0]

    def generate(self, prompt: Prompt, **options: Any) -> GenerationResult:
        """Generate and return the whole result.

        Args:
            prompt: a string (a user message, or the text itself with `raw=True`), chat messages, or token ids.
            options: see `Request`.

        Raises:
            OptionError: an unknown option, an impossible value, or a prompt that does not fit.
            TextError: a prompt that cannot be used.
        """
        return self.generate_batch([Request(prompt, options)])[0]

    def generate_batch(self, requests: Sequence[Request | Mapping[str, Any] | Prompt]) -> list[GenerationResult]:
        """Generate many prompts, each with its own settings; results come in the order of the requests.

        A request is a `Request`, a mapping such as `{"prompt": "...", "seed": 7}`, or just a prompt.
        """
        if isinstance(requests, str | bytes | Mapping):
            raise OptionError("generate_batch takes a list of requests; generate takes one prompt")
        sequences = [self.start(dataclasses.replace(_as_request(request), drafts=False)) for request in requests]
        for _ in self._run(sequences):
            pass
        return [sequence.result() for sequence in sequences]

    def stream(self, prompt: Prompt, *, drafts: bool = True, **options: Any) -> Stream:
        """The events of one request: draft frames (unless `drafts=False`), committed blocks, and the finish."""
        sequence = self.start(Request(prompt, options, drafts=drafts))
        return Stream(sequence, self._run([sequence]))

    def start(self, request: Request, chunk: int | None = None, max_length: int | None = None) -> RequestState:
        """Check everything that can be checked before the first pass.

        Args:
            chunk: prompt tokens encoded at a time; None takes the engine's.
            max_length: tokens that prompt and answer may have, where that is less than the model's limit.

        Raises:
            OptionError, TextError: see `generate`.
        """
        options = _with_constraint(dict(request.options))
        text = {name: options.pop(name) for name in _SWITCHES if name in options}
        for name, value in text.items():
            if not isinstance(value, bool):
                raise OptionError(f"{name} must be true or false, got {value!r}")
        begin, tools = options.pop("begin", ""), options.pop("tools", None)
        prediction = options.pop("prediction", "")
        for name, value in (("begin", begin), ("prediction", prediction)):
            if not isinstance(value, str):
                raise OptionError(f"{name} must be a string, got {value!r}")
        if tools is not None and not (isinstance(tools, Sequence) and all(isinstance(tool, Mapping) for tool in tools)):
            raise OptionError(f"tools must be a list of mappings, got {tools!r}")
        choice, parallel = options.pop("tool_choice", "auto"), options.pop("parallel_tool_calls", True)
        calls = tool_expression(tools or (), choice, parallel)
        if prediction:
            others = {"thinking": text.get("thinking"), "begin": begin, "start_canvas": options.get("start_canvas")}
            options, width = start_predicted(options, others, self.defaults, self.model.config)
            options["start_canvas"] = self.canvases_of(self.tokenizer.encode(prediction), width)
        config = self.defaults.override(**options)
        shape = self.model.config
        ids = prompt_ids(
            request.prompt,
            self.tokenizer,
            self.template,
            vocab_size=shape.vocab_size,
            image_token_ids=shape.image_token_ids,
            tools=(tools or ()) if choice != "none" else (),
            **text,
        )
        check_settings(config, shape, self.tokenizer.special)
        limit, holder = shape.max_position_embeddings, "the model's"
        if max_length is not None and max_length < limit:
            limit, holder = max_length, "this server's"
        width, first = config.canvas_length or shape.canvas_length, self.tokenizer.encode(begin) if begin else []
        pinned = len(config.canvas or ())
        if options.get("max_new_tokens") is None:
            # Nobody asked for so many: as many canvases as there is room for.
            room = (limit - len(ids) - len(first)) // width * width
            config = config.override(max_new_tokens=max(width, pinned, min(config.max_new_tokens, room)))
        if pinned > config.max_new_tokens:
            raise OptionError(f"canvas has {pinned} positions, max_new_tokens is {config.max_new_tokens}")
        constraint = self._constraint(config, calls, thinking=text.get("thinking", False))
        if constraint is not None and begin:
            what = config.constraint or "tool_choice"
            raise OptionError(f"begin does not go with {what}: the whole answer is constrained")
        config, decision = self._decide(config, width, constraint)
        sequence = RequestState(
            ids,
            config,
            self.tokenizer,
            shape.vocab_size,
            width,
            begin=first,
            prefill_chunk=chunk or self.chunk,
            adapter=request.adapter,
            drafts=request.drafts,
            constraint=constraint,
            decision=decision,
            costs=self.costs,
        )
        if sequence.max_seq_len > limit:
            raise OptionError(
                f"{len(ids)} prompt tokens and max_new_tokens {config.max_new_tokens} (in canvases of "
                f"{sequence.canvas_length}) are past {holder} {limit}"
            )
        return sequence

    def canvases_of(self, tokens: Sequence[int], width: int) -> list[int]:
        """The canvases of `width` that an answer of these tokens fills, its end and the filling behind it included."""
        answer = [*tokens, self.end_of_turn]
        return answer + [self.filling] * (-len(answer) % width)

    def _decide(
        self, config: GenerationConfig, width: int, constraint: OutputConstraint | None
    ) -> tuple[GenerationConfig, str]:
        """Settings with `mode: auto` settled, and why."""
        if config.mode != "auto":
            return config, ""
        if config.canvas or config.start_canvas or config.probe or config.verify not in (0, "auto"):
            return config.override(mode="canvas"), "what it asks for needs a canvas"
        longest = None if constraint is None else constraint.automaton.longest
        most = config.max_new_tokens if longest is None else min(config.max_new_tokens, longest)
        decision = self.costs.choose(width, most)
        return config.override(mode=decision.mode), decision.reason

    def _constraint(
        self, config: GenerationConfig, calls: Expression | None, *, thinking: bool
    ) -> OutputConstraint | None:
        """The constraint of a request, compiled, or found where the same was compiled before."""
        name = config.constraint
        if name is None and calls is None:
            return None
        if name is not None and calls is not None:
            raise OptionError(f"tools and {name} contradict: each has its own form of the whole answer")
        name, special = name or "tool_choice", () if calls is None else tool_calls.SPECIAL
        if missing := [token for token in special if token not in self.tokenizer.special]:
            raise OptionError(f"{name}: this checkpoint has no tool calls, its tokenizer knows no {missing[0]}")
        ends, fill, vocab = config.eos_token_ids, self._filling(config), self.model.config.vocab_size
        try:
            expression = constraint_expression(config) if calls is None else calls
            if thinking and all(token in self.tokenizer.special for token in reasoning.SPECIAL):
                expression = reasoning.after_reasoning(expression, len(special))
                special = (*special, *reasoning.SPECIAL)
            automaton = compile_constraint(expression, self.tokenizer, ends, fill, vocab, special)
        except UserError as error:
            raise OptionError(f"{name} cannot be used: {error}") from None
        needed = automaton.shortest - 1
        if needed > config.max_new_tokens:
            raise OptionError(
                f"{name}: the shortest answer has {needed} tokens, max_new_tokens is {config.max_new_tokens}"
            )
        return OutputConstraint(lattice_of(automaton, self.model.device))

    def _run(self, sequences: Sequence[RequestState]) -> Iterator[tuple[RequestState, Event]]:
        loop = EngineCore(self.model, max_running=MAX_BATCH, chunk=self.chunk)
        for sequence in sequences:
            loop.scheduler.add(sequence)
        while not loop.idle:
            for sequence, events in loop.step():
                for event in events:
                    yield sequence, event


def _with_constraint(options: dict[str, Any]) -> dict[str, Any]:
    """The options with what `gesso.constraint` made as the option of its kind."""
    given = options.pop("constraint", None)
    if given is None:
        return options
    if not isinstance(given, Constraint):
        raise OptionError(f"constraint must be made by gesso.constraint, got {given!r:.60}")
    if given.option in options:
        raise OptionError(f"constraint and {given.option} contradict: an answer has one constraint at most")
    return {**options, given.option: given.value}


def _as_request(request: Request | Mapping[str, Any] | Prompt) -> Request:
    if isinstance(request, Request):
        return request
    if isinstance(request, Mapping):
        options = dict(request)
        if "prompt" not in options:
            raise OptionError("a request that is a mapping needs a prompt")
        return Request(options.pop("prompt"), options)
    return Request(request)
