"""Records a request's events in a file, reads them back, and replays them on a page for notebooks.

A trace is JSON lines: a header with the model, the prompt and the special tokens, then the events with the seconds
since the start.
"""

import json
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, get_args

from gesso.display.gif import gif_bytes
from gesso.display.layout import COLUMNS, Picture, pictures
from gesso.display.replay import Frame, in_frame, lines_of, replay_page
from gesso.display.svg import svg_page
from gesso.engine.events import BlockCommitted, DenoisingFrame, Event, Failed, Finished, event_from_dict, event_to_dict
from gesso.errors import DataError, OptionError
from gesso.options.paths import checked_path
from gesso.whole_file import write_whole

VERSION = 1
MOST_BYTES = 2**29
"""Bytes of a trace that is read, more than an answer that fills a context takes: a device may have no end."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Holds what a trace file holds."""

    model: str
    prompt: str
    special: frozenset[int]
    """Ids of special tokens."""
    events: tuple[tuple[float, Event], ...]
    """Each with the seconds since the start."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Shows a request's canvases resolving again, in a notebook; `save` writes the page to a file."""

    events: tuple[Event, ...] = field(repr=False)  # a notebook keeps the text beside the page
    prompt: str = ""
    special: frozenset[int] = frozenset()
    seconds: tuple[float, ...] = field(default=(), repr=False)
    """Seconds of each event since the start; empty where they are not known."""
    model: str = ""

    @property
    def html(self) -> str:
        """Returns the page: one self-contained HTML string."""
        last = self.events[-1]
        note = last.message if isinstance(last, Failed) else ""
        return replay_page(self._rows(), answer=self._text(), note=note)

    @property
    def svg(self) -> str:
        """Returns the same as an animated SVG, for pages that run no script."""
        return svg_page(self._pictures(), COLUMNS)

    def gif(self, font: str | Path | None = None) -> bytes:
        """Draws the same as an animated GIF.

        Args:
            font: a TrueType or OpenType file, for scripts that Pillow's own font, which is Latin, does not have.

        Raises:
            OptionError: Pillow is missing, or the font cannot be read.
        """
        return gif_bytes(self._pictures(), COLUMNS, font)

    def save(self, path: str | Path, *, font: str | Path | None = None) -> None:
        """Writes it to a file: as a picture where its name ends in `.svg` or `.gif`, else as a page for a browser.

        Args:
            font: of a GIF; see `gif`.

        Raises:
            OptionError: the file cannot be written; and see `gif`.
        """
        path = checked_path("path", path)
        kind = path.suffix.lower()
        written = self.gif(font) if kind == ".gif" else (self.svg if kind == ".svg" else self.html).encode("utf-8")
        try:
            write_whole(path, written)
        except OSError as error:
            raise OptionError(f"{path} cannot be written: {error.strerror or error}", option="path") from None

    def _repr_html_(self) -> str:
        return in_frame(self.html, lines_of(self._text() + self.prompt))

    def _blocks(self) -> list[tuple[str, str]]:
        return [(event.reasoning, event.text) for event in self.events if isinstance(event, BlockCommitted)]

    def _rows(self) -> Iterator[dict[str, Any]]:
        """Returns the trace without what only a server could go on with."""
        yield header(self.model, self.prompt, self.special)
        for seconds, event in zip(self.seconds or (0.0,) * len(self.events), self.events, strict=True):
            row = {"seconds": round(seconds, 4), **event_to_dict(event)}
            row.pop("canvas_tokens", None)
            if not isinstance(event, Failed):
                yield row

    def _pictures(self) -> list[Picture]:
        return pictures(self._frames(), self._blocks(), self.prompt, self._summary())

    def _frames(self) -> list[Frame]:
        frames, blocks = [], 0
        for event in self.events:
            if isinstance(event, DenoisingFrame):
                pairs = zip(event.tokens, event.pieces, strict=True)
                pieces = [None if token in self.special else piece for token, piece in pairs]
                frames.append(Frame(blocks, pieces, event.entropy, event.accepted, _status(event)))
            elif isinstance(event, BlockCommitted):
                blocks += 1
        return frames

    def _text(self) -> str:
        last = self.events[-1]
        if isinstance(last, Finished):
            return last.result.text
        return "".join(event.text for event in self.events if isinstance(event, BlockCommitted))

    def _summary(self) -> str:
        last = self.events[-1]
        if isinstance(last, Failed):
            return last.message
        return last.result.finish_reason if isinstance(last, Finished) else ""


def replay(source: str | Path | Iterable[Event], *, special: Collection[int] | None = None, prompt: str = "") -> Replay:
    """Makes a request's events into an object that a notebook shows with a slider over the denoising steps.

    Args:
        source: a file that `gesso generate --trace` wrote, or events, such as a `Stream` yields them.
        special: ids of special tokens, which are shown as dots; a `Stream` and a file have their own.
        prompt: shown above the canvas; a file has its own.

    Raises:
        DataError: the file is no trace.
        OptionError: there is no denoising step among the events: ask for them with `frames=True`, and for
            canvases where an answer was written token by token.
    """
    if isinstance(source, str | Path):
        return replay_of(read_trace(checked_path("source", source)))
    if not isinstance(source, Iterable):
        raise OptionError(f"source must be a file or events, got {source!r:.60}", option="source")
    known = getattr(source, "special_ids", ()) if special is None else special
    found = Replay(tuple(source), prompt, frozenset(known))
    if other := [event for event in found.events if not isinstance(event, get_args(Event))]:
        raise OptionError(f"source must be a file or events, got {other[0]!r:.60} among them", option="source")
    return _with_steps(found)


def replay_of(trace: Trace) -> Replay:
    """Makes what a file held into the object that shows it.

    Raises:
        OptionError: as for `replay`.
    """
    seconds, events = zip(*trace.events, strict=True)
    return _with_steps(Replay(events, trace.prompt, trace.special, seconds, trace.model))


def _with_steps(found: Replay) -> Replay:
    if not any(isinstance(event, DenoisingFrame) for event in found.events):
        if any(isinstance(event, BlockCommitted) and event.mode == "ar" for event in found.events):
            raise OptionError(
                "the answer was written token by token, without a denoising step", hint="ask for canvases"
            )
        raise OptionError("there is no denoising step among the events", hint="stream with frames=True")
    return found


def header(model: str, prompt: str, special: Collection[int]) -> dict[str, Any]:
    """Returns the first row of a trace."""
    return {"gesso_trace": VERSION, "model": model, "prompt": prompt, "special": sorted(special)}


def record(events: Iterable[Event], path: Path, *, model: str, prompt: str, special: frozenset[int]) -> Iterator[Event]:
    """Passes events on and writes them to `path`, one JSON object a line.

    Raises:
        OptionError: the file cannot be written.
    """
    try:
        with path.open("w", encoding="utf-8") as file:
            file.write(json.dumps(header(model, prompt, special), ensure_ascii=False) + "\n")
            started = time.monotonic()
            for event in events:
                line = {"seconds": round(time.monotonic() - started, 4), **event_to_dict(event)}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                file.flush()
                yield event
    except OSError as error:
        raise OptionError(f"--trace {path}: {error.strerror or error}", option="trace") from None


def read_trace(path: Path, stream: BinaryIO | None = None) -> Trace:
    """Reads a trace file that `record` wrote.

    Args:
        path: the file, or what messages call the stream.
        stream: what is read in the place of the file, and left open.

    Raises:
        DataError: the file is no trace, is cut short, larger than `MOST_BYTES`, or has a bad line, which is named by
            its number.
    """
    rows = _rows(path, stream)
    _, first = next(rows, (1, {}))
    special = first.get("special")
    if first.get("gesso_trace") != VERSION or not isinstance(special, list):
        raise DataError(f"{path} is no gesso trace of version {VERSION}")
    events = []
    for number, row in rows:
        try:
            seconds = float(row.pop("seconds"))
            event = event_from_dict(row)
        except KeyError:
            raise DataError(f"{path}, line {number}: no seconds") from None
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"{path}, line {number}: {error}") from None
        if not 0 <= seconds < float("inf"):
            raise DataError(f"{path}, line {number}: seconds is {seconds}")
        events.append((seconds, event))
    if not events or not isinstance(events[-1][1], Finished):
        raise DataError(f"{path} is cut short: its last line is not the end of a request")
    ids = frozenset(token for token in special if isinstance(token, int))
    return Trace(str(first.get("model", "")), str(first.get("prompt", "")), ids, tuple(events))


def _rows(path: Path, stream: BinaryIO | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields what the lines of a file hold, one after the other, with their numbers."""
    try:
        with path.open("rb") if stream is None else nullcontext(stream) as file:
            for number, line in enumerate(_lines(path, file), 1):
                yield number, _row(path, number, line)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None


def _lines(path: Path, file: BinaryIO) -> Iterator[bytes]:
    # Bytes, and no text: JSON leaves U+2028 and its like as they are, inside a line.
    left = MOST_BYTES
    while line := file.readline(left + 1):
        left -= len(line)
        if left < 0:
            raise DataError(f"{path} has more than {MOST_BYTES // 2**20} MiB: a trace that long is not read")
        yield line.removesuffix(b"\n")


def _row(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError:
        raise DataError(f"{path} is no trace: it is not UTF-8 text") from None
    except RecursionError:
        raise DataError(f"{path}, line {number}: no JSON (nested too deeply)") from None
    except ValueError as error:  # a number of thousands of digits is no error of JSON's own
        raise DataError(f"{path}, line {number}: no JSON ({getattr(error, 'msg', error)})") from None
    if not isinstance(row, dict):
        raise DataError(f"{path}, line {number}: no JSON object")
    return row


def _status(frame: DenoisingFrame) -> str:
    mean = sum(frame.entropy) / len(frame.entropy)
    return (
        f"canvas {frame.canvas + 1} \N{MIDDLE DOT} step {frame.step}/{frame.max_denoising_steps} \N{MIDDLE DOT} "
        f"accepted {sum(frame.accepted)}/{len(frame.accepted)} \N{MIDDLE DOT} entropy {mean:.3f} nats"
    )
