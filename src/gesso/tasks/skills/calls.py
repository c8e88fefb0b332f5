"""Asks to call one of the functions that a request declares, with the arguments that its sentence tells."""

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots
from gesso.tasks.to_json import same_json

_QUOTE = '<|"|>'
_ARGUMENT = re.compile(rf"(\w+):(?:{re.escape(_QUOTE)}(.*?){re.escape(_QUOTE)}|(-?\d+))[,}}]")
_STRING, _INTEGER = "string", "integer"

_WEATHER = read_phrasings("calls", "weather")
_TIMER = read_phrasings("calls", "timer")
_MESSAGE = read_phrasings("calls", "message")
_CART = read_phrasings("calls", "cart")
_TRAIN = read_phrasings("calls", "train")
_SEARCH = read_phrasings("calls", "search")
_TOOLS: dict[str, tuple[str, Mapping[str, str], Phrasings]] = {
    "get_weather": ("Tells the weather of a city.", {"city": _STRING}, _WEATHER),
    "set_timer": ("Starts a timer.", {"minutes": _INTEGER}, _TIMER),
    "send_message": ("Sends a message to a person.", {"name": _STRING, "text": _STRING}, _MESSAGE),
    "add_to_cart": ("Puts items into the cart.", {"item": _STRING, "count": _INTEGER}, _CART),
    "find_train": ("Finds a train.", {"origin": _STRING, "destination": _STRING}, _TRAIN),
    "search": ("Searches for a text.", {"query": _STRING}, _SEARCH),
}
_CALL = read_phrasings("calls", "call")


class Calls(Skill):
    """Asks such as `What is the weather in Drasto?` and a declared function -> the call of it, as the chat template
    writes one."""

    name = "calls"
    phrasings: ClassVar = {
        "weather": _WEATHER, "timer": _TIMER, "message": _MESSAGE, "cart": _CART, "train": _TRAIN, "search": _SEARCH,
        "any": _CALL,
    }  # fmt: skip

    def draw(self, slots: Slots) -> Example:
        """Draws one or two functions, known ones or of any name, and a sentence for one of them."""
        rng = slots.rng
        if rng.random() < 0.4:
            return self._any(slots)
        used, other = rng.sample(sorted(_TOOLS), 2)
        description, types, phrasings = _TOOLS[used]
        # The name and the order of arguments are the declaration's to say, not the sentence's.
        name = slots.identifier(2) if rng.random() < 0.3 else used
        keys = rng.sample(sorted(types), len(types))
        values = {key: slots.number(3) if types[key] == _INTEGER else _value(slots, key) for key in keys}
        tools = [_declare(name, description, {key: types[key] for key in keys})]
        if rng.random() < 0.4:
            tools.append(_declare(other, _TOOLS[other][0], _TOOLS[other][1]))
            rng.shuffle(tools)
        prompt = slots.question(phrasings, **values)
        return Example(self.name, prompt, _call(name, values), kind=slots.kind(used), tools=tuple(tools))

    def _any(self, slots: Slots) -> Example:
        rng = slots.rng
        name, *keys = slots.identifiers(rng.randint(2, 3), None)
        values: dict[str, str | int] = {key: slots.number(4) if rng.random() < 0.4 else slots.word() for key in keys}
        types = {key: _INTEGER if isinstance(value, int) else _STRING for key, value in values.items()}
        join = rng.choice((" {} ", " = {}", " set to {}", ": {}", "={}")).strip("\n")
        told = " and ".join(f"{key}{join.format(value).rstrip()}" for key, value in values.items())
        prompt = slots.question(_CALL, tool=name, arguments=told)
        tools = (_declare(name, "", types),)
        return Example(self.name, prompt, _call(name, values), kind=slots.kind("any"), tools=tools)

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the call as the reference writes it, or its name and arguments as JSON."""
        return text.strip() == example.answer or same_json(json.dumps(read_call(example.answer)), text)


def read_call(written: str) -> dict[str, Any]:
    """Returns name and arguments of a call that this task wrote."""
    name, rest = written.removeprefix("<|tool_call>call:").removesuffix("<tool_call|>").split("{", 1)
    arguments = {found[1]: int(found[3]) if found[3] is not None else found[2] for found in _ARGUMENT.finditer(rest)}
    return {"name": name, "arguments": arguments}


def _call(name: str, values: Mapping[str, str | int]) -> str:
    fields = (f"{key}:{value if isinstance(value, int) else _QUOTE + value + _QUOTE}" for key, value in values.items())
    return f"<|tool_call>call:{name}{{{','.join(fields)}}}<tool_call|>"


def _declare(name: str, description: str, types: Mapping[str, str]) -> str:
    parameters = {"type": "object", "properties": {key: {"type": kind} for key, kind in types.items()}}
    return json.dumps(
        {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
    )


def _value(slots: Slots, key: str) -> str:
    if key in ("city", "origin", "destination"):
        return slots.city()
    if key == "name":
        return slots.first_name()
    return " ".join(slots.word() for _ in range(slots.rng.randint(1, 3))) if key in ("text", "query") else slots.word()
