"""Implements `gesso router`."""

from typing import Annotated

import typer

from gesso.cli.serve_options import AllowedHosts, ApiKeys, Drain, Host, Origins, Port

_REPLICAS, _ROUTING = {"rich_help_panel": "Replicas"}, {"rich_help_panel": "Routing"}
Replicas = Annotated[
    list[str] | None,
    typer.Option(metavar="URL", help="Addresses of servers, separated by commas. May be repeated.", **_REPLICAS),
]
Spawn = Annotated[
    int | None,
    typer.Option(metavar="N", help="Start so many servers here, with the arguments behind --.", **_REPLICAS),
]
ReplicaKey = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        envvar="GESSO_REPLICA_API_KEY",
        help="The key that the servers ask for; the client's own is passed on without it.",
        **_REPLICAS,
    ),
]
ServeArguments = Annotated[
    list[str] | None, typer.Argument(metavar="[-- ARGUMENTS]", help="Of gesso serve, for --spawn.")
]
RateLimit = Annotated[
    float | None,
    typer.Option(metavar="X", help="Requests a minute of one key, or of one address without keys.", **_ROUTING),
]
Slack = Annotated[
    int,
    typer.Option(
        metavar="N", help="Requests by which the server that knows a prompt's beginning may be ahead.", **_ROUTING
    ),
]
Retries = Annotated[
    int, typer.Option(metavar="N", help="Times a request is sent again without getting further.", **_ROUTING)
]
RetrySeconds = Annotated[
    float,
    typer.Option(metavar="X", help="Seconds it is sent again in any case where servers are lost under it.", **_ROUTING),
]
Wait = Annotated[
    float, typer.Option(metavar="X", help="Seconds a request waits where no server takes any.", **_ROUTING)
]
HealthSeconds = Annotated[float, typer.Option(metavar="X", help="Seconds between two looks at a server.", **_ROUTING)]
Stall = Annotated[
    float,
    typer.Option(metavar="X", help="Seconds after which a server that answers no look is lost.", **_ROUTING),
]


def router(
    serve_arguments: ServeArguments = None,
    replicas: Replicas = None,
    spawn: Spawn = None,
    replica_api_key: ReplicaKey = None,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    api_key: ApiKeys = None,
    cors_origin: Origins = None,
    allowed_hosts: AllowedHosts = None,
    drain_seconds: Drain = 10.0,
    rate_limit: RateLimit = None,
    slack: Slack = 4,
    retries: Retries = 8,
    retry_seconds: RetrySeconds = 300.0,
    wait_seconds: Wait = 60.0,
    health_seconds: HealthSeconds = 2.0,
    stall_seconds: Stall = 15.0,
) -> int:
    """Stand before several servers as one: conversations stay together, and a lost server costs time alone."""
    from gesso.cli.failure import needs
    from gesso.errors import OptionError

    urls = [url.strip().rstrip("/") for text in replicas or () for url in text.split(",")]
    if bool(urls) == (spawn is not None):
        raise OptionError("give one of --replicas URL,URL and --spawn N", option="replicas")
    if spawn is not None and spawn < 1:
        raise OptionError(f"spawn must be at least 1, got {spawn}", option="spawn")
    if serve_arguments and spawn is None:
        raise OptionError("arguments behind -- need --spawn N, which starts servers", option="serve_arguments")
    if spawn is not None and replica_api_key is not None:
        raise OptionError("--spawn makes a key of its own: leave out --replica-api-key", option="replica_api_key")
    with needs("server", "the router needs"):
        from gesso.router.app import Router
        from gesso.router.run import route
        from gesso.router.settings import RouterSettings
        from gesso.router.spawn import Spawner
        from gesso.server.run import listen
    import secrets

    from gesso.cli.serve import host_names
    from gesso.telemetry.export import tracing

    key = secrets.token_urlsafe(24) if spawn is not None else replica_api_key
    settings = RouterSettings(
        replicas=tuple(urls),
        replica_api_key=key,
        api_keys=tuple(api_key or ()),
        allowed_hosts=host_names(allowed_hosts or [], host),
        cors_origins=tuple(cors_origin or ()),
        rate_limit=rate_limit,
        slack=slack,
        retries=retries,
        retry_seconds=retry_seconds,
        wait_seconds=wait_seconds,
        health_seconds=health_seconds,
        stall_seconds=stall_seconds,
        drain_seconds=drain_seconds,
    )
    with tracing("gesso-router") as traces, listen(host, port) as listener:
        spawner = None if spawn is None else Spawner(spawn, serve_arguments or (), key or "")
        count = len(urls) if spawn is None else spawn
        what = f"{count} {'replica' if count == 1 else 'replicas'}" + ("" if spawn is None else ", starting now")
        return route(
            Router(settings, spawner=spawner, traces=traces),
            listener,
            started=lambda url: print(f"routing {what} at {url}", flush=True),
        )
