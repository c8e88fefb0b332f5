"""Defines a request as its sender writes it: a prompt with its settings."""

import dataclasses
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from gesso.engine.prompt import Prompt
from gesso.errors import OptionError


@dataclass(frozen=True, slots=True)
class Request:
    """Holds one prompt with its settings.

    `options` are those of `GenerationConfig` and of `RequestOptions`, and `constraint`: what `gesso.constraint` made,
    in the place of the option of its kind. None leaves an option at its default.
    """

    prompt: Prompt
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    adapter: str | None = None
    """Name of its adapter, one of those that the async engine was started with."""
    frames: bool = False
    """Whether the events hold every denoising step."""
    since: float | None = None
    """When its time began, by the monotonic clock, for who bounds it; None is when it is checked."""
    group: Hashable = None
    """What it is a part of: requests of one group take turns with others. None is by itself."""


def as_request(request: Request | Mapping[str, Any] | Prompt) -> Request:
    """Returns the request that a mapping such as `{"prompt": "...", "seed": 7}`, or just a prompt, stands for.

    Raises:
        OptionError: a mapping without a prompt.
    """
    if isinstance(request, Request):
        return request
    if isinstance(request, Mapping):
        options = dict(request)
        if "prompt" not in options:
            raise OptionError("a request that is a mapping needs a prompt")
        return Request(options.pop("prompt"), options)
    return Request(request)
