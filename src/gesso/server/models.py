"""Serves `GET /v1/models`: the model, and one more for each adapter."""

from datetime import UTC, datetime

from fastapi import APIRouter, HTTPException

from gesso.server.answers import ModelCard, ModelList
from gesso.server.context import Context


def model_routes(context: Context) -> APIRouter:
    """Makes the routes of models over this engine."""
    router = APIRouter(tags=["models"])
    name = context.settings.served_model_name

    def card(model: str) -> ModelCard:
        return ModelCard(
            id=model,
            object="model",
            created=context.created,
            owned_by="gesso",
            type="model",
            display_name=model,
            created_at=datetime.fromtimestamp(context.created, UTC),
            lifecycle="active",
            max_model_len=context.max_model_len,
            max_input_tokens=context.max_model_len,
            root=name,
            parent=None if model == name else name,
            special_token_ids=sorted(context.service.engine.tokenizer.special_ids),
            examples=[skill.example for skill in context.card(model).skills if skill.whole],
            limits=context.card(model).limits,
        )

    @router.get("/v1/models")
    async def models() -> ModelList:
        """Lists the models that a request may name."""
        data = [card(model) for model in context.models]
        return ModelList(object="list", data=data, has_more=False, first_id=data[0].id, last_id=data[-1].id)

    @router.get("/v1/models/{model:path}")
    async def model(model: str) -> ModelCard:
        """Describes one model."""
        if not model:
            raise HTTPException(404)
        context.adapter(model)
        return card(model)

    return router
