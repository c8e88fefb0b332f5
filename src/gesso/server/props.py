"""Serves `GET /version` and `/props`: what the server is, as vLLM and llama.cpp tell it."""

from typing import Any

from fastapi import APIRouter

from gesso import __version__
from gesso.server.context import Context


def props_routes(context: Context) -> APIRouter:
    """Makes the routes that describe the server."""
    router = APIRouter(tags=["models"])

    @router.get("/version")
    async def version() -> dict[str, str]:
        """Tells the server's version."""
        return {"version": __version__}

    @router.get("/props")
    async def props() -> dict[str, Any]:
        """Tells the model, its limits, its chat template, and what a request is generated with that says nothing."""
        engine = context.service.engine
        defaults = engine.defaults
        return {
            "default_generation_settings": {
                "n_ctx": context.max_model_len,
                "params": {
                    "n_predict": defaults.max_new_tokens,
                    "temperature": defaults.temperature,
                    "top_k": defaults.top_k or 0,
                    "top_p": defaults.top_p,
                    "min_p": defaults.min_p,
                    "repeat_last_n": -1 if defaults.penalty_window is None else defaults.penalty_window,
                    "repeat_penalty": defaults.repetition_penalty,
                    "presence_penalty": defaults.presence_penalty,
                    "frequency_penalty": defaults.frequency_penalty,
                },
            },
            "total_slots": context.service.limits.max_num_seqs,
            "model_alias": context.settings.served_model_name,
            "model_path": engine.name,
            "chat_template": "" if engine.template is None else engine.template.source,
            "modalities": {"vision": engine.runner.vision is not None, "audio": False},
            "max_images": context.settings.max_images,
            "max_body_bytes": context.settings.max_body_bytes,
            "build_info": f"gesso {__version__}",
            "is_sleeping": False,
        }

    return router
