"""Serves `POST /v1/tokenize` and `/v1/detokenize`."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter
from pydantic import Field, model_validator
from starlette.requests import Request as HttpRequest

from gesso.engine.prompt import encode_text
from gesso.errors import TextError
from gesso.server.answers import Text, Tokens
from gesso.server.body import JsonRoute
from gesso.server.chat_models import TemplateOptions
from gesso.server.context import Context
from gesso.server.errors import ApiError
from gesso.server.message_models import MAX_TOOLS, Messages, Tool
from gesso.server.messages import template_messages
from gesso.server.schema import FirstError, Strict, TokenId, contradiction


class TokenizeRequest(Strict):
    """Takes a text as it is, or messages as the chat template writes them."""

    model: str | None = None
    prompt: str | None = None
    messages: Messages | None = None
    tools: Annotated[list[Tool], FirstError, Field(max_length=MAX_TOOLS)] | None = None
    chat_template_kwargs: TemplateOptions | None = None

    @model_validator(mode="after")
    def _check_one(self) -> "TokenizeRequest":
        if (self.prompt is None) == (self.messages is None):
            raise contradiction("prompt", "give either prompt or messages")
        if self.messages is None and (self.tools is not None or self.chat_template_kwargs is not None):
            raise contradiction("prompt", "tools and chat_template_kwargs need messages")
        if self.chat_template_kwargs is not None and self.chat_template_kwargs.thinking_budget is not None:
            raise contradiction("chat_template_kwargs.thinking_budget", "has no part in a prompt")
        return self


class DetokenizeRequest(Strict):
    model: str | None = None
    tokens: Annotated[list[TokenId], FirstError]


def token_routes(context: Context) -> APIRouter:
    """Makes the routes of tokens over this engine."""
    router = APIRouter(route_class=JsonRoute, tags=["tokens"])
    engine = context.service.engine

    def read(body: TokenizeRequest, messages: Sequence[Mapping[str, Any]]) -> Tokens:
        tokens = ids(body, messages)
        pieces = [engine.tokenizer.piece(token) for token in tokens]
        return Tokens(tokens=tokens, pieces=pieces, count=len(tokens), max_model_len=context.max_model_len)

    def write(tokens: list[int]) -> Text:
        size = engine.config.vocab_size
        for place, token in enumerate(tokens):
            if token >= size:
                message = f"token id {token} is outside the vocabulary of {size}"
                raise ApiError(400, message, param=f"tokens[{place}]")
        return Text(text=engine.tokenizer.decode(tokens))

    def ids(body: TokenizeRequest, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        if body.messages is None:
            return encode_text(engine.tokenizer, body.prompt or "", "the prompt", context.max_model_len)
        thinking = body.chat_template_kwargs is not None and bool(body.chat_template_kwargs.enable_thinking)
        prompt = engine.prompts.read(
            messages,
            thinking=thinking,
            tools=[tool.model_dump(exclude_none=True) for tool in body.tools or ()],
            max_tokens=context.max_model_len,
        )
        return list(prompt.ids)

    @router.post("/v1/tokenize")
    async def tokenize(body: TokenizeRequest, http: HttpRequest) -> Tokens:
        """Tells the tokens of a text, or of messages in the chat template."""
        if body.model is not None:
            context.adapter(body.model)
        messages = await context.read_media(template_messages(body.messages or ()), http)
        try:
            return await to_thread.run_sync(read, body, messages)
        except TextError as error:
            param = "prompt" if body.messages is None else "messages"
            raise ApiError(400, str(error), param=param, code=error.code) from None

    @router.post("/v1/detokenize")
    async def detokenize(body: DetokenizeRequest) -> Text:
        """Tells the text of tokens, special ones included."""
        if body.model is not None:
            context.adapter(body.model)
        return await to_thread.run_sync(write, body.tokens)

    return router
