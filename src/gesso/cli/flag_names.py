"""Names settings as they are written on the command line where one of them is refused."""

import functools
import inspect
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from gesso.errors import ConfigError, OptionError

_ARGUMENTS = ("data", "recipe", "model")
"""Names of parameters without a flag, and one that messages speak of as a thing."""
P = ParamSpec("P")
R = TypeVar("R")


def flags_in_refusals(**set_by: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates a command, whose refused settings then speak of its flags, all as an `OptionError`.

    Args:
        set_by: flags of settings that are named otherwise, such as `keep_checkpoints="--keep"`.
    """

    def decorate(command: Callable[P, R]) -> Callable[P, R]:
        options = {name for name in inspect.signature(command).parameters if name not in _ARGUMENTS}
        flags = {name: f"--{name.replace('_', '-')}" for name in options} | set_by

        @functools.wraps(command)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return command(*args, **kwargs)
            except (ConfigError, OptionError) as error:
                message = with_flags(str(error), flags)
                first = re.search(r"--[\w-]+", message)
                if message == str(error) or first is None:
                    raise
                option = error.option or first.group()[2:].replace("-", "_")
                raise OptionError(message, option=option, hint=error.hint) from None

        return run

    return decorate


def with_flags(message: str, flags: dict[str, str]) -> str:
    """Returns the message with flags for names, but within paths and quotes. One without `_` may be a word of the
    sentence; where a value follows at the beginning it is the setting's."""

    def flag(found: re.Match[str]) -> str:
        is_name = "_" in found.group() or (not found.start() and message[found.end() : found.end() + 1] == " ")
        return flags.get(found.group(), found.group()) if is_name else found.group()

    return re.sub(r"(?<![\w/\\.'\"-])\w+(?![\w/\\.'\"-])", flag, message)
