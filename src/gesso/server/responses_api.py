"""Serves `POST /v1/responses`, what is kept of its answers, and `POST /v1/responses/input_tokens`."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Query
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from gesso.server.body import JsonRoute, checked
from gesso.server.chat import submit_chat
from gesso.server.context import Context
from gesso.server.count_tokens import InputTokens, count_prompt
from gesso.server.errors import ApiError
from gesso.server.field_names import RESPONSES
from gesso.server.responses_input import (
    EARLIER,
    chat_request,
    count_images,
    image_places,
    input_messages,
    items_of,
    stored_items,
    told_item,
)
from gesso.server.responses_models import (
    CountInputTokens,
    InputItemsQuery,
    ResponsesPrompt,
    ResponsesRequest,
    StoredResponseQuery,
)
from gesso.server.responses_output import ResponseStream, finished, output_items, skeleton
from gesso.server.responses_store import ResponseStore, StoredResponse
from gesso.server.stream import EventStream


class CountedInput(InputTokens):
    """Tells the same as OpenAI's clients read it."""

    object: Literal["response.input_tokens"]


def responses_routes(context: Context) -> APIRouter:
    """Makes the routes of OpenAI's responses over this engine, with a store of their own."""
    asking = APIRouter(route_class=JsonRoute, tags=["completions"])
    store, tokenizer = ResponseStore(), context.service.engine.tokenizer

    def earlier_items(body: ResponsesPrompt) -> list[dict[str, Any]]:
        """What was said up to the input, without instructions."""
        if body.previous_response_id is None:
            return []
        before = _found(store, body.previous_response_id, EARLIER)
        return [*before.input, *before.body["output"]]

    def conversation(body: ResponsesPrompt, items: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
        """All messages without instructions, and where their images stand in the body."""
        earlier = input_messages(stored_items(items))
        # Images of the stored part are looked at again: whatever is wrong with them came from there.
        places = [EARLIER] * count_images(earlier) + image_places(body.input)
        return [*earlier, *input_messages(items_of(body.input))], places

    @asking.post("/v1/responses", response_model=None)
    async def respond(body: ResponsesRequest, http: HttpRequest) -> Response:
        """Answers items, whole or as a stream of events; alone or after a response that was stored."""
        earlier = earlier_items(body)
        messages, places = conversation(body, earlier)
        with RESPONSES.told():
            choices = await submit_chat(context, chat_request(body, messages), http, places=places)
        response = skeleton(body)

        def keep(whole: dict[str, Any]) -> None:
            if whole["store"]:
                store.put(whole, [*earlier, *map(told_item, items_of(body.input))])

        if body.stream:
            stream = ResponseStream(response, keep, tokenizer)
            return EventStream(
                choices,
                stream.events(choices),
                failure=lambda error: stream.failure(RESPONSES.renamed(error)),
                last=b"",
            )
        with RESPONSES.told():
            (result,) = await choices.wait(http.receive)

        def answer() -> Response:
            whole = finished(response, result, output_items(result, tokenizer))
            keep(whole)
            return JSONResponse(whole)

        return await to_thread.run_sync(answer)

    @asking.post("/v1/responses/input_tokens")
    async def count(body: CountInputTokens, http: HttpRequest) -> CountedInput:
        """Counts the tokens of the prompt that a response would answer."""
        context.adapter(body.model)
        messages, places = conversation(body, earlier_items(body))
        with RESPONSES.told():
            request = checked(ResponsesRequest, body.model_dump(by_alias=True, exclude_unset=True))
            tokens = await count_prompt(context, chat_request(request, messages), http, places)
        return CountedInput(object="response.input_tokens", input_tokens=tokens)

    # Not the other way round: batches may ask the routes of the router itself.
    asking.include_router(_stored_routes(store))
    return asking


def _stored_routes(store: ResponseStore) -> APIRouter:
    router = APIRouter(tags=["completions"])

    @router.get("/v1/responses/{identity}", response_model=None)
    async def stored(identity: str, query: Annotated[StoredResponseQuery, Query()]) -> Response:  # noqa: ARG001 - checked
        """Tells a response that was stored, as it was answered."""
        return JSONResponse(_found(store, identity, None).body)

    @router.get("/v1/responses/{identity}/input_items", response_model=None)
    async def answered(identity: str, query: Annotated[InputItemsQuery, Query()]) -> Response:
        """Lists the items that a stored response answered, those of the responses before it among them."""
        items = list(_found(store, identity, None).input)
        if query.order == "desc":
            items.reverse()
        if query.after is not None:
            places = {item["id"]: place for place, item in enumerate(items)}
            if query.after not in places:
                raise ApiError(400, f"the response answers no item {query.after!r:.80}", param="after")
            items = items[places[query.after] + 1 :]
        page = items[: query.limit]
        first, last = (page[0]["id"], page[-1]["id"]) if page else ("", "")
        more = len(items) > len(page)
        return JSONResponse({"object": "list", "data": page, "first_id": first, "last_id": last, "has_more": more})

    @router.delete("/v1/responses/{identity}", response_model=None)
    async def delete(identity: str) -> Response:
        """Lets a stored response go."""
        _found(store, identity, None)
        store.delete(identity)
        return JSONResponse({"id": identity, "object": "response", "deleted": True})

    return router


def _found(store: ResponseStore, identity: str, param: str | None) -> StoredResponse:
    stored = store.get(identity)
    if stored is None:
        message = f"there is no response {identity!r:.80} here, or no longer: the newest are kept"
        raise ApiError(404, message, param=param, code="response_not_found")
    return stored
