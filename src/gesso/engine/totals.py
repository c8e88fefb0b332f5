"""Counts what an engine's requests came to, and how long one takes."""

from collections import Counter

from gesso.engine.events import BlockCommitted, Event, Failed, Finished

SMOOTHING = 0.2
"""Weight of the newest request in the running mean of how long one takes."""


class Totals:
    """Sums up the events of all requests since the engine was started."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        """Requests by their reason for ending."""
        self.canvases = 0
        self.completion_tokens = 0
        self.mean_seconds = 1.0
        """Running mean of the seconds that a request took; 1 before the first."""

    def count(self, event: Event) -> None:
        """Counts one event of a request."""
        if isinstance(event, BlockCommitted):
            self.canvases += event.mode == "canvas"
            self.completion_tokens += len(event.tokens)
        elif isinstance(event, Finished):
            self.outcomes[event.result.finish_reason] += 1
            if event.result.finish_reason != "cancelled":
                self.mean_seconds += SMOOTHING * (event.result.seconds - self.mean_seconds)
        elif isinstance(event, Failed):
            self.outcomes[event.kind] += 1
