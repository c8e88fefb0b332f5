"""Holds what an application on a Ray cluster is started with."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gesso.errors import OptionError
from gesso.load_options import ADAPTER_NAME
from gesso.options import checked, option, unknown_option


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
    models_per_replica: int | None = option(
        None, "Models that one replica holds; the one asked for longest ago goes.", unset="all of them", minimum=1
    )
    device: str = option("auto", "Device of a replica, as `gesso serve` takes it.")
    dtype: str = option("auto", "Number format of weights, likewise.")
    offline: bool = option(True, "Whether models are read from this machine alone.")
    min_replicas: int = option(1, "Replicas that there are at least.", minimum=1)
    max_replicas: int = option(1, "Replicas that there are at most; at least as many as `min_replicas`.")
    target_requests: float = option(
        4.0,
        "Requests under way or waiting, for each replica, at which Ray wants no more and no fewer replicas.",
        above=0,
    )
    upscale_seconds: float = option(
        10.0, "How long there have to be more requests before a replica is started.", minimum=0, unit="s"
    )
    downscale_seconds: float = option(
        120.0, "How long there have to be fewer requests before a replica is drained.", minimum=0, unit="s"
    )
    max_num_seqs: int = option(8, "Requests that one replica runs at once.", minimum=1)
    max_waiting: int = option(256, "Requests that wait for a replica; one more gets 429.", minimum=1)
    drain_seconds: float = option(
        120.0, "How long a replica that is to go may finish what it runs.", minimum=0, unit="s"
    )
    num_cpus: float = option(1.0, "CPUs of one replica, as Ray counts them.", minimum=0)
    num_gpus: float = option(0.0, "GPUs of one replica, as Ray counts them.", minimum=0)
    ingress_replicas: int = option(1, "Processes that requests come to first.", minimum=1)
    slack: int = option(
        4, "Requests by which a replica that knows a prompt's beginning may be ahead of the least busy one.", minimum=0
    )
    retries: int = option(8, "Times that a request is sent again, as `gesso router` counts them.", minimum=0)
    retry_seconds: float = option(300.0, "How long it is, likewise.", minimum=0, unit="s")
    rate_limit: float | None = option(
        None, "Requests a minute of one key, or of one address where there are no keys.", above=0
    )

    def __post_init__(self) -> None:
        checked(self)
        _check_models(self.models, self.adapters)
        if self.max_replicas < self.min_replicas:
            raise OptionError(
                f"max_replicas must be at least min_replicas, got {self.max_replicas} and {self.min_replicas}",
                option="max_replicas",
            )

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> "ClusterSettings":
        """Reads settings as a configuration file has them.

        Raises:
            OptionError: one is unknown, of another type, or impossible.
        """
        known = [each.name for each in dataclasses.fields(cls)]
        for name in given:
            if name not in known:
                raise unknown_option(name, known)
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
    for field_name, value in (("models", models), ("adapters", adapters)):
        if not isinstance(value, Mapping):
            raise OptionError(f"{field_name} must be a mapping by name, got {value!r}", option=field_name)
    if not models or not all(name and isinstance(path, str) and path for name, path in models.items()):
        raise OptionError("models must name one or more models, NAME: MODEL", option="models")
    for name, folders in adapters.items():
        if name not in models:
            raise OptionError(f"adapters: there is no model {name!r}; known: {', '.join(models)}", option="adapters")
        if not isinstance(folders, Mapping):
            raise OptionError(f"adapters of {name} must be folders by name, got {folders!r}", option="adapters")
        for adapter in folders:
            if not ADAPTER_NAME.fullmatch(adapter):
                raise OptionError(f"{adapter!r} is no name of an adapter", option="adapters")
