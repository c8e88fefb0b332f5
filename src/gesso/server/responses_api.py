"""Serves `POST /v1/responses`, and what is kept of its answers."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from gesso.server.body import JsonRoute
from gesso.server.chat import submit_chat
from gesso.server.context import Context
from gesso.server.errors import ApiError
from gesso.server.field_names import RESPONSES
from gesso.server.responses_input import chat_request, count_images, image_places, input_messages
from gesso.server.responses_models import ResponsesRequest
from gesso.server.responses_output import ResponseStream, answer_messages, finished, output_items, skeleton
from gesso.server.responses_store import ResponseStore, StoredResponse
from gesso.server.stream import EventStream


def responses_routes(context: Context) -> APIRouter:
    """Makes the routes of OpenAI's responses over this engine, with a store of their own."""
    router = APIRouter(tags=["completions"])
    asking = APIRouter(route_class=JsonRoute, tags=["completions"])
    store, tokenizer = ResponseStore(), context.service.engine.tokenizer

    def found(identity: str, param: str | None) -> StoredResponse:
        stored = store.get(identity)
        if stored is None:
            message = f"there is no response {identity!r:.80} here, or no longer: the newest are kept"
            raise ApiError(404, message, param=param, code="response_not_found")
        return stored

    @asking.post("/v1/responses", response_model=None)
    async def respond(body: ResponsesRequest, http: HttpRequest) -> Response:
        """Answers items, whole or as a stream of events; alone or after a response that was stored."""
        before = body.previous_response_id
        earlier = () if before is None else found(before, "previous_response_id").messages
        messages = [*earlier, *input_messages(body.input)]
        # Images of the stored part are looked at again: whatever is wrong with them came from there.
        places = ["previous_response_id"] * count_images(earlier) + image_places(body.input)
        with RESPONSES.told():
            choices = await submit_chat(context, chat_request(body, messages), http, places=places)
        response = skeleton(body)

        def keep(whole: dict[str, Any]) -> None:
            if whole["store"]:
                store.put(whole, [*messages, *answer_messages(whole["output"])])

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
        whole = finished(response, result, output_items(result, tokenizer))
        keep(whole)
        return JSONResponse(whole)

    @router.get("/v1/responses/{identity}", response_model=None)
    async def stored(identity: str) -> Response:
        """Tells a response that was stored, as it was answered."""
        return JSONResponse(found(identity, None).body)

    @router.delete("/v1/responses/{identity}", response_model=None)
    async def delete(identity: str) -> Response:
        """Lets a stored response go."""
        found(identity, None)
        store.delete(identity)
        return JSONResponse({"id": identity, "object": "response", "deleted": True})

    router.include_router(asking)
    return router
