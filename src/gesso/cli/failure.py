"""Reports a command that cannot be done: one line on standard error, and JSON on standard output with `--json`."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gesso.cli.output import drop, note, print_json
from gesso.errors import OptionError


def fail(
    error: Exception, message: str, code: int, command: Any, arguments: Sequence[str], hint: str | None = None
) -> int:
    """Says what is wrong; returns the exit code.

    A hint, this one or the error's own, stands on a second line. Where the command line asks for JSON, an object
    `error` with `message`, `option`, `hint` and `type` is the output.

    Args:
        message: what people read; white space in it becomes single spaces.
        command: all of `gesso`.
        arguments: of the command line, which may be full of mistakes.
    """
    command, as_json = _asked(command, arguments)
    message = " ".join(message.split())
    hint = hint or " ".join((getattr(error, "hint", None) or "").split()) or None
    try:
        if as_json:
            kind = "UsageError" if hasattr(error, "format_message") else type(error).__name__
            facts = {"message": message, "option": _option(error, command), "hint": hint, "type": kind}
            print_json({"error": facts})
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        drop(sys.stdout)
    note("gesso: " + message)
    if hint:
        note("  " + hint)
    return code


def memory_failure(error: Exception) -> str | None:
    """Returns one line about memory that is used up, which also keeps libraries from being loaded; None where an error
    tells of something else."""
    text = (str(error).strip().splitlines() or [""])[-1 if isinstance(error, ImportError) else 0]
    if isinstance(error, ImportError):
        return f"a library cannot be loaded: {text}" if "shared object" in text else None
    # PyTorch's own: of a GPU, and of the main memory, which has no type.
    full = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    if full or "can't allocate memory" in text:
        return f"there is not enough memory: {text}" if text else "there is not enough memory"
    return None


@contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Turns the lack of a package that an extra brings into an error that says how to install it.

    Args:
        what: what the message says before the command, such as `the server needs`.

    Raises:
        OptionError: a package is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("gesso"):
            raise
        from gesso.extras import pip_install

        raise OptionError(f"{error.name} is missing; {what} {pip_install(extra)}") from None


def _asked(command: Any, arguments: Sequence[str]) -> tuple[Any, bool]:
    """The command that is meant, and whether it has a `--json` and was given it."""
    wanted = False
    for argument in arguments:
        if argument == "--":
            break
        wanted |= argument == "--json"
        command = getattr(command, "commands", {}).get(argument, command)
    return command, wanted and any("--json" in parameter.opts for parameter in command.params)


def _option(error: Exception, command: Any) -> str | None:
    """The option that is meant, as it is written on a command line; the name of an argument is left as it is."""
    parameter = getattr(error, "param", None)
    name = getattr(error, "option", None) or getattr(error, "option_name", None) or getattr(parameter, "name", None)
    found = next((known for known in command.params if known.name == name), None)
    return name if found is None or not found.opts[0].startswith("-") else str(found.opts[0])
