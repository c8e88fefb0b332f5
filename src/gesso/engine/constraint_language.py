"""Says what language a request holds its answer to: by its constraint, or by its tools."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gesso.constraints.compile import Language, key_of
from gesso.constraints.constraint import Constraint
from gesso.constraints.expression import Expression, choices, union
from gesso.constraints.grammar import parse_grammar
from gesso.constraints.json_schema import schema_expression
from gesso.constraints.json_text import json_object
from gesso.constraints.regex import parse
from gesso.constraints.tool_calls import tool_calls
from gesso.errors import OptionError
from gesso.generation import GenerationConfig, RequestOptions
from gesso.text.tool_calls import NAME


@dataclass(frozen=True, slots=True)
class RequestLanguage:
    """Holds the language that a request holds its answer to, still to be read."""

    option: str
    """The option that asks for it: the constraint's, or `tool_choice`."""
    language: Language
    calls: bool
    """Whether there are tool calls in it."""


def request_language(config: GenerationConfig, asked: RequestOptions) -> RequestLanguage | None:
    """Returns the language of a request's constraint, of its tools, or of either; None where it may say anything.

    Raises:
        OptionError: a constraint beside a call that is asked for, or see `_tool_language`.
    """
    name = config.constraint
    text = None if name is None else _constraint_language(config, asked.strict_schema)
    may_call = bool(asked.tools) and asked.tool_choice != "none"
    calls = _tool_language(asked.tools, asked.tool_choice, asked.parallel_tool_calls, text if may_call else None)
    if name is not None and may_call and asked.tool_choice != "auto":
        raise OptionError(f"tools and {name} contradict: a call that is asked for is the whole answer", option="tools")
    language = calls or text
    return None if language is None else RequestLanguage(name or "tool_choice", language, calls is not None)


def _constraint_language(config: GenerationConfig, strict: bool) -> Language:
    """Returns the language of a request's constraint; the request must have one.

    Args:
        strict: refuses what is not known of a schema, which is ignored else.
    """
    if (schema := config.json_schema) is not None:
        return _language("json_schema", (schema, strict), lambda: schema_expression(schema, strict=strict))
    if (pattern := config.regex) is not None:
        return _language("regex", pattern, lambda: (parse(pattern), ()))
    if (texts := config.choices) is not None:
        return _language("choices", texts, lambda: (choices(texts), ()))
    if (grammar := config.grammar) is not None:
        return _language("grammar", grammar, lambda: (parse_grammar(grammar), ()))
    return _language("json_object", True, lambda: (json_object(), ()))


def _language(kind: str, value: Any, read: Callable[[], tuple[Expression, tuple[str, ...]]]) -> Language:
    return Language((kind, key_of(kind, value)), read)


def with_constraint(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Puts what `gesso.constraint` compiled in the place of the option of its kind.

    Raises:
        OptionError: it is something else, or that option is given as well.
    """
    if not isinstance(options, Mapping):
        raise OptionError(f"options of a request are a mapping of names to values, got {options!r:.60}")
    given = options.get("constraint")
    others = {name: value for name, value in options.items() if name != "constraint"}
    if given is None:
        return others
    if not isinstance(given, Constraint):
        raise OptionError(f"constraint must be made by gesso.constraint, got {given!r:.60}", option="constraint")
    if others.get(given.option) is not None:
        message = f"constraint and {given.option} contradict: an answer has one constraint at most"
        raise OptionError(message, option="constraint")
    return {**others, given.option: given.value}


def _tool_language(
    tools: Sequence[Mapping[str, Any]], choice: str | Mapping[str, Any], parallel: bool, text: Language | None
) -> Language | None:
    """Returns the language of an answer that may or must call `tools`; None where tools put no constraint on it.

    Args:
        tools: functions as OpenAI's API describes them; arguments of those that are `strict` are held to their schema.
        choice: `auto`: text, then calls if any; `required`: calls alone; or the function that is called, as
            `{"type": "function", "function": {"name": ...}}`.
        parallel: whether there may be more than one call.
        text: what an answer is held to that calls nothing; it has no calls behind its text then. None for any text.

    Raises:
        OptionError: an impossible choice, a tool that is no function, or two of one name. A schema that is not
            supported is found when the language is read.
    """
    twice = [name for name, times in Counter(_function(tool)["name"] for tool in tools).items() if times > 1]
    if twice:
        raise OptionError(f"tools: {twice[0]} is declared twice", option="tools")
    held = text is not None or not parallel or any(_function(tool).get("strict") for tool in tools)
    if choice == "none" or (choice == "auto" and not held):
        return None
    if choice not in ("auto", "required") and not isinstance(choice, Mapping):
        raise OptionError(
            f"tool_choice must be auto, none, required or a function, got {choice!r}", option="tool_choice"
        )
    functions = {_function(tool)["name"]: _function(tool) for tool in tools}
    if not functions:
        name = "parallel_tool_calls" if choice == "auto" else "tool_choice"
        raise OptionError(f"{name} needs tools", option=name)
    if isinstance(choice, Mapping):
        name = _function(choice)["name"]
        if name not in functions:
            raise OptionError(f"tool_choice names {name!r}; there is {', '.join(functions)}", option="tool_choice")
        functions = {name: functions[name]}
    asked = choice != "auto"
    strict = [name for name, function in functions.items() if function.get("strict")]
    schemas = {name: one.get("parameters") for name, one in functions.items() if asked or name in strict}
    # What is called of its own accord and is not strict may have any arguments.
    free = [name for name in functions if name not in schemas]
    calls = (1 if asked or text is not None else 0, None if parallel else 1)

    def read() -> tuple[Expression, tuple[str, ...]]:
        return tool_calls(schemas, calls=calls, text_first=calls[0] == 0, strict=strict, free=free)

    made = _language("tools", (schemas, free, strict, calls), read)
    return made if text is None else _either(text, made)


def _either(text: Language, calls: Language) -> Language:
    def read() -> tuple[Expression, tuple[str, ...]]:
        (written, unknown), (made, unknown_of_calls) = text.read(), calls.read()
        return union([written, made]), (*unknown, *unknown_of_calls)

    return Language(("either", text.key, calls.key), read)


def _function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    function = tool.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise OptionError("tools: a tool needs a function with a name", option="tools")
    if not NAME.fullmatch(function["name"]):
        raise OptionError(
            f"tools: {function['name']!r:.80} is no name of a function: letters, digits, _, . and - are", option="tools"
        )
    if not isinstance(function.get("parameters", {}), Mapping | None):
        got = type(function["parameters"]).__name__
        raise OptionError(
            f"tools: parameters of {function['name']} must be a JSON schema (a mapping), got {got}", option="tools"
        )
    return function
