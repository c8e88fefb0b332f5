"""Implements `gesso chat`: a conversation in the terminal."""

import contextlib
import shutil
import signal
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import typer

from gesso.cli import options as opt
from gesso.cli.attachments import COMMANDS, Attachments
from gesso.cli.conversation import FENCE, Conversation
from gesso.cli.files import MOST
from gesso.cli.output import note
from gesso.cli.progress import is_screen
from gesso.cli.signals import INTERRUPTED, SIGNALS
from gesso.generation import CONSTRAINTS, engine_options
from gesso.load_options import LoadOptions

HELP = (
    "/clear forgets the conversation, /undo its last turn, /retry answers again, /save FILE appends it to a file, "
    f"/image FILE and /video FILE go with the next message, {FENCE} stands before and behind a "
    "message of several lines, "
    "/exit or Ctrl-D ends it, Ctrl-C stops an answer"
)

MODEL = "skills"
"""The bundled model that was taught conversations."""
NOTHING = "nothing was said yet"
REFUSED = 2
"""Exit code of a conversation from a pipe of which a message was refused."""
_NOT_HERE = (
    *("raw", "images", "videos", "begin", "ignore_eos", "start_canvas", "canvas"),
    *("verify", "verify_threshold", "strict_schema", *CONSTRAINTS),
)
"""Options of a request that make no conversation."""


@opt.takes(engine_options(), but=_NOT_HERE, model=MODEL)
def chat(
    context: typer.Context,
    options: dict[str, Any],
    load: LoadOptions,
    system: opt.System = None,
    server: opt.Server = None,
    api_key: opt.ApiKey = None,
) -> int:
    """Talk with a model, here or behind a server; a line is a message."""
    from gesso.cli.interrupt import first_interrupt
    from gesso.cli.model_notes import is_named, note_no_thinking, note_other_words, note_slow_canvases
    from gesso.cli.session import present
    from gesso.errors import GessoError, UserError

    partner: Any
    if server is not None:
        partner = opt.load_served(server, load, named=is_named(context), api_key=api_key)
        name, special = partner.name, partner.special
    else:
        partner, name = opt.load_engine(load), load.model
        special = partner.tokenizer.special_ids
        note_no_thinking(load, options)
        note_slow_canvases(partner, options)
    asks = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
    live = asks and is_screen(sys.stdout)
    if asks:
        _edit_lines(pasted=live)
        note(_wrapped(f"{name} \N{MIDDLE DOT} {HELP}"))
    said, code = Conversation(system), 0
    attached = Attachments(None if server is not None else partner, options)
    while (line := _ask(asks)) is not None:
        if line.strip() in ("/exit", "/quit"):
            break
        begins = said.begins
        if not _heard(line, said, attached):
            continue
        if server is None and said.tries == 0:
            note_other_words(load, line, alone=begins)
        # A server that failed may be there again for the next message; a model that is loaded here is not.
        with _noted(GessoError if server is not None and asks else UserError) as errors:
            stream = partner.stream(said.messages, frames=live, **_with_try(options, said.tries))
            with first_interrupt(stream.cancel):
                result = present(iter(stream), live=live, as_json=False, special=special)
        if errors:
            said.give_up()
            code = 0 if asks else REFUSED
            continue
        for warning in result.warnings:
            note(warning)
        if result.finish_reason == "cancelled":
            # Half an answer would be taken for a whole one in the turns that follow.
            told = said.give_up()
            if not asks or _terminated():
                return INTERRUPTED
            note(told)
            continue
        if said.before is not None and said.before["content"] == result.text:
            note("the same answer again: others come at a higher temperature (--temperature X)")
        said.answer(result.text)
    return code


@contextlib.contextmanager
def _noted(kind: type[Exception]) -> Iterator[list[Exception]]:
    """Prints an error of this kind and goes on behind the block; it is in the list that is yielded."""
    caught: list[Exception] = []
    try:
        yield caught
    except kind as error:
        note(f"gesso: {error}")
        caught.append(error)


def _is_command(word: str) -> bool:
    """Whether the first word of a line is meant as a command: a path, which has more slashes, is not."""
    return word.startswith("/") and word.count("/") == 1


def _with_try(options: dict[str, Any], tries: int) -> dict[str, Any]:
    """The options of an answer; one that is asked for again has a seed of its own."""
    if not tries or options.get("seed") is None:
        return options
    from gesso.engine.seeds import numbered_seed

    return {**options, "seed": numbered_seed(options["seed"], tries)}


def _heard(line: str, said: Conversation, attached: Attachments) -> bool:
    """Does what a message or a command says; returns whether an answer is asked for."""
    command, _, rest = line.partition(" ")
    if command == "/retry" and not rest.strip():
        reopened = said.reopen()
        if not reopened:
            note(NOTHING)
        return reopened
    if _is_command(command) and "\n" not in line:
        if answer := _obey(command, rest.strip(), said, attached):
            note(answer)
        return False
    if not line.strip():
        return False
    said.ask(attached.take(line))
    return True


def _obey(command: str, rest: str, said: Conversation, attached: Attachments) -> str:
    """Do what a command says; returns what there is to say of it."""
    from gesso.errors import UserError

    try:
        if command in COMMANDS:
            return attached.add(COMMANDS[command], rest)
        if command == "/save":
            return said.save(rest)
    except UserError as error:
        return f"gesso: {error}"
    except OSError as error:
        return f"gesso: {rest}: {error.strerror}"
    if command == "/clear" and not rest:
        said.clear()
        attached.clear()
        return ""
    if command == "/undo" and not rest:
        return "the last turn is forgotten" if said.undo() else NOTHING
    return _wrapped(HELP if command == "/help" else f"no command {command}: {HELP}")


def _edit_lines(*, pasted: bool) -> None:
    """Gives `input` its line editing.

    Args:
        pasted: whether text that is pasted is one message however many lines it has, none of them a command. Python
            switches that off, so that each line would be sent as it arrives.
    """
    import readline

    if pasted:
        readline.parse_and_bind("set enable-bracketed-paste on")


def _wrapped(text: str) -> str:
    """`text` in lines as wide as the terminal."""
    return textwrap.fill(text, shutil.get_terminal_size().columns, break_long_words=False)


def _ask(asks: bool) -> str | None:
    """The next message: a line, or several between fences; None at the end of the input.

    Args:
        asks: whether a person at a terminal is asked for it, whose Ctrl-C begins it anew.

    Raises:
        KeyboardInterrupt: SIGTERM or SIGHUP came, or Ctrl-C where nobody can be asked again.
    """
    while True:
        if _terminated():
            # It came too late to cancel an answer.
            raise KeyboardInterrupt
        try:
            return _message(asks)
        except KeyboardInterrupt:
            if not asks or _terminated():
                raise
            SIGNALS.recovered()
            print()


def _message(asks: bool) -> str | None:
    line = _line("> " if asks else "")
    if line is None and asks:
        print()
    if line is None or not line.lstrip().startswith(FENCE):
        return line and line.strip("\n")  # the end of a line that was pasted
    lines, rest = list[str](), line.lstrip().removeprefix(FENCE)
    while FENCE not in rest:
        lines.append(rest)
        following = _line("... " if asks else "")
        if following is None:
            return "\n".join(lines).strip("\n")
        rest = following
    return "\n".join([*lines, rest.partition(FENCE)[0]]).strip("\n")


def _line(prompt: str) -> str | None:
    """Reads a line; None at the end of the input."""
    from gesso.errors import TextError

    try:
        line = input(prompt) if prompt else _piped_line()
    except EOFError:
        return None
    except UnicodeDecodeError as error:
        raise TextError(f"standard input is no UTF-8 text: {error}") from None
    return line.removeprefix("\ufeff")  # a byte order mark is no part of a message


def _piped_line() -> str:
    """Reads a line as `input` does, which would wait for the end of one that has none."""
    from gesso.errors import TextError

    sys.stdout.flush()
    line = sys.stdin.readline(MOST + 1)
    if not line:
        raise EOFError
    if len(line) > MOST:
        raise TextError(f"a line of standard input is longer than {MOST:,} characters")
    return line.removesuffix("\n")


def _terminated() -> bool:
    """Whether SIGTERM or SIGHUP has come: they end the conversation, where Ctrl-C ends an answer."""
    return SIGNALS.received not in (None, signal.SIGINT)
