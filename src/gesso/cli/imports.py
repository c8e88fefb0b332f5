"""Imports what `gesso --import` names, before commands are defined: they have the options of all that is registered."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from gesso.cli.output import note
from gesso.errors import OptionError
from gesso.generation import engine_options
from gesso.options.user_code import IMPORT, import_named

FLAG = "--import"


def import_first(arguments: Sequence[str]) -> bool:
    """Imports what stands before the command, and what the environment names; says on standard error what cannot be.

    Processes that this one starts import it too: the environment tells them.
    """
    given = [str(Path(place).resolve()) if place.endswith(".py") else place for place in _places(arguments)]
    if given:
        os.environ[IMPORT] = os.pathsep.join([*filter(None, [os.environ.get(IMPORT)]), *given])
    if IMPORT not in os.environ:
        return True
    try:
        import_named()
        engine_options()  # which refuses what they register under a name that an option has
    except (OptionError, TypeError) as error:
        note(f"gesso: {error}")
        note(f"  {FLAG} or {IMPORT} names it")
        return False
    return True


def _places(arguments: Sequence[str]) -> Iterator[str]:
    words = iter(arguments)
    for word in words:
        if not word.startswith("-"):
            return
        if word == FLAG:
            yield from (place for place in [next(words, "")] if place)
        elif word.startswith(f"{FLAG}="):
            yield word.removeprefix(f"{FLAG}=")
