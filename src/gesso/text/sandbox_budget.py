"""Holds what is left of one rendering of a template: turns of loops, items that are looked at, characters, seconds."""

import time
from contextvars import ContextVar

from gesso.text.sandbox_sizes import TemplateLimitError

MAX_STEPS = 1_000_000
"""Turns of loops and calls of macros in one rendering."""
MAX_LOOKED = 10_000_000
"""Items that filters, tests and comparisons of one rendering look at."""
BETWEEN = 32
"""Items after which the clock is looked at, which costs as much as some of them."""
MAX_SECONDS = 5.0
"""Processor time of one rendering."""
MAX_WRITTEN = 2**27
"""Characters that one rendering writes: into the prompt, and before into the blocks and macros that it is made of."""


class Budget:
    """Counts what one rendering may still take."""

    def __init__(self) -> None:
        self.steps = self.looked = self.written = self.timed = 0
        self.end = time.thread_time() + MAX_SECONDS

    def write(self, size: int) -> None:
        """Counts characters that are written."""
        self.written += size
        if self.written > MAX_WRITTEN:
            raise TemplateLimitError(f"it writes more than {MAX_WRITTEN:,} characters")

    def take(self, size: int) -> None:
        """Counts a turn of a loop or a call, and the characters that stand in its body."""
        self.write(size)
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TemplateLimitError(f"it takes more than {MAX_STEPS:,} turns of its loops")
        self.check_time()

    def look(self, items: int = 1) -> None:
        """Counts items that are looked at outside of loops."""
        self.looked += items
        if self.looked - self.timed < BETWEEN:
            return
        self.timed = self.looked
        if self.looked > MAX_LOOKED:
            raise TemplateLimitError(f"it looks at more than {MAX_LOOKED:,} items in filters and comparisons")
        self.check_time()

    def check_time(self) -> None:
        """Looks at the clock, before something that may take long by itself."""
        if time.thread_time() > self.end:
            raise TemplateLimitError(f"it computes for more than {MAX_SECONDS:g} seconds")


BUDGET: ContextVar[Budget] = ContextVar("BUDGET")
"""Budget of the rendering that goes on."""
