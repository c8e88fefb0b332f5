"""Defines the limits of an async engine, what its step loop counts, and its statistics."""

from collections.abc import Mapping
from dataclasses import dataclass

from gesso.options import checked, option


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds what an async engine accepts.

    Raises:
        OptionError: a limit that is impossible.
    """

    max_num_seqs: int = option(8, "Requests that run at once.", minimum=1)
    max_waiting: int = option(64, "Requests in the queue; one more is refused.", minimum=0)
    kv_memory: int | None = option(
        None,
        "Memory for caches of running requests and stored prefixes together.",
        unset="by the device",
        minimum=1,
        unit="bytes",
    )
    max_model_len: int | None = option(
        None, "Length of prompt and answer together.", unset="the model's limit", minimum=1, unit="tokens"
    )
    prefill_chunk: int | None = option(
        None,
        "Part of a prompt that is encoded at a time, and the length of stored prefixes' parts.",
        unset="by the device",
        minimum=16,
        unit="tokens",
    )
    request_timeout: float | None = option(
        None, "Time that a request may take from its submission.", unset="no timeout", above=0, unit="s"
    )
    hang_seconds: float = option(
        300.0,
        "Time after which an iteration that is not over is taken to hang: its device answers no more.",
        above=0,
        unit="s",
    )

    def __post_init__(self) -> None:
        checked(self)


@dataclass(slots=True)
class Counters:
    """Counts what a step loop has done since it began."""

    steps: int = 0
    """Passes of the model that denoise canvases, or that tokens of mode `ar` are drawn from."""
    canvas_steps: int = 0
    """Canvases stepped, summed over passes."""
    token_steps: int = 0
    """Requests that got their next token of mode `ar`, summed over passes."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens restored from the prefix store."""
    images: int = 0
    """Images, frames of clips among them, in the prompts that were begun."""
    cached_images: int = 0
    """Images among these whose keys and values came from a stored prefix."""
    crashed_passes: int = 0
    """Passes of the model that failed."""
    prefix_failures: int = 0
    """Copies of prefixes that could not be made or used; requests ran without."""


@dataclass(frozen=True, slots=True)
class Stats:
    """Holds the statistics of an async engine; counts are since its start."""

    counters: Counters
    """A copy of the step loop's."""
    waiting: int
    running: int
    canvases: int
    """Canvases finished."""
    completion_tokens: int
    requests: Mapping[str, int]
    """Finished requests by finish reason, and `timeout` and `crash`."""
    cache_bytes: int
    """Bytes of running requests' caches."""
    prefix_bytes: int
    """Bytes of stored prefixes."""
    kv_memory: int
    """The bound on both."""
    expected_seconds: float
    """Estimated seconds that a new request would wait in the queue, by the duration of the last ones."""
    images_encoded: int = 0
    """Images that went through the vision tower; the rest came from a stored prefix, or had been seen shortly
    before."""
