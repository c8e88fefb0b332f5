"""Handles Ctrl-C, SIGTERM and SIGHUP at any moment of a command: one line on standard error, and exit code 130, 143
or 129.

The life of a command has three parts. While it *starts*, nothing is there to be put in order: the process ends on the
spot. While it *runs*, a signal is a `KeyboardInterrupt`, so that what is half done is undone. While it *ends*, the
process ends on the spot again. Modules are imported in the midst of a run as well, and an import may swallow an
exception, or turn it into another one: there too the process ends on the spot.

SIGHUP says that the terminal is gone. It comes twice, from the shell and from the system, and counts once; what would
be written to the terminal from there on is lost, and nothing fails for it.

This module is imported before all others, so it imports next to nothing.
"""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED, TERMINATED, HUNG_UP = 130, 143, 129
"""Exit codes: 128 and the number of the signal, as shells have them."""
_ENDS = {signal.SIGINT: (INTERRUPTED, "interrupted"), signal.SIGTERM: (TERMINATED, "terminated")}
if sys.platform != "win32":
    _ENDS[signal.SIGHUP] = HUNG_UP, "hung up"
NUMBERS = tuple(_ENDS)
"""Signals that end a command."""
_SHOW_CURSOR = "\x1b[?25h"


class Signals:
    """Handles the signals, and keeps what has come of them so far."""

    def __init__(self) -> None:
        self.received: int | None = None
        """The signal that came last."""
        self.running = False
        """Whether an exception would be caught, and leave things in order."""
        self._raised = False

    def install(self) -> None:
        """Handles the signals from here on, but for those that the parent process chose to ignore, as `nohup` does."""
        atexit.register(self._ignore)
        for number in NUMBERS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self.handle)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Raises KeyboardInterrupt where that leads somewhere, once; ends the process where it does not.

        Raises:
            KeyboardInterrupt: the command runs.
        """
        self.receive(number)
        if self._raised or not self.running or _imports(frame):
            self._end(number)
        self._raised = True
        raise KeyboardInterrupt

    def receive(self, number: int) -> None:
        """Notes a signal. After SIGHUP another one is ignored, and so is what is written to a terminal that is gone."""
        self.received = number
        if _ENDS[signal.Signals(number)][0] == HUNG_UP:
            signal.signal(number, signal.SIG_IGN)
            _leave_terminal()

    def recovered(self) -> None:
        """Notes that a KeyboardInterrupt was caught and the command goes on: the next signal raises one again."""
        self.received, self._raised = None, False

    def exit_code(self) -> int:
        """Returns the exit code of a command that a signal ended: that of Ctrl-C where no signal was seen."""
        return _ENDS[signal.Signals(self.received or signal.SIGINT)][0]

    def line(self) -> str:
        """Returns what is said of it."""
        return f"gesso: {_ENDS[signal.Signals(self.received or signal.SIGINT)][1]}"

    def _end(self, number: int) -> None:
        text = f"{self.line()}\n"
        try:
            if os.isatty(2):
                # Behind the ^C that the terminal shows; a picture that was drawn live had hidden the cursor.
                drawn = "rich.live" in sys.modules and os.environ.get("TERM") != "dumb"
                text = "\n" + (_SHOW_CURSOR if drawn else "") + text
            os.write(2, text.encode())
        except OSError:
            pass  # nobody listens
        os._exit(_ENDS[signal.Signals(number)][0])

    def _ignore(self) -> None:
        """Called last of all: the work is done and the interpreter takes itself down, deaf to handlers."""
        for number in NUMBERS:
            signal.signal(number, signal.SIG_IGN)


def _leave_terminal() -> None:
    """Opens those standard streams on nothing whose terminal is gone: reading from it or writing to it would fail."""
    for stream in (0, 1, 2):
        try:
            os.write(stream, b"")
        except OSError as error:
            if error.errno == errno.EIO:
                nothing = os.open(os.devnull, os.O_RDWR)
                os.dup2(nothing, stream)
                os.close(nothing)


def _imports(frame: FrameType | None) -> bool:
    """Whether a module is being imported where the signal came."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


SIGNALS = Signals()
"""The signals of this process."""
