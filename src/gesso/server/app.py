"""Builds the application: endpoints, and the layers around them."""

from functools import partial
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware import Middleware

from gesso import __version__
from gesso.engine.async_engine import AsyncEngine
from gesso.server.answers import ErrorResponse
from gesso.server.anthropic import anthropic_routes
from gesso.server.batch_life import with_batches
from gesso.server.batch_store import BatchStore
from gesso.server.body import JsonRoute
from gesso.server.chat import chat_routes
from gesso.server.choose import choose_routes
from gesso.server.completions import completion_routes
from gesso.server.context import Context
from gesso.server.count_tokens import count_routes
from gesso.server.docs_page import docs_routes
from gesso.server.edit import edit_routes
from gesso.server.errors import add_error_handlers
from gesso.server.explain import explain_routes
from gesso.server.fill import fill_routes
from gesso.server.fim import fim_routes
from gesso.server.head import HeadAsGet
from gesso.server.health import health_routes
from gesso.server.http_settings import outer_layers
from gesso.server.infill import infill_routes
from gesso.server.metrics import Metrics
from gesso.server.models import model_routes
from gesso.server.ollama import ollama_routes
from gesso.server.ollama_catalogue import catalogue_routes
from gesso.server.option_table import option_routes
from gesso.server.props import props_routes
from gesso.server.responses_api import responses_routes
from gesso.server.settings import Settings
from gesso.server.studio import studio_routes
from gesso.server.tokens import token_routes
from gesso.telemetry.traces import Traces

ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorResponse, "description": "The request cannot be answered as it is."},
    "5XX": {"model": ErrorResponse, "description": "The server could not answer it."},
}


def create_app(
    service: AsyncEngine, settings: Settings, traces: Traces | None = None, batches: BatchStore | None = None
) -> FastAPI:
    """Builds the ASGI application over an engine that is started, which it does not close; no more does it `traces` or
    `batches`, the store of `settings.batch_folder` where somebody has it open already."""
    metrics = Metrics(service)
    context = Context(service, settings, metrics)
    app = FastAPI(
        title="gesso",
        summary="OpenAI's interface to a block-diffusion language model.",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=[*outer_layers(settings, metrics, traces), Middleware(HeadAsGet)],
        responses=ERRORS,
        lifespan=None if settings.batch_folder is None else partial(with_batches, settings, batches),
    )
    app.state.context = context
    add_error_handlers(app)
    routers = [
        routes(context)
        for routes in (
            anthropic_routes,
            catalogue_routes,
            chat_routes,
            completion_routes,
            choose_routes,
            count_routes,
            edit_routes,
            explain_routes,
            fill_routes,
            infill_routes,
            fim_routes,
            model_routes,
            option_routes,
            ollama_routes,
            props_routes,
            responses_routes,
            token_routes,
            health_routes,
        )
    ]
    for router in routers:
        app.include_router(router)
    all_routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    app.state.paths = frozenset(route.path for route in all_routes)
    app.state.endpoints = frozenset(route.path for route in all_routes if isinstance(route, JsonRoute))
    app.include_router(docs_routes(app))
    app.include_router(studio_routes())
    return app
