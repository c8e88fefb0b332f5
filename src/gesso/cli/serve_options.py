"""Declares the options of `gesso serve` that are not in the table of options."""

from pathlib import Path
from typing import Annotated

import typer

_SERVER, _LIMITS, _DEFAULTS, _MODEL = (
    {"rich_help_panel": panel} for panel in ("Server", "Limits", "Defaults of requests", "Model")
)
Host = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Address to listen at; others than loopback let others in.", **_SERVER)
]
Port = Annotated[int, typer.Option(metavar="N", help="0 takes a free one.", **_SERVER)]
ServedName = Annotated[
    str | None, typer.Option(metavar="NAME", help="The model's id for clients; --model without it.", **_SERVER)
]
ApiKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--api-key",
        metavar="KEY",
        envvar="GESSO_API_KEY",
        help="Ask for this key. May be repeated (spaces in the variable).",
        **_SERVER,
    ),
]
Origins = Annotated[
    list[str] | None,
    typer.Option(
        "--cors-origin", metavar="URL", help="Let pages of this origin call, * for all. May be repeated.", **_SERVER
    ),
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-hosts",
        metavar="NAME",
        help="Take requests for this Host, * for any. May be repeated or separated by commas; the loopback's names "
        "where it listens there, any elsewhere.",
        **_SERVER,
    ),
]
Drain = Annotated[float, typer.Option(metavar="X", help="Seconds for running requests after Ctrl-C.", **_SERVER)]
Open = Annotated[bool, typer.Option("--open", help="Open the studio in the browser.", **_SERVER)]
LogPrompts = Annotated[bool, typer.Option("--log-prompts", help="Write prompts into the access log.", **_SERVER)]
BatchFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Answer /v1/files and /v1/batches, and keep what they are given in this folder.",
        **_SERVER,
    ),
]
BatchWorkers = Annotated[
    int | None, typer.Option(metavar="N", help="Lines of batches under way at once; 4 without it.", **_LIMITS)
]
Running = Annotated[int, typer.Option(metavar="N", help="Requests that run at once.", **_LIMITS)]
Waiting = Annotated[int, typer.Option(metavar="N", help="Requests in the queue; one more gets 429.", **_LIMITS)]
MaxModelLen = Annotated[
    int | None, typer.Option(metavar="N", help="Tokens of a prompt and its answer; the model's without it.", **_LIMITS)
]
KvMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory for caches and stored prefixes, such as 4GiB; by the device without it.",
        **_LIMITS,
    ),
]
Utilization = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        help="CUDA: share of the GPU's memory for weights and caches, instead of --kv-memory.",
        **_LIMITS,
    ),
]
PrefillChunk = Annotated[int | None, typer.Option(metavar="N", help="Prompt tokens encoded at a time.", **_LIMITS)]
Chunked = Annotated[
    bool | None,
    typer.Option("--enable-chunked-prefill/--no-enable-chunked-prefill", help="Always on; cannot be off.", **_LIMITS),
]
Timeout = Annotated[
    float | None, typer.Option(metavar="X", help="Seconds a request may take; for ever without it.", **_LIMITS)
]
Hang = Annotated[
    float, typer.Option(metavar="X", help="Seconds in one pass after which /health says the engine hangs.", **_LIMITS)
]
ExitOnFailure = Annotated[
    bool,
    typer.Option(
        "--exit-on-failure",
        help="End with code 1 once the engine has failed or hangs, for what starts the process anew. Without it the "
        "server goes on and says so at /health.",
        **_LIMITS,
    ),
]
MediaUrl = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-media-url",
        metavar="HOST",
        help="Fetch images that requests name from this host, *.HOST for all below it. May be repeated.",
        **_SERVER,
    ),
]
MediaFolder = Annotated[
    Path | None,
    typer.Option(
        "--allow-media-folder", metavar="DIR", help="Read images that requests name from this folder.", **_SERVER
    ),
]
MaxImages = Annotated[int, typer.Option(metavar="N", help="Images and clips of one request.", **_LIMITS)]
DiffusionConfig = Annotated[
    str | None,
    typer.Option(metavar="JSON", help='{"canvas_length": N} for requests that name none.', **_DEFAULTS),
]
HfOverrides = Annotated[
    str | None,
    typer.Option(metavar="JSON", help='Sampler settings, as in {"diffusion_t_min": 0.3}.', **_DEFAULTS),
]
Adapters = Annotated[
    list[str] | None,
    typer.Option(
        "--adapter",
        metavar="NAME=DIR",
        help="A LoRA adapter, asked for as MODEL:NAME. May be repeated.",
        **_MODEL,
    ),
]
