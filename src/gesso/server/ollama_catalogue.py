"""Serves `/api/tags`, `/api/ps`, `/api/show` and `/api/version`: what there is, as Ollama's clients ask before they
chat."""

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from gesso import __version__
from gesso.server.body import UntypedJsonRoute
from gesso.server.context import Context
from gesso.server.ollama_models import OllamaShowRequest
from gesso.text.output import CHANNEL
from gesso.text.tool_calls import CALL

TAG = ":latest"
"""What Ollama's clients put behind a name that has no other tag."""
NEVER = "9999-12-31T23:59:59Z"
"""When the model is unloaded."""


def catalogue_routes(context: Context) -> APIRouter:
    """Makes the routes that tell of the models of this engine."""
    router = APIRouter(tags=["models"])
    asking = APIRouter(route_class=UntypedJsonRoute, tags=["models"])

    @router.get("/api/tags", response_model=None)
    async def tags() -> Response:
        """Lists the models that a request may name."""
        return JSONResponse({"models": [_card(context, name) for name in context.models]})

    @router.get("/api/ps", response_model=None)
    async def running() -> Response:
        """Lists the models that are loaded: the same."""
        loaded = {"expires_at": NEVER, "size_vram": 0, "context_length": context.max_model_len}
        return JSONResponse({"models": [{**_card(context, name), **loaded} for name in context.models]})

    @asking.post("/api/show", response_model=None)
    async def show(body: OllamaShowRequest) -> Response:
        """Describes one model: its family, its context, its chat template and what it can do."""
        name = plain_name(context, body.wanted)
        template, card = context.service.engine.template, _card(context, name)
        family = card["details"]["family"]
        return JSONResponse(
            {
                "modelfile": "",
                "parameters": "",
                "template": "" if template is None else template.source,
                "details": card["details"],
                "model_info": {"general.architecture": family, f"{family}.context_length": context.max_model_len},
                "capabilities": _capabilities(context, name),
                "modified_at": card["modified_at"],
            }
        )

    @router.get("/api/version", response_model=None)
    async def version() -> Response:
        """Tells the server's version."""
        return JSONResponse({"version": __version__})

    # Not the other way round: batches may ask the routes of the router itself.
    asking.include_router(router)
    return asking


def plain_name(context: Context, name: str) -> str:
    """Returns the id of a model that is named with or without a tag.

    Raises:
        ApiError: there is no such model.
    """
    plain = name.removesuffix(TAG) if name not in context.models else name
    context.adapter(plain)
    return plain


def _capabilities(context: Context, name: str) -> list[str]:
    """What a model can do, in Ollama's words; what nobody measured is what its chat format has a place for."""
    engine, card = context.service.engine, context.card(name)
    special, source = engine.tokenizer.special, "" if engine.template is None else engine.template.source
    has = {
        "completion": True,
        "insert": True,
        "tools": CALL in special and "tools" in source and (card.tool_calls or not card.skills),
        "thinking": CHANNEL in special and "enable_thinking" in source and card.thinks,
        "vision": engine.runner.vision is not None,
    }
    return [capability for capability, there in has.items() if there]


def _card(context: Context, name: str) -> dict[str, Any]:
    model = name if ":" in name.rpartition("/")[2] else name + TAG
    family = context.service.engine.config.family
    return {
        "name": model,
        "model": model,
        "modified_at": datetime.fromtimestamp(context.created, UTC).isoformat(),
        "size": 0,
        "digest": "",
        "details": {
            "parent_model": "",
            "format": "safetensors",
            "family": family,
            "families": [family],
            "parameter_size": "",
            "quantization_level": "",
        },
    }
