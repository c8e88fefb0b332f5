"""Shows examples with other words where an answer takes them from its prompt, so that few examples teach the copy.

Four hundred pairs have a few hundred words, which a model learns by heart before it learns to copy. A word (or a part
of an identifier, or a number) that stands in a prompt and in its answer, in whatever case, is replaced in both by the
same random one, case and digits kept. Words of many lines, such as the keys of a JSON answer or "is", belong to the
format and stay. It is for answers that take words as they are: where the order or the length of the words decides,
as in sorting, a replaced word makes the answer wrong.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gesso.tasks.skills.slots import Slots
from gesso.train.data_fields import ASSISTANT

COMMON = 0.10
"""A word that more than this share of the lines hold belongs to the format."""
_RUN = re.compile(r"[^\W\d_]+|\d+")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Z]|\d+")
"""A word, a part of camelCase, a number."""
Change = Callable[[bool, str], str]
"""Gives a text's replacement, told whether it is part of an answer."""


_TRIES = 100
"""Draws of a word that stands nowhere yet: of two digits there are ninety numbers."""


def copied_words(fields: Mapping[str, Any]) -> set[str]:
    """Returns the words, in lower case, that the answers of a line take from its prompts, and that none of what stays
    holds: its tools, and of calls and results the names, the keys and the values that are no text or whole number.
    Beside a number with a point, which a prompt may write in other digits, no number is one.

    Args:
        fields: of a line of training data.
    """
    prompts, answers = _sides(fields)
    stays = list(_left_alone(fields))
    text = json.dumps([fields.get("tools") or "", stays], ensure_ascii=False)
    copied = (prompts & answers) - {part.lower() for part in _parts(text)}
    return {word for word in copied if not word.isdigit()} if any(isinstance(v, float) for v in stays) else copied


def copied_share(lines: Sequence[Mapping[str, Any]]) -> float:
    """Returns the share of the words of all answers, those of the format left out, that are taken from prompts."""
    kept = format_words(lines)
    copied = sum(len(copied_words(fields) - kept) for fields in lines)
    return copied / max(1, sum(len(_sides(fields)[1] - kept) for fields in lines))


def format_words(lines: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Returns the words that more than `COMMON` of the lines hold."""
    counts: Counter[str] = Counter()
    total = 0
    for total, fields in enumerate(lines, 1):  # noqa: B007
        counts.update(set().union(*_sides(fields)))
    return frozenset(word for word, count in counts.items() if count > COMMON * total)


def vary_copies(fields: Mapping[str, Any], kept: frozenset[str], rng: random.Random) -> dict[str, Any]:
    """Returns the line with every copied word replaced but those in `kept`, and numbers of so few digits that no others
    are left.

    Args:
        fields: of a line of training data, which stay as they are.
    """
    slots = Slots(rng)
    taken = copied_words(fields)
    drawn: dict[str, str] = {}
    for word in sorted(taken - kept):
        for _ in range(_TRIES):
            new = _number(word, rng) if word.isdigit() else slots.word()
            if new not in taken:
                taken.add(new)
                drawn[word] = new
                break

    def part(found: re.Match[str]) -> str:
        new = drawn.get(found[0].lower())
        return found[0] if new is None else _in_case_of(found[0], new)

    def run(found: re.Match[str]) -> str:
        return _PART.sub(part, found[0]) if found[0].isascii() else found[0]

    return _rewrite(fields, lambda _, text: _RUN.sub(run, text))


def _sides(fields: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """Returns the words of a line's prompts and those of its answers, in lower case."""
    sides: tuple[set[str], set[str]] = (set(), set())

    def note(is_answer: bool, text: str) -> str:
        sides[is_answer].update(part.lower() for part in _parts(text))
        return text

    _rewrite(fields, note)
    return sides


def _parts(text: str) -> list[str]:
    """Returns the parts of a text that may be replaced: two characters at least, letters without accents, digits."""
    runs = (run for run in _RUN.findall(text) if run.isascii())
    return [part for run in runs for part in _PART.findall(run) if len(part) > 1]


def _number(digits: str, rng: random.Random) -> str:
    """Draws a number of as many digits, which begins with 0 where the other does."""
    first = "0" if digits[0] == "0" else rng.choice("123456789")
    return first + "".join(rng.choice("0123456789") for _ in digits[1:])


def _in_case_of(old: str, new: str) -> str:
    if old.isupper():
        return new.upper()
    return new.capitalize() if old[0].isupper() else new


def _rewrite(fields: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """Returns a line whose prompts and answers are changed; plain text has neither."""
    sides = {"prompt": False, "source": False, "completion": True}
    found = {k: change(sides[k], v) if k in sides and isinstance(v, str) else v for k, v in fields.items()}
    if isinstance(messages := found.get("messages"), list):
        found["messages"] = [_rewrite_message(m, change) if isinstance(m, dict) else m for m in messages]
    return found


def _rewrite_message(message: Mapping[str, Any], change: Change) -> dict[str, Any]:
    is_answer = message.get("role") in ASSISTANT
    found = dict(message)
    for name in ("content", "reasoning", "reasoning_content"):
        found |= {name: _rewrite_content(found[name], is_answer, change)} if name in found else {}
    if isinstance(calls := found.get("tool_calls"), list):
        found["tool_calls"] = [_rewrite_call(call, change) if isinstance(call, dict) else call for call in calls]
    return found


def _rewrite_content(content: object, is_answer: bool, change: Change) -> object:
    """Changes a text, or the texts among parts; a tool's result may be any value."""
    if isinstance(content, str):
        return change(is_answer, content)
    if isinstance(content, list):
        return [
            part | {"text": change(is_answer, part["text"])}
            if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
            else part
            for part in content
        ]
    return _rewrite_values(content, is_answer, change)


def _rewrite_call(call: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """Changes the values of a call's arguments, which may be written as JSON text; names stay."""
    found = dict(call)
    if isinstance(found.get("function"), dict):
        found["function"] = _rewrite_call(found["function"], change)
    arguments = found.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return found
    if arguments is not None:
        found["arguments"] = _rewrite_values(arguments, True, change)
    return found


def _left_alone(fields: Mapping[str, Any]) -> Iterator[object]:
    """Yields what `_rewrite` does not change in a line's calls and results of tools: names, and parts of values."""
    messages = _rewrite(fields, lambda _, text: text).get("messages")  # arguments are no JSON text any more
    for message in messages if isinstance(messages, list) else ():
        if not isinstance(message, dict):
            continue
        if isinstance(content := message.get("content"), dict):
            yield from _left_of_values(content)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            function = call.get("function", call) if isinstance(call, dict) else None
            if isinstance(function, dict):
                yield function.get("name")
                yield from _left_of_values(function.get("arguments"))


def _left_of_values(value: object) -> Iterator[object]:
    """Yields what `_rewrite_values` does not change."""
    if isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _left_of_values(item)
    elif isinstance(value, list):
        for item in value:
            yield from _left_of_values(item)
    elif isinstance(value, bool) or not isinstance(value, str | int):
        yield value


def _rewrite_values(value: object, is_answer: bool, change: Change) -> object:
    """Changes the texts and whole numbers of a JSON value, all but its keys."""
    if isinstance(value, str):
        return change(is_answer, value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(change(is_answer, str(value)))
    if isinstance(value, list):
        return [_rewrite_values(item, is_answer, change) for item in value]
    if isinstance(value, dict):
        return {key: _rewrite_values(item, is_answer, change) for key, item in value.items()}
    return value
