"""Lets a thread of its own wait for the next bytes while those at hand are worked on."""

import threading
from collections.abc import Generator
from queue import Full, Queue

DEPTH = 16
"""Pieces that wait at most."""
_POLL = 0.2


def read_ahead(pieces: Generator[bytes]) -> Generator[bytes]:
    """Yields what `pieces` yields, and raises what it raises; the thread ends when this generator does."""
    waiting: Queue[tuple[bytes | None, BaseException | None]] = Queue(DEPTH)
    stopped = threading.Event()

    def hand_over(piece: bytes | None, error: BaseException | None) -> None:
        while not stopped.is_set():
            try:
                waiting.put((piece, error), timeout=_POLL)
                return
            except Full:
                continue

    def work() -> None:
        try:
            for piece in pieces:
                hand_over(piece, None)
                if stopped.is_set():
                    return
            hand_over(None, None)
        except BaseException as error:  # noqa: BLE001 - raised again where the pieces are taken
            hand_over(None, error)
        finally:
            pieces.close()

    thread = threading.Thread(target=work, name="read ahead", daemon=True)
    thread.start()
    try:
        while True:
            piece, error = waiting.get()
            if error is not None:
                raise error
            if piece is None:
                return
            yield piece
    finally:
        stopped.set()
        thread.join(timeout=1.0)
