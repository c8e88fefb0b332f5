"""Names settings as they are written on the command line where one of them is refused."""

import re
from collections.abc import Collection

from gesso.errors import OptionError, UserError


def refusal_with_flags(error: UserError, flags: dict[str, str], words: Collection[str] = ()) -> UserError:
    """Returns the error with flags for names, as an `OptionError`; the error itself where it names none of them.

    Args:
        words: see `with_flags`.
    """
    message = with_flags(str(error), flags, words)
    first = re.search(r"--[\w-]+", message)
    if message == str(error) or first is None:
        return error
    option = error.option or first.group()[2:].replace("-", "_")
    return OptionError(message, option=option, hint=error.hint)


def with_flags(message: str, flags: dict[str, str], words: Collection[str] = ()) -> str:
    """Returns the message with flags for names, but within paths and quotes. One without `_` may be a word of the
    sentence; where a value follows at the beginning it is the setting's, and so are those that it needs or stands with.

    Args:
        words: names that are other things, too, such as a sampler's; these may be words of the sentence as well.
    """
    opening = re.match(r"(\w+) (?:(?:and|or|needs) \w+ ?)*", message)
    end = opening.end() if opening is not None and opening[1] in flags else 0

    def flag(found: re.Match[str]) -> str:
        is_name = found.start() < end or ("_" in found.group() and found.group() not in words)
        return flags.get(found.group(), found.group()) if is_name else found.group()

    return re.sub(r"(?<![\w/\\.'\"-])\w+(?![\w/\\.'\"-])", flag, message)
