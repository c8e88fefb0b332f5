"""Exports gesso's public names: block text diffusion with DiffusionGemma, from one package.

    engine = gesso.load("mini")
    print(engine.generate("What is 481 + 296?", seed=7).text)

Everything public is listed in `__all__`; heavy imports happen when a name is first used.
"""

from __future__ import annotations

import importlib

# Not typing's: every command and every program starts here, and typing is slow to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gesso.api import load, load_model
    from gesso.config import ModelConfig
    from gesso.constraints.constraint import constraint
    from gesso.constraints.json_bundle import read_schema
    from gesso.control.at_once import choose, edit, fill, search
    from gesso.control.selection import Lines, Match
    from gesso.engine.async_engine import AsyncEngine, Limits
    from gesso.engine.engine import Engine, Request, Stream
    from gesso.engine.events import BlockCommitted, DenoisingFrame, Event, Failed, Finished
    from gesso.engine.particles import particles
    from gesso.engine.result import GenerationResult
    from gesso.engine.trace import Replay, replay
    from gesso.errors import GessoError, UserError
    from gesso.generation import GenerationConfig
    from gesso.models.diffusion_gemma import DiffusionGemma
    from gesso.models.saving import save_folder as save_model
    from gesso.train.evaluate import evaluate

__version__ = "0.1.0"

_HOMES = {
    "load": "gesso.api",
    "load_model": "gesso.api",
    "GenerationConfig": "gesso.generation",
    "ModelConfig": "gesso.config",
    "constraint": "gesso.constraints.constraint",
    "read_schema": "gesso.constraints.json_bundle",
    "choose": "gesso.control.at_once",
    "edit": "gesso.control.at_once",
    "fill": "gesso.control.at_once",
    "search": "gesso.control.at_once",
    "Lines": "gesso.control.selection",
    "Match": "gesso.control.selection",
    "particles": "gesso.engine.particles",
    "AsyncEngine": "gesso.engine.async_engine",
    "Limits": "gesso.engine.limits",
    "Engine": "gesso.engine.engine",
    "Request": "gesso.engine.engine",
    "Stream": "gesso.engine.engine",
    "BlockCommitted": "gesso.engine.events",
    "DenoisingFrame": "gesso.engine.events",
    "Event": "gesso.engine.events",
    "Failed": "gesso.engine.events",
    "Finished": "gesso.engine.events",
    "GenerationResult": "gesso.engine.result",
    "Replay": "gesso.engine.trace",
    "replay": "gesso.engine.trace",
    "GessoError": "gesso.errors",
    "UserError": "gesso.errors",
    "DiffusionGemma": "gesso.models.diffusion_gemma",
    "save_model": "gesso.models.saving",
    "evaluate": "gesso.train.evaluate",
}

__all__ = [
    "AsyncEngine",
    "BlockCommitted",
    "DenoisingFrame",
    "DiffusionGemma",
    "Engine",
    "Event",
    "Failed",
    "Finished",
    "GenerationConfig",
    "GenerationResult",
    "GessoError",
    "Limits",
    "Lines",
    "Match",
    "ModelConfig",
    "Replay",
    "Request",
    "Stream",
    "UserError",
    "choose",
    "constraint",
    "edit",
    "evaluate",
    "fill",
    "load",
    "load_model",
    "particles",
    "read_schema",
    "replay",
    "save_model",
    "search",
]


if not TYPE_CHECKING:  # to a type checker a module with this function has every name

    def __getattr__(name: str) -> Any:
        if name == "errors":  # which programs name in full, before anything else has imported it
            return importlib.import_module("gesso.errors")
        if name not in _HOMES:
            raise AttributeError(f"module 'gesso' has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOMES[name]), "save_folder" if name == "save_model" else name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
