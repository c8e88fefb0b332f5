"""Counts the tokens of a prompt, and serves `POST /v1/messages/count_tokens`, as Anthropic's clients read it."""

from collections.abc import Sequence

from anyio import to_thread
from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request as HttpRequest

from gesso.engine.media import media_options
from gesso.errors import TextError
from gesso.server.anthropic_models import CountTokensRequest, MessagesRequest
from gesso.server.anthropic_request import chat_request, image_places
from gesso.server.body import JsonRoute, checked
from gesso.server.chat_models import ChatRequest
from gesso.server.context import Context
from gesso.server.errors import ApiError
from gesso.server.field_names import MESSAGES
from gesso.server.messages import chat_options, template_messages


class InputTokens(BaseModel):
    """Tells what `usage` of an answer would count before it, kept prefixes included."""

    input_tokens: int


async def count_prompt(context: Context, body: ChatRequest, http: HttpRequest, places: Sequence[str]) -> int:
    """Counts the tokens of a chat completion's prompt.

    Args:
        places: where each image stands in the body that the client sent, in order.

    Raises:
        ApiError, UserError: see `submit_chat`.
    """
    engine = context.service.engine
    options = chat_options(body, engine)
    messages = await to_thread.run_sync(template_messages, body.turns)
    read = await context.read_media(messages, http, media_options(options), places)

    def count() -> int:
        thinking, tools = bool(options.get("thinking")), options.get("tools", ())
        prompt = engine.prompts.read(read, thinking=thinking, tools=tools, max_tokens=context.max_model_len)
        begun = engine.prompts.encode_typed(body.begun, "messages", None) if body.begun else []
        return len(prompt.ids) + len(begun)

    try:
        return await to_thread.run_sync(count)
    except TextError as error:
        raise ApiError(400, str(error), param="messages", code=error.code) from None


def count_routes(context: Context) -> APIRouter:
    """Makes the route that counts the tokens of a conversation over this engine."""
    router = APIRouter(route_class=JsonRoute, tags=["tokens"])

    @router.post("/v1/messages/count_tokens")
    async def count_tokens(body: CountTokensRequest, http: HttpRequest) -> InputTokens:
        """Counts the tokens of a conversation as the model reads it: system text, tools and all."""
        context.adapter(body.model)
        fields = body.model_dump(by_alias=True, exclude_unset=True)
        with MESSAGES.told():
            request = chat_request(checked(MessagesRequest, {**fields, "max_tokens": context.max_model_len}))
        return InputTokens(input_tokens=await count_prompt(context, request, http, image_places(body)))

    return router
