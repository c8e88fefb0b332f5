"""Tells errors of a request in the fields of the interface that it came by, where a chat completion was made of it."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gesso.errors import UserError
from gesso.server.errors import ApiError, from_gesso


class FieldNames:
    """Renames fields in errors.

    In a message that is the name which it begins with, and names that are no word of their own (`max_tokens`) wherever
    they stand by themselves: what else it says may be the client's.

    Args:
        path: of the interface.
        names: fields of the interface by those of a chat completion.
    """

    def __init__(self, path: str, names: Mapping[str, str]) -> None:
        self._path = path
        self._names = names
        first, elsewhere = "|".join(map(re.escape, names)), "|".join(re.escape(name) for name in names if "_" in name)
        self._found = re.compile(rf"^(?:{first})(?![\w.\[])|(?<=[ ,])(?:{elsewhere})(?=[ ,:;]|$)")

    @contextmanager
    def told(self) -> Iterator[None]:
        """Raises what is raised inside for a bad request anew, with the interface's fields.

        Raises:
            ApiError: for it and for every `UserError`.
        """
        try:
            yield
        except ApiError as error:
            raise self.renamed(error) from None
        except UserError as error:
            raise self.renamed(from_gesso(error, self._path)) from None

    def renamed(self, error: ApiError) -> ApiError:
        """Returns the same error with the interface's fields."""
        param = error.param
        if param is not None:  # a message's place is that of a conversation which was made of more than one field
            param = self._names.get("messages", param) if param.startswith("messages[") else self._rename(param)
        return ApiError(
            error.status_code, self._rename(error.detail), param=param, code=error.code, headers=error.headers
        )

    def _rename(self, text: str) -> str:
        return self._found.sub(lambda found: self._names[found[0]], text)


RESPONSES = FieldNames(
    "/v1/responses",
    {
        "max_tokens": "max_output_tokens",
        "response_format": "text.format",
        "reasoning_effort": "reasoning.effort",
        "thinking_budget": "reasoning.effort",
        "tool_choice.function.name": "tool_choice.name",
        "tool_choice.allowed_tools": "tool_choice.tools",
        "messages": "input",
    },
)
MESSAGES = FieldNames(
    "/v1/messages",
    {
        "response_format": "output_format",
        "stop": "stop_sequences",
        "tool_choice.function.name": "tool_choice.name",
        "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
        "thinking_budget": "thinking",
        "reasoning_effort": "output_config.effort",
    },
)
