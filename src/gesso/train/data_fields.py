"""Checks the fields of a line of training data, and refuses by name what may not stand in them."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gesso.errors import DataError
from gesso.json_files import RepeatedKeyError, unique_members
from gesso.text.output import CHANNEL, CHANNEL_END
from gesso.train.data_keys import LINE_KEYS, OTHER_FORMATS, note, refuse_preferences, require_known, used_fields

CHANGED = "put it back as it was to go on, or train into another --out"
"""What to do about a file that changed while a run reads it."""
MESSAGE_KEYS = {
    "system": ("content", "name"),
    "developer": ("content", "name"),
    "user": ("content", "name"),
    "assistant": ("content", "name", "tool_calls", "reasoning", "reasoning_content", "weight"),
    "model": ("content", "name", "tool_calls", "reasoning", "reasoning_content", "weight"),
    "tool": ("content", "name", "tool_call_id"),
}
"""What of a message of each role is used besides `role`. A key whose value is null counts as left out."""
ASSISTANT = ("assistant", "model")
SHOWN = ("system", "developer", "user")
"""Roles whose messages may hold images."""
PARTS = {
    "text": ("type", "text"),
    "image": ("type", "path", "image", "url", "budget"),
    "image_url": ("type", "image_url"),
}
"""What a part of each type may hold."""

OPEN_REASONING = f"{CHANNEL}thought\n"
CLOSE_REASONING = f"\n{CHANNEL_END}"
EMPTY_REASONING = f"{OPEN_REASONING}{CHANNEL_END}"
GENERATION_ONLY = ("", EMPTY_REASONING, OPEN_REASONING)
"""Ends of a generation prompt that a template does not write again when the turn has become history."""
LEADING_REASONING = re.compile(
    rf"\s*{re.escape(OPEN_REASONING)}(?P<reasoning>.*?){re.escape(CHANNEL_END)}(?P<rest>.*)", re.DOTALL
)
ANY_CHANNEL = re.compile(rf"{re.escape(CHANNEL)}.*?{re.escape(CHANNEL_END)}", re.DOTALL)


def parse_line(line: bytes, known: Sequence[str]) -> dict[str, Any]:
    """Parses a line as a JSON object of keys that are `known`.

    Raises:
        DataError: it is no JSON object, has an unknown key, or an object in it has a key twice.
    """
    fields = _parse(line)
    require_known(fields, known, hint=OTHER_FORMATS)
    return fields


def parse_example(line: bytes, unused: set[str]) -> dict[str, Any]:
    """Parses a line of training data; returns those of its fields that are used and not null. A pair of messages, as
    TRL writes it, becomes a chat of which only the completion is learned.

    Args:
        unused: gets the names of other keys.

    Raises:
        DataError: it is no JSON object, an object in it has a key twice, or a key may change what is to be learned.
    """
    fields = _parse(line)
    refuse_preferences(fields)
    used = used_fields(fields, LINE_KEYS, unused, hint=OTHER_FORMATS)
    if used.keys().isdisjoint(("prompt", "completion")) and used.pop("source", None) is not None:
        note(unused, "source")  # of chats and texts it says where they are from
    if isinstance(used.get("prompt"), list) and isinstance(used.get("completion"), list) and "messages" not in used:
        used["messages"] = [*map(_as_context, used.pop("prompt")), *used.pop("completion")]
    return used


def _as_context(message: object) -> object:
    """Returns a message that is not learned."""
    return {**message, "weight": 0} if isinstance(message, dict) and message.get("role") in ASSISTANT else message


def _parse(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line.decode("utf-8"), object_pairs_hook=unique_members)
    except RepeatedKeyError as error:
        raise DataError(str(error)) from None
    except UnicodeDecodeError as error:
        raise DataError(f"no UTF-8 (byte {error.start + 1})", hint=OTHER_FORMATS) from None
    except json.JSONDecodeError as error:
        raise DataError(
            f"no JSON ({error.msg}, column {error.colno}); every line holds one JSON object", hint=OTHER_FORMATS
        ) from None
    except RecursionError:
        raise DataError("nested too deeply to be read") from None
    except ValueError:  # the interpreter's own limit of digits
        raise DataError("a number of thousands of digits") from None
    if not isinstance(fields, dict):
        raise DataError(f"must be a JSON object, not {_kind(fields)}", hint=OTHER_FORMATS)
    return fields


def _string(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise DataError(f"{name} must be a string, not {_kind(value)}")
    return value


def text_of(fields: Mapping[str, Any], name: str) -> str:
    """Returns a string field that is not blank.

    Raises:
        DataError: it is no string, or blank.
    """
    value = _string(fields, name)
    if not value.strip():
        raise DataError(f"{name} is empty")
    return value


def read_message(message: object, thinking: str, unused: set[str]) -> dict[str, Any]:
    """Checks one message and returns it in the one form that the chat template gets.

    Args:
        thinking: `strip` drops the reasoning of assistant messages.
        unused: gets the names of keys that are not used.

    Raises:
        DataError: an unknown role, a key that may change what is learned, or content that cannot be trained on.
    """
    if not isinstance(message, dict):
        raise DataError(f"must be an object, not {_kind(message)}")
    role = message.get("role")
    if not isinstance(role, str) or role not in MESSAGE_KEYS:
        raise DataError(f"unknown role {role!r}; known: {', '.join(MESSAGE_KEYS)}")
    read = used_fields(message, ("role", *MESSAGE_KEYS[role]), unused, "messages.")
    if role in ASSISTANT:
        return _assistant(read, thinking)
    if not (role == "tool" and isinstance(read.get("content"), dict)):
        _content(read, images=role in SHOWN)
    for name in ("name", "tool_call_id"):
        if name in read:
            text_of(read, name)
    return read


def _content(message: Mapping[str, Any], *, images: bool = False) -> str:
    """Returns the text of a message's content, which is a string or a list of parts: texts, and `images` in some."""
    if "content" not in message:
        raise DataError("content is missing")
    content = message["content"]
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise DataError(f"content must be a string or a list of parts, not {_kind(content)}")
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str) or kind not in (PARTS if images else ("text",)):
            known = "text and images are" if images else "text is"
            raise DataError(f"content holds a part of type {kind!r}; only {known} supported")
        require_known(part, PARTS[kind])
        if kind == "text" and not isinstance(part.get("text"), str):
            raise DataError("content holds a text part without text")
    return "".join(part["text"] for part in content if part["type"] == "text")


def _assistant(message: dict[str, Any], thinking: str) -> dict[str, Any]:
    """Returns an assistant message with its reasoning, if it is kept, in `reasoning`."""
    calls = message.get("tool_calls", [])
    if not isinstance(calls, list):
        raise DataError(f"tool_calls must be a list, not {_kind(calls)}")
    if message.get("weight", 1) not in (0, 1):
        raise DataError(f"weight must be 0 or 1, got {message['weight']!r}")
    content = _content(message) if "content" in message or not calls else ""
    reasoning = [_string(message, name) for name in ("reasoning", "reasoning_content") if name in message]
    if thinking == "strip":
        content, reasoning = ANY_CHANNEL.sub("", content), []
    elif leading := LEADING_REASONING.fullmatch(content):
        content = leading["rest"]
        reasoning.append(leading["reasoning"])
    if CHANNEL in content or CHANNEL_END in content:
        raise DataError(f"reasoning must be whole, {OPEN_REASONING!r} to {CHANNEL_END!r}, and stand before the content")
    reasoning = [text.strip("\n") for text in reasoning if text.strip()]
    if len(reasoning) > 1:
        raise DataError("its reasoning is given twice: reasoning, reasoning_content and the content exclude each other")
    if not content.strip() and not calls:
        raise DataError("the assistant's content is empty")
    read = {"role": "assistant", "content": content, "weight": message.get("weight", 1)}
    if "name" in message:
        read["name"] = text_of(message, "name")
    if reasoning:
        read["reasoning"] = reasoning[0]
    if calls:
        read["tool_calls"] = [_tool_call(call) for call in calls]
    return read


def read_tools(tools: object) -> list[dict[str, Any]]:
    """Checks the tools of a chat, which may be given as JSON text: a table's cell holds no lists of unlike objects.

    Raises:
        DataError: they are no list of functions with names.
    """
    if isinstance(tools, str):
        try:
            tools = json.loads(tools or "[]", object_pairs_hook=unique_members)
        except RepeatedKeyError as error:
            raise DataError(f"tools: {error}") from None
        except (ValueError, RecursionError):
            raise DataError("tools must be a list of objects, and this text is no JSON") from None
    if not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
        raise DataError("tools must be a list of objects")
    for i, tool in enumerate(tools):
        function = tool.get("function", tool)
        if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"]:
            raise DataError(f"tool {i + 1}: a tool needs a function with a name")
    return tools


def _tool_call(call: object) -> dict[str, Any]:
    """Returns a tool call as OpenAI writes it, but with its arguments as a mapping; they may be given as JSON text."""
    if not isinstance(call, dict):
        raise DataError(f"a tool call must be an object, not {_kind(call)}")
    outer = {name: value for name, value in call.items() if value is not None}
    function = outer.pop("function", None)
    if function is None:
        function = {name: outer.pop(name) for name in ("name", "arguments") if name in outer}
    if not isinstance(function, dict):
        raise DataError(f"a tool call's function must be an object, not {_kind(function)}")
    require_known(outer, ("id", "type", "function"))
    require_known(function, ("name", "arguments"))
    if outer.get("type", "function") != "function":
        raise DataError(f"a tool call of type {outer['type']!r} is not supported; only functions are")
    if not isinstance(function.get("name"), str) or not function["name"]:
        raise DataError("a tool call needs a name")
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments, object_pairs_hook=unique_members)
        except RepeatedKeyError as error:
            raise DataError(f"a tool call's arguments: {error}") from None
        except (ValueError, RecursionError):
            raise DataError("a tool call's arguments are no JSON") from None
    if not isinstance(arguments, dict):
        raise DataError(f"a tool call's arguments must be an object, not {_kind(arguments)}")
    return outer | {"type": "function", "function": {"name": function["name"], "arguments": arguments}}


def _kind(value: object) -> str:
    """Returns JSON's name of a value's type."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
