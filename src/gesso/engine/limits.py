"""Defines the limits of an async engine, what its step loop counts, and its statistics."""

from collections.abc import Mapping
from dataclasses import dataclass

from gesso.errors import OptionError


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds what an async engine accepts.

    Raises:
        OptionError: a limit that is too small.
    """

    max_num_seqs: int = 8
    """Requests that run at once."""
    max_waiting: int = 64
    """Requests in the queue; one more is refused."""
    kv_memory: int | None = None
    """Bytes for caches of running requests and stored prefixes together; None: by the device."""
    max_model_len: int | None = None
    """Tokens of prompt and answer; None: the model's limit."""
    prefill_chunk: int | None = None
    """Prompt tokens encoded at a time, and the length of stored prefixes' parts; None: by the device."""
    request_timeout: float | None = None
    """Seconds from submission; None: no timeout."""
    hang_seconds: float = 300.0
    """Seconds after which an iteration that is not over is taken to hang: its device answers no more."""

    def __post_init__(self) -> None:
        for name, least in (("max_num_seqs", 1), ("max_waiting", 0), ("kv_memory", 1), ("max_model_len", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise OptionError(f"{name} must be at least {least}, got {value}", option=name)
        if self.prefill_chunk is not None and self.prefill_chunk < 16:
            raise OptionError(f"prefill_chunk must be at least 16, got {self.prefill_chunk}", option="prefill_chunk")
        if not self.hang_seconds > 0:
            raise OptionError(f"hang_seconds must be above 0, got {self.hang_seconds}", option="hang_seconds")
        if self.request_timeout is not None and not self.request_timeout > 0:
            raise OptionError(f"request_timeout must be above 0, got {self.request_timeout}", option="request_timeout")


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
