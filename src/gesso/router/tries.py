"""Counts what a request has cost without getting further, and says when it is enough.

Two things are told apart. A server that *answers* with an error may answer so every time: it is asked again so many
times. A server that is *lost* under a request says nothing of the request: that goes on for so many times, and for so
long too, because servers that die faster than one of them writes its first block have to be outlived. A request that
kills every server that it meets is given up then.
"""

import time
from collections.abc import Callable


class Tries:
    """Counts the tries of one request.

    Args:
        most: times that it is sent again without getting any further.
        seconds: for which it is sent again at least where servers are lost.
    """

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._progress = self._answered = self._lost = 0
        self._since = clock()

    def reached(self, progress: int) -> bool:
        """Notes how far the request is; says whether it is further than ever, and all is forgotten."""
        if progress <= self._progress:
            return False
        self._progress, self._answered, self._lost, self._since = progress, 0, 0, self._clock()
        return True

    def answered(self) -> bool:
        """Counts an error that a server told; says whether the request is sent again."""
        self._answered += 1
        return self._answered <= self._most

    def lost(self) -> bool:
        """Counts a server that was lost, or is going; says whether the request is sent again."""
        self._lost += 1
        return self._lost <= self._most or self._clock() - self._since < self._seconds
