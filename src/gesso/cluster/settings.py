"""Holds what an application on a Ray cluster is started with."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gesso.errors import OptionError

_ADAPTER = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Configures one application: its models, how many replicas there are, and what each may take.

    Keys that clients and servers know each other by are not among them, as what an application is started with is
    shown by Ray: they are read from `GESSO_API_KEY` where the ingress runs.

    Raises:
        OptionError: a value that is impossible.
    """

    models: Mapping[str, str] = field(default_factory=lambda: {"mini": "mini"})
    """Models by the name that requests ask for: what `gesso serve --model` takes."""
    adapters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Folders of adapters by name, for each name of `models`; asked for as `MODEL:NAME`."""
    models_per_replica: int | None = None
    """Models that one replica holds; the one asked for longest ago goes. All of them without it."""
    device: str = "auto"
    dtype: str = "auto"
    offline: bool = True
    """Whether models are read from this machine alone."""
    min_replicas: int = 1
    max_replicas: int = 1
    target_requests: float = 4.0
    """Requests under way or waiting, for each replica, at which Ray wants no more and no fewer replicas."""
    upscale_seconds: float = 10.0
    """Seconds for which there have to be more requests before a replica is started."""
    downscale_seconds: float = 120.0
    """Seconds for which there have to be fewer requests before a replica is drained."""
    max_num_seqs: int = 8
    """Requests that one replica runs at once."""
    max_waiting: int = 256
    """Requests that wait for a replica; one more gets 429."""
    drain_seconds: float = 120.0
    """Seconds for which a replica that is to go may finish what it runs."""
    num_cpus: float = 1.0
    num_gpus: float = 0.0
    """GPUs of one replica, as Ray counts them."""
    ingress_replicas: int = 1
    slack: int = 4
    """Requests by which a replica that knows a prompt's beginning may be ahead of the least busy one."""
    retries: int = 8
    retry_seconds: float = 300.0
    """Seconds as `gesso router` counts them."""
    rate_limit: float | None = None
    """Requests a minute of one key, or of one address where there are no keys."""

    def __post_init__(self) -> None:
        _check_models(self.models, self.adapters)
        for name in ("min_replicas", "max_num_seqs", "max_waiting", "ingress_replicas"):
            _at_least(name, getattr(self, name), 1)
        for name in ("retries", "slack"):
            _at_least(name, getattr(self, name), 0)
        for name in ("upscale_seconds", "downscale_seconds", "drain_seconds", "num_cpus", "num_gpus", "retry_seconds"):
            _finite(name, getattr(self, name))
        if self.max_replicas < self.min_replicas:
            raise OptionError(
                f"max_replicas must be at least min_replicas, got {self.max_replicas} and {self.min_replicas}",
                option="max_replicas",
            )
        if not 0 < self.target_requests < float("inf"):
            raise OptionError(f"target_requests must be above 0, got {self.target_requests}", option="target_requests")
        if self.models_per_replica is not None:
            _at_least("models_per_replica", self.models_per_replica, 1)
        if self.rate_limit is not None and not 0 < self.rate_limit < float("inf"):
            raise OptionError(f"rate_limit must be above 0, got {self.rate_limit}", option="rate_limit")

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> "ClusterSettings":
        """Reads settings as a configuration file has them.

        Raises:
            OptionError: one is unknown, of another type, or impossible.
        """
        known = {each.name: _named(each.type) for each in dataclasses.fields(cls)}
        for name, value in given.items():
            if name not in known:
                raise OptionError(f"{name} is no setting of the application; known: {', '.join(known)}", option=name)
            if not _fits(value, known[name]):
                raise OptionError(f"{name} must be {known[name]}, got {value!r}", option=name)
        return cls(**given)

    def model_of(self, asked: object) -> str:
        """Returns the model that a request names, with or without an adapter; the first one where there is none such.

        Names may have colons: of several that fit, the longest is meant.

        The server tells a client who names an unknown one.
        """
        first = next(iter(self.models))
        if not isinstance(asked, str) or asked in self.models:
            return asked if isinstance(asked, str) else first
        return max((name for name in self.models if asked.startswith(f"{name}:")), key=len, default=first)

    @property
    def served_names(self) -> tuple[str, ...]:
        """Lists all that requests may name: models, and models with adapters."""
        return tuple(
            full
            for name in self.models
            for full in (name, *(f"{name}:{adapter}" for adapter in self.adapters.get(name, ())))
        )


def _check_models(models: Mapping[str, str], adapters: Mapping[str, Mapping[str, str]]) -> None:
    if not models or not all(name and isinstance(path, str) and path for name, path in models.items()):
        raise OptionError("models must name one or more models, NAME: MODEL", option="models")
    for name, folders in adapters.items():
        if name not in models:
            raise OptionError(f"adapters: there is no model {name!r}; known: {', '.join(models)}", option="adapters")
        if not isinstance(folders, Mapping):
            raise OptionError(f"adapters of {name} must be folders by name, got {folders!r}", option="adapters")
        for adapter in folders:
            if not _ADAPTER.fullmatch(adapter):
                raise OptionError(f"{adapter!r} is no name of an adapter", option="adapters")


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise OptionError(f"{name} must be at least {least}, got {value}", option=name)


def _finite(name: str, value: float) -> None:
    if not 0 <= value < float("inf"):
        raise OptionError(f"{name} must be at least 0, got {value}", option=name)


def _named(kind: Any) -> str:
    return kind.__name__ if type(kind) is type else str(kind).replace("collections.abc.", "")


def _fits(value: object, kind: str) -> bool:
    """Says whether a value is of a field's type, as that is written above."""
    if value is None:
        return "None" in kind
    if isinstance(value, bool):
        return kind == "bool"
    if "float" in kind:
        return isinstance(value, int | float)
    if "int" in kind:
        return isinstance(value, int)
    return isinstance(value, Mapping if kind.startswith("Mapping") else str)
