"""Implements `gesso generate`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gesso.cli import options as opt
from gesso.cli.files import MOST, check_output
from gesso.cli.output import note
from gesso.cli.progress import is_screen
from gesso.cli.search import run_search
from gesso.cli.signals import INTERRUPTED
from gesso.control.search_options import SearchOptions
from gesso.generation import engine_options
from gesso.load_options import LoadOptions

if TYPE_CHECKING:
    from gesso.cli.remote import RemoteStream
    from gesso.engine.engine import Stream
    from gesso.engine.events import Event

Trace = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write every event to this file, for `gesso replay`.", rich_help_panel=opt.OUTPUT
    ),
]
Plain = Annotated[
    bool, typer.Option("--plain", help="Print the text alone, also in a terminal.", rich_help_panel=opt.OUTPUT)
]


_HELPS = {
    "model": "Bundled name, checkpoint folder, GGUF file or Hugging Face id. Without it skills answers a prompt with "
    "words, or in a wording, that mini was not trained on.",
    "images": "An image that the prompt is about, before its text.",
    "videos": "A clip that the prompt is about, behind the images.",
}


@opt.takes(engine_options(), helps=_HELPS)
def generate(
    context: typer.Context,
    options: dict[str, Any],
    load: LoadOptions,
    search: SearchOptions,
    prompt: opt.Prompt = None,
    system: opt.System = None,
    choice: opt.OneChoice = None,
    server: opt.Server = None,
    api_key: opt.ApiKey = None,
    as_json: opt.AsJson = False,
    plain: Plain = False,
    trace: Trace = None,
) -> int:
    """Generate text, and watch the canvas resolve.

    A canvas is a block of tokens that is written all at once. It begins as noise; every denoising step keeps what the
    model is sure of and turns the rest into noise again, until nothing changes any more.
    """
    from gesso.errors import OptionError

    raw = options.get("raw", False)
    if raw and (system is not None or options.get("thinking")):
        raise OptionError(
            "--raw takes the prompt as it is; --system and --thinking need the chat template", option="raw"
        )
    if trace is not None:
        check_output(trace, "trace")
    if as_json and plain:
        raise OptionError("--json and --plain contradict each other", option="plain")
    if choice:
        options["choices"] = (*options.get("choices", ()), *choice)
    if search.wanted and trace is not None:
        raise OptionError("--trace writes one answer's events; a search makes several", option="trace")
    if server is not None and (raw or search.wanted):
        shown = "--raw" if raw else "a search"
        raise OptionError(f"{shown} needs a model that is loaded here: leave --server out", option="server")
    text = read_prompt(prompt)
    from gesso.cli.interrupt import first_interrupt
    from gesso.cli.model_notes import is_named, note_no_thinking, note_slow_canvases, suited
    from gesso.cli.session import present

    before = [] if system is None else [{"role": "system", "content": system}]
    live = not (as_json or plain) and is_screen(sys.stdout)
    frames = live or trace is not None
    stream: Stream | RemoteStream
    if server is not None:
        served = opt.load_served(server, load, named=is_named(context), api_key=api_key)
        name, special = served.name, served.special
        stream = served.stream([*before, _attached(text, options)], frames=frames, **options)
    else:
        load = suited(load, text, named=is_named(context), options=options, alone=system is None)
        note_no_thinking(load, options)
        engine = opt.load_engine(load)
        note_slow_canvases(engine, options)
        from gesso.engine.media import media_options, with_media

        asked = text if raw else [*before, *with_media(text, media_options(options))]
        if search.wanted:
            return run_search(engine, asked, search, options, as_json)
        name, special = load.model, engine.tokenizer.special_ids
        stream = engine.stream(asked, frames=frames, **options)
    events: Iterator[Event] = iter(stream)
    if trace is not None:
        from gesso.engine.trace import record

        events = record(events, trace, model=name, prompt=text, special=special)
    with first_interrupt(stream.cancel):
        result = present(events, live=live, as_json=as_json, special=special)
    for warning in result.warnings:
        note(warning)
    return INTERRUPTED if result.finish_reason == "cancelled" else 0


def _attached(text: str, options: dict[str, Any]) -> dict[str, Any]:
    """The message of a request to a server, with the images and clips that are taken out of `options`."""
    from gesso.cli.attachments import Attachments

    files = {"image": options.pop("images", ()), "video": options.pop("videos", ())}
    attached = Attachments(None, options)
    for kind, names in files.items():
        for name in names:
            attached.add(kind, name)
    return {"role": "user", "content": attached.take(text)}


def read_prompt(prompt: str | None) -> str:
    """Returns the prompt, or what standard input holds.

    Raises:
        TextError: there is none, nothing but white space, or no end of it.
    """
    from gesso.errors import TextError

    if prompt is not None and prompt != "-":
        if not prompt.strip():
            raise TextError("the prompt is blank", option="prompt")
        return whole_characters(prompt)
    if sys.stdin is None or sys.stdin.isatty():
        message = 'no prompt: give one, as in gesso generate "What is 481 + 296?", or pipe it in'
        raise TextError(message, option="prompt")
    try:
        text = sys.stdin.read(MOST + 1)
    except UnicodeDecodeError as error:
        raise TextError(f"standard input is no UTF-8 text: {error}", option="prompt") from None
    if len(text) > MOST:
        raise TextError(f"the prompt on standard input is longer than {MOST:,} characters", option="prompt")
    text = text.removeprefix("\ufeff").removesuffix("\n")  # a byte order mark is the encoding's, not the prompt's
    if not text.strip():
        raise TextError("the prompt on standard input is blank", option="prompt")
    return whole_characters(text)


def whole_characters(text: str) -> str:
    """Returns a prompt that is text.

    Raises:
        TextError: it holds bytes that were no UTF-8, or half a character.
    """
    from gesso.errors import TextError

    try:
        text.encode()
    except UnicodeEncodeError:
        message = "the prompt is no valid Unicode: it holds bytes that are no UTF-8, or half a character"
        raise TextError(message, option="prompt") from None
    return text
