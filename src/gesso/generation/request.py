"""Declares what belongs to one request alone, beside its `GenerationConfig`, and tells a request's keywords apart."""

import dataclasses
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

from gesso.diffusion.guidance import Classifier
from gesso.generation.bounds import MOST_LOGPROBS
from gesso.generation.config import generation_options
from gesso.generation.strategies import HOLDERS, STRATEGIES
from gesso.generation.table import ANSWER, GUIDANCE
from gesso.options import (
    Files,
    Function,
    Instance,
    Mappings,
    OneOf,
    Option,
    Registry,
    WordOrMapping,
    checked,
    option,
    options_of,
    unknown_option,
)

MEDIA = "Images and clips"
IMAGE_BUDGETS = (70, 140, 280, 560, 1120)
"""Soft tokens that a picture may take at most; the model was trained on these."""


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """Holds the options of one request that no checkpoint has defaults for.

    Raises:
        OptionError: a value is impossible.
    """

    raw: bool = option(False, "Take the prompt as it is, without the chat template.", field=None, group=ANSWER)
    thinking: bool = option(
        False,
        "Let the model think before it answers.",
        field="chat_template_kwargs.enable_thinking",
        group=ANSWER,
    )
    thinking_share: float | None = option(
        None,
        "Share of max_new_tokens that reasoning may take, with the tokens that open and close it.",
        unset="what thinking_budget says",
        above=0,
        maximum=1,
        field=None,
        flag=None,
        group=ANSWER,
    )
    begun: str = option(
        "",
        "What there is of the answer already: it is read behind the prompt and gone on with, and is no part of the "
        "output.",
        field=None,
        flag=None,
        group=ANSWER,
    )
    begin: str = option(
        "", "What the answer is made to begin with; it is part of the output.", field="diffusion.begin", group=ANSWER
    )
    prompt_logprobs: int | None = option(
        None,
        "Report the log-probability of every token of the prompt but the first too, by the same causal pass, beside so "
        "many of the likeliest. The whole prompt is read for it, whatever is stored of it.",
        unit="tokens",
        minimum=0,
        maximum=MOST_LOGPROBS,
        field=None,
        flag=None,
        group=ANSWER,
    )
    prediction: str = option(
        "",
        "What the answer will mostly be. Canvases start from it, with noise in the place of a share strength of it "
        "(0.3 without it), and are done as soon as they are confident: a good one saves steps.",
        field="*",
        flag=None,
        group=ANSWER,
    )
    strict_schema: bool = option(
        False,
        "Refuse keywords and formats of json_schema that are not known, which are ignored else.",
        field="response_format.json_schema.strict",
        group=ANSWER,
    )
    negative_prompt: str | None = option(
        None,
        "What guidance leads away from, in the place of the conversation.",
        unset="an empty message",
        group=GUIDANCE,
    )
    classifier: Classifier | None = option(
        None,
        "Guides every step by a score of canvases: gesso.diffusion.guidance.Differentiable, BlackBox, or any object "
        "with gains(logits_CV).",
        kind=Instance("Classifier", Classifier),
        unset="no score",
        field=None,
        flag=None,
        group=GUIDANCE,
    )
    accept: Callable[[str], bool] | None = option(
        None,
        "Takes the answer as it would be after a step, and ends the canvas where it returns true. It is called in the "
        "thread that runs the model.",
        kind=Function(),
        unset="the stopping rule decides",
        field=None,
        flag=None,
        group=ANSWER,
    )
    tools: tuple[Mapping[str, Any], ...] = option(
        (),
        "Functions that the model may call, as OpenAI's API describes them.",
        kind=Mappings(),
        field="*",
        flag=None,
        group=ANSWER,
    )
    tool_choice: str | Mapping[str, Any] = option(
        "auto",
        "auto, none, required, or the function that is to be called. A call that is asked for, or of a function with "
        "strict: true, has arguments that are valid under its schema.",
        kind=WordOrMapping(("auto", "none", "required"), "a function"),
        field="*",
        flag=None,
        group=ANSWER,
    )
    parallel_tool_calls: bool = option(
        True, "Whether there may be more than one call.", field="*", flag=None, group=ANSWER
    )

    images: tuple[Any, ...] = option(
        (),
        "An image that the prompt is about, before its text; in Python a path, the file's bytes, a Pillow image, an "
        "array or a data URL.",
        kind=Files("images"),
        field=None,
        flag="--image",
        group=MEDIA,
    )
    videos: tuple[Any, ...] = option(
        (),
        "A clip, behind the images; in Python also a list of (picture, seconds).",
        kind=Files("clips"),
        field=None,
        flag="--video",
        group=MEDIA,
    )
    image_budget: int | None = option(
        None,
        "Most soft tokens of an image; the checkpoint's own without it, most often 280.",
        unit="tokens",
        kind=OneOf(IMAGE_BUDGETS),
        field="mm_processor_kwargs.max_soft_tokens",
        group=MEDIA,
    )
    video_budget: int = option(
        70,
        "Most soft tokens of a frame of a clip.",
        unit="tokens",
        kind=OneOf(IMAGE_BUDGETS),
        field="mm_processor_kwargs.video_max_soft_tokens",
        group=MEDIA,
    )
    video_fps: float = option(
        1.0,
        "Frames a second that are shown of a clip.",
        unit="1/s",
        above=0,
        maximum=1000,
        field="mm_processor_kwargs.fps",
        group=MEDIA,
    )
    video_frames: int = option(
        60,
        "Most frames of a clip; of a longer one so many, spread evenly.",
        unit="frames",
        minimum=1,
        maximum=600,
        field="mm_processor_kwargs.num_frames",
        group=MEDIA,
    )

    def __post_init__(self) -> None:
        checked(self)


def engine_options() -> dict[str, Option]:
    """Returns the table of all keywords that a request takes."""
    return {**options_of(RequestOptions), **generation_options()}


def _taken(registry: Registry[Any]) -> Set[str]:
    return engine_options().keys() - registry.options().keys()


for _registry in STRATEGIES.values():
    _registry.taken = partial(_taken, _registry)


def split_options(options: Mapping[str, Any]) -> tuple[RequestOptions, dict[str, Any]]:
    """Splits a request's keywords into what belongs to it alone, and changes of its `GenerationConfig`. None leaves a
    default.

    Raises:
        OptionError: an option that does not exist, or a value of the first part that is impossible.
    """
    own = {field.name for field in dataclasses.fields(RequestOptions)}
    known = engine_options()
    for name in options:
        if name not in known and name not in HOLDERS:
            raise unknown_option(name, known)
    given = {name: value for name, value in options.items() if value is not None}
    request = RequestOptions(**{name: value for name, value in given.items() if name in own})
    return request, {name: value for name, value in given.items() if name not in own}
