"""Implements `gesso deploy`."""

from typing import Annotated, Any

import typer

from gesso.cli.serve_options import Drain, Host, Port, Running

_CLUSTER, _REPLICAS, _MODELS = ({"rich_help_panel": panel} for panel in ("Cluster", "Replicas", "Models"))
OnRay = Annotated[
    bool, typer.Option("--ray", help="Run on Ray Serve, which is the only way there is; gesso[ray].", **_CLUSTER)
]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--api-key", metavar="KEY", envvar="GESSO_API_KEY", help="Ask for this key. May be repeated.", **_CLUSTER
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", metavar="[NAME=]MODEL", help="A model to serve. May be repeated.", **_MODELS),
]
Adapters = Annotated[
    list[str] | None,
    typer.Option(
        "--adapter",
        metavar="[MODEL:]NAME=DIR",
        help="A LoRA adapter, asked for as MODEL:NAME. May be repeated.",
        **_MODELS,
    ),
]
Held = Annotated[
    int | None, typer.Option(metavar="N", help="Models that one replica holds at once; all without it.", **_MODELS)
]
Device = Annotated[str, typer.Option(metavar="TEXT", help="auto, cpu, cuda or mps.", **_MODELS)]
Offline = Annotated[bool, typer.Option("--offline", help="Never download.", **_MODELS)]
Least = Annotated[int, typer.Option(metavar="N", help="Replicas there are always.", **_REPLICAS)]
Most = Annotated[int | None, typer.Option(metavar="N", help="Replicas there may be; as many without it.", **_REPLICAS)]
Target = Annotated[
    float, typer.Option(metavar="X", help="Requests of a replica that Ray wants it to have.", **_REPLICAS)
]
Cpus = Annotated[float, typer.Option(metavar="X", help="CPUs of a replica, as Ray counts them.", **_REPLICAS)]
Gpus = Annotated[float, typer.Option(metavar="X", help="GPUs of a replica, as Ray counts them.", **_REPLICAS)]
Up = Annotated[float, typer.Option(metavar="X", help="Seconds of more requests before one more.", **_REPLICAS)]
Down = Annotated[float, typer.Option(metavar="X", help="Seconds of fewer requests before one fewer.", **_REPLICAS)]


def deploy(
    ray: OnRay = False,
    model: Models = None,
    adapter: Adapters = None,
    models_per_replica: Held = None,
    device: Device = "auto",
    offline: Offline = False,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    api_key: Keys = None,
    min_replicas: Least = 1,
    max_replicas: Most = None,
    target_requests: Target = 4.0,
    upscale_seconds: Up = 10.0,
    downscale_seconds: Down = 120.0,
    num_cpus: Cpus = 1.0,
    num_gpus: Gpus = 0.0,
    max_num_seqs: Running = 8,
    drain_seconds: Drain = 120.0,
) -> int:
    """Serve models from replicas whose number follows their queues, on a Ray cluster of this machine."""
    import os

    from gesso.cli.failure import needs
    from gesso.errors import OptionError

    if not ray:
        raise OptionError("gesso deploy needs --ray: there is no other cluster", option="ray")
    models = named_models(model or ["mini"])
    args: dict[str, Any] = {
        "models": models,
        "adapters": adapters_of(adapter or [], models),
        "models_per_replica": models_per_replica,
        "device": device,
        "offline": offline,
        "min_replicas": min_replicas,
        "max_replicas": min_replicas if max_replicas is None else max_replicas,
        "target_requests": target_requests,
        "upscale_seconds": upscale_seconds,
        "downscale_seconds": downscale_seconds,
        "num_cpus": num_cpus,
        "num_gpus": num_gpus,
        "max_num_seqs": max_num_seqs,
        "drain_seconds": drain_seconds,
    }
    if api_key:
        os.environ["GESSO_API_KEY"] = " ".join(api_key)  # the cluster's processes inherit it
    with needs("ray", "this needs"):
        from gesso.cluster.local import run_locally

        run_locally(args, host, port, lambda url: print(f"{', '.join(models)} is served at {url}", flush=True))
    return 0


def named_models(given: list[str]) -> dict[str, str]:
    """Returns models by the names that requests ask for.

    Raises:
        OptionError: a name twice.
    """
    from gesso.errors import OptionError

    models: dict[str, str] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if name in models:
            raise OptionError(f"--model: {name} is given twice", option="model")
        models[name] = path if equals else name
    return models


def adapters_of(given: list[str], models: dict[str, str]) -> dict[str, dict[str, str]]:
    """Returns the adapters of each model.

    Raises:
        OptionError: another form, or no telling which model is meant.
    """
    from gesso.errors import OptionError

    found: dict[str, dict[str, str]] = {}
    for text in given:
        full, equals, folder = text.partition("=")
        name, colon, adapter = full.rpartition(":")
        if not equals or not folder or not adapter:
            raise OptionError(f"--adapter takes [MODEL:]NAME=DIR, got {text!r}", option="adapter")
        if not colon and len(models) > 1:
            raise OptionError(f"--adapter {text}: say of which model, as MODEL:NAME=DIR", option="adapter")
        folders = found.setdefault(name if colon else next(iter(models)), {})
        if adapter in folders:
            raise OptionError(f"--adapter: {full} is given twice", option="adapter")
        folders[adapter] = folder
    return found
