"""Is what runs in each replica: the server's application over a model, or over several that come and go."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from weakref import WeakSet

from ray import serve

from gesso.api import load
from gesso.cluster.call import Call, Part, answer
from gesso.cluster.route import Route
from gesso.cluster.settings import ClusterSettings
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.models.card import card_of
from gesso.server.app import create_app
from gesso.server.run import log_to_stderr, share_interpreter
from gesso.server.settings import MEDIA_BODY_BYTES, Settings
from gesso.telemetry.export import tracing
from gesso.telemetry.traces import Traces


class Loaded:
    """Holds a model that is loaded, and the server's application over it."""

    def __init__(self, name: str, settings: ClusterSettings, traces: Traces | None = None) -> None:
        self._drain_seconds, self._closed = settings.drain_seconds, True
        adapters = {adapter: Path(folder) for adapter, folder in settings.adapters.get(name, {}).items()}
        engine = load(settings.models[name], settings.device, dtype=settings.dtype, offline=settings.offline)
        # How many wait is Ray's affair: what it sends is taken.
        limits = Limits(max_num_seqs=settings.max_num_seqs, max_waiting=max(64, 8 * settings.max_num_seqs))
        share_interpreter()
        self.service = AsyncEngine(engine, limits, adapters)
        self.service.start()
        self._closed = False
        card = card_of(settings.models[name])
        served = Settings(served_model_name=name, max_body_bytes=MEDIA_BODY_BYTES, card=card)
        self.app = create_app(self.service, served, traces)

    def close(self) -> None:
        """Lets what runs finish; once more it does nothing."""
        if not self._closed:
            self._closed = True
            self.service.close(self._drain_seconds)

    def __del__(self) -> None:
        # Ray calls this, in a thread, when another model takes the place of this one.
        self.close()


class ModelReplica:
    """Answers requests with the models of the settings."""

    def __init__(self, settings: ClusterSettings) -> None:
        log_to_stderr()
        self._open = ExitStack()
        traces = self._open.enter_context(tracing("gesso"))
        names = tuple(settings.models)
        self._only = Loaded(names[0], settings, traces) if len(names) == 1 else None
        # Ray holds those that come and go.
        self._all = WeakSet[Loaded]([self._only] if self._only is not None else [])

        async def loaded(name: str) -> Loaded:
            made = await asyncio.to_thread(Loaded, name, settings, traces)
            self._all.add(made)
            return made

        self._load: Any = serve.multiplexed(max_num_models_per_replica=settings.models_per_replica or len(names))(
            loaded
        )

    async def ask(self, call: Call, route: Route | None = None) -> AsyncIterator[Part]:
        """Answers one request; `route` is for who chooses the replica."""
        del route
        loaded: Loaded = self._only if self._only is not None else await self._load(serve.get_multiplexed_model_id())
        async for part in answer(loaded.app, call):
            yield part

    async def check_health(self) -> None:
        """Tells Ray whether the engines run; a replica of which one does not is started anew.

        It is a coroutine so that no model is loaded while it goes through them.

        Raises:
            RuntimeError: one has failed, or hangs.
        """
        for loaded in self._all:
            if loaded.service.failure is not None:
                raise RuntimeError(f"the engine has failed: {loaded.service.failure}")
            if loaded.service.hung:
                raise RuntimeError("the engine hangs")

    async def __del__(self) -> None:
        # Ray calls this when nothing runs here any more, or the time to drain is over.
        if self._only is not None:
            await asyncio.to_thread(self._only.close)
        await asyncio.to_thread(self._open.close)
