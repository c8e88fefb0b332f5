"""Draws a request's events in a terminal: the canvas while it resolves, coloured by certainty.

Text from a model may hold anything, also what a terminal obeys; `printable` takes that out before it is shown.
"""

import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.live import Live
from rich.text import Text

from gesso.engine.events import BlockCommitted, DenoisingFrame, Event, Failed, Finished
from gesso.engine.result import GenerationResult
from gesso.errors import GessoError

BANDS: tuple[tuple[float, str, str, str], ...] = (
    (0.05, "bold green", "bold", "sure"),
    (0.5, "green", "none", "likely"),
    (1.5, "yellow", "underline", "open"),
    (float("inf"), "red", "dim", "noise"),
)
"""Certainty by entropy: below so many nats, this style, the style where there are no colours, this name."""
HIDDEN = "dim"
JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
"""Characters that say how their neighbours are drawn, in Persian words and emoji."""
REFRESH_SECONDS = 0.03
WAITING = "reading the prompt"
"""Shown until there is something of the answer."""


def printable(text: str, keep: str = "\n\t") -> str:
    """Removes control characters, which a terminal would obey. Spaces of every width and joiners are text."""
    return "".join(
        c if c.isprintable() or c in keep or c in JOINERS or unicodedata.category(c) == "Zs" else "\N{MIDDLE DOT}"
        for c in text
    )


def style_of(entropy: float, *, coloured: bool = True) -> str:
    """Returns the style of a token of so many nats."""
    return next(style if coloured else plain for bound, style, plain, _ in BANDS if entropy < bound)


def draw_canvas(frame: DenoisingFrame, special: frozenset[int], *, coloured: bool = True) -> Text:
    """Draws one canvas; special tokens are dots, line breaks are marked."""
    text = Text()
    for token, piece, entropy in zip(frame.tokens, frame.pieces, frame.entropy, strict=True):
        if token in special:
            text.append("\N{MIDDLE DOT}", HIDDEN)
        else:
            shown = printable(piece, keep="\n").replace("\n", "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}\n")
            word = shown.lstrip(" ")
            text.append(" " * (len(shown) - len(word)))
            text.append(word, style_of(entropy, coloured=coloured))
    return text


def legend(*, coloured: bool = True) -> Text:
    """Draws the legend of the colours, or of what takes their place."""
    text = Text()
    for _, style, plain, name in BANDS:
        if coloured:
            text.append("\N{BLACK SQUARE} ", style)
            text.append(name + "  ", HIDDEN)
        else:
            text.append(name, plain)
            text.append("  ")
    text.append("\N{MIDDLE DOT} end", HIDDEN)
    return text


def status(frame: DenoisingFrame, tokens: int, seconds: float, width: int) -> Text:
    """Describes where the canvas stands, in as many lines of `width` columns as it takes."""
    mean = sum(frame.entropy) / len(frame.entropy)
    parts = [
        f"canvas {frame.canvas + 1}",
        f"step {frame.step}/{frame.max_denoising_steps}",
        f"accepted {sum(frame.accepted)}/{len(frame.accepted)}",
        f"entropy {mean:.3f}",
        _rate(tokens, seconds),
    ]
    return Text(flow(parts, width), HIDDEN)


def figures(result: GenerationResult) -> list[str]:
    """Describes a finished request in a few words each; one that was cut short has no counts from its server."""
    if result.text and not result.completion_tokens:
        return [f"{result.seconds:.2f} s", result.finish_reason]
    canvases = [
        _count(result.canvases, "canvas", "canvases"),
        _count(sum(result.denoising_steps), "step"),
        f"{result.tokens_per_forward:.1f} tokens/forward",
    ]
    return [
        _count(result.completion_tokens, "token"),
        *(canvases if result.mode == "canvas" else ["token by token"]),
        f"{result.tokens_per_second:.0f} tok/s",
        f"{result.seconds:.2f} s",
        f"seed {result.seed}",
        result.finish_reason,
    ]


def _count(number: int, one: str, more: str = "") -> str:
    return f"{number} {one if number == 1 else more or one + 's'}"


def flow(parts: Iterable[str], width: int) -> str:
    """Joins parts with dots between them; a line of `width` columns ends between two parts."""
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]} \N{MIDDLE DOT} {part}" if lines else part
        if lines and len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return "\n".join(lines)


def draw_live(events: Iterable[Event], console: Console, special: frozenset[int]) -> GenerationResult:
    """Draws events as they come; nothing of it stays on the screen. An answer without canvases is drawn as it grows:
    one that is written token by token, or of a server that shows none.

    Raises:
        GessoError: the request failed.
    """
    written, canvases = Text(), False
    tokens, started, drawn = 0, time.monotonic(), 0.0
    waiting, coloured = Text(WAITING, HIDDEN), not console.no_color
    with Live(waiting, console=console, transient=True, auto_refresh=False, vertical_overflow="visible") as live:
        for event in events:
            now = time.monotonic()
            soon = now - drawn < REFRESH_SECONDS
            if isinstance(event, DenoisingFrame):
                canvases = True
                if soon and event.step > 1:
                    continue
                done = tokens + sum(token not in special for token in event.tokens)
                below = [status(event, done, now - started, console.width - 1), legend(coloured=coloured)]
                _draw(live, Text.assemble(written, draw_canvas(event, special, coloured=coloured)), below)
                drawn = now
            elif isinstance(event, BlockCommitted):
                written.append(printable(event.reasoning), "italic dim")
                written.append(printable(event.text))
                tokens += len(event.tokens)
                if not canvases and not soon:
                    facts = [_count(tokens, "token"), _rate(tokens, now - started)] if tokens else []
                    _draw(live, written, [Text(flow(facts, console.width - 1), HIDDEN)] if facts else [])
                    drawn = now
            elif isinstance(event, Finished):
                return event.result
            else:
                raise GessoError(event.message)
    raise GessoError("the request never finished")


def show_live(events: Iterable[Event], console: Console, special: frozenset[int]) -> GenerationResult:
    """Draws events as they come; leaves the final text on the screen and a dim summary below it.

    What a cancelled request has committed is left dim, and marked: it may end anywhere. So is what there was of one
    that failed.

    Raises:
        GessoError: the request failed.
    """
    committed: list[BlockCommitted] = []
    try:
        result = draw_live(_noted(events, committed), console, special)
    except GessoError:
        if committed:
            reasoning = "".join(block.reasoning for block in committed)
            _leave(console, reasoning, "".join(block.text for block in committed), "broken off")
        raise
    cancelled = result.finish_reason == "cancelled"
    _leave(console, result.reasoning, result.text, "cancelled" if cancelled else "")
    console.print(Text(flow(figures(result), console.width), HIDDEN))
    return result


def _noted(events: Iterable[Event], committed: list[BlockCommitted]) -> Iterator[Event]:
    """Passes events on, and keeps what is committed."""
    for event in events:
        if isinstance(event, BlockCommitted):
            committed.append(event)
        yield event


def _leave(console: Console, reasoning: str, text: str, cut: str) -> None:
    """Leaves an answer on the screen.

    Args:
        cut: why it may end anywhere; empty where it is whole.
    """
    if reasoning:
        console.print(Text(printable(reasoning.strip()) + "\n", "italic dim"))
    if text or not cut:
        console.print(Text(printable(text), HIDDEN if cut else ""))
    if cut:
        console.print(Text(f"[{cut}{': the answer ends here, unfinished' if text else ''}]", "bold yellow"))


def _draw(live: Live, body: Text, below: list[Text]) -> None:
    """Draws the end of a text, and lines below it as far as a line of the text leaves room for them. A picture as tall
    as the screen could not be taken off it again."""
    console = live.console
    foot = _lines(Text("\n").join([Text(), *below]), console)[: max(0, console.height - 2)] if below else []
    room = console.height - 1 - len(foot)  # what scrolled away is printed at the end
    live.update(Text("\n").join([*_lines(body, console)[-max(1, room) :], *foot]), refresh=True)


def _rate(tokens: int, seconds: float) -> str:
    return f"{tokens / seconds if seconds > 0 else 0:.0f} tok/s"


def _lines(text: Text, console: Console) -> list[Text]:
    """The lines that a text takes on the screen."""
    return list(text.wrap(console, max(1, console.width - 1)))


def write_plain(events: Iterable[Event]) -> GenerationResult:
    """Prints the answer as its blocks are committed, nothing else; for pipes and files.

    Raises:
        GessoError: the request failed.
    """
    shown = printable if sys.stdout.isatty() else str
    result: GenerationResult | None = None
    written = 0
    try:
        for event in events:
            text = ""
            if isinstance(event, BlockCommitted):
                text = event.text
            elif isinstance(event, Finished):
                result = event.result
                # A cancelled request may have held back what could have become a stop string.
                text = result.text[written:]
            elif isinstance(event, Failed):
                raise GessoError(event.message)
            if text:
                written += len(text)
                sys.stdout.write(shown(text))
                sys.stdout.flush()
    except GessoError:
        if written:  # what is told of it begins a line
            _end_line()
        raise
    _end_line()
    assert result is not None
    return result


def _end_line() -> None:
    sys.stdout.write("\n")
    sys.stdout.flush()
