"""Implements `gesso serve`."""

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gesso.cli import options as opt
from gesso.cli.output import note
from gesso.cli.serve_options import (
    Adapters,
    AllowedHosts,
    ApiKeys,
    BatchFolder,
    BatchWorkers,
    Chunked,
    DiffusionConfig,
    Drain,
    ExitOnFailure,
    Hang,
    HfOverrides,
    Host,
    KvMemory,
    LogPrompts,
    MaxImages,
    MaxModelLen,
    MediaFolder,
    MediaUrl,
    Open,
    Origins,
    Port,
    PrefillChunk,
    Running,
    ServedName,
    Timeout,
    Utilization,
    Waiting,
)
from gesso.generation import STRATEGIES
from gesso.load_options import LoadOptions
from gesso.options import keyword
from gesso.options.sizes import size_in_bytes

if TYPE_CHECKING:
    from gesso.engine.engine import Engine


@opt.takes(but=("adapter",))
def serve(
    load: LoadOptions,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    served_model_name: ServedName = None,
    api_key: ApiKeys = None,
    cors_origin: Origins = None,
    allowed_hosts: AllowedHosts = None,
    drain_seconds: Drain = 10.0,
    log_prompts: LogPrompts = False,
    batch_folder: BatchFolder = None,
    open_browser: Open = False,
    max_num_seqs: Running = 8,
    max_waiting: Waiting = 64,
    max_model_len: MaxModelLen = None,
    kv_memory: KvMemory = None,
    gpu_memory_utilization: Utilization = None,
    prefill_chunk: PrefillChunk = None,
    enable_chunked_prefill: Chunked = None,
    request_timeout: Timeout = None,
    hang_seconds: Hang = 300.0,
    exit_on_failure: ExitOnFailure = False,
    allow_media_url: MediaUrl = None,
    allow_media_folder: MediaFolder = None,
    max_images: MaxImages = 16,
    batch_workers: BatchWorkers = None,
    diffusion_config: DiffusionConfig = None,
    hf_overrides: HfOverrides = None,
    adapter: Adapters = None,
) -> int:
    """Serve a model over OpenAI's HTTP interface, and the studio, a page for people, at `/`."""
    from gesso.cli.failure import needs
    from gesso.errors import OptionError

    if enable_chunked_prefill is False:
        raise OptionError(
            "--no-enable-chunked-prefill is not supported: prompts are always encoded in chunks",
            option="enable_chunked_prefill",
        )
    if kv_memory is not None and gpu_memory_utilization is not None:
        raise OptionError(
            "--kv-memory and --gpu-memory-utilization both bound the caches: give one of them", option="kv_memory"
        )
    if batch_workers is not None and batch_folder is None:
        raise OptionError("--batch-workers needs --batch-folder", option="batch_workers")
    bound = None if kv_memory is None else size_in_bytes(kv_memory, "--kv-memory")
    from gesso.cli.model_notes import note_other_base

    folders = adapter_folders(adapter or [])
    defaults = {**_sampler_overrides(hf_overrides), **_canvas_override(diffusion_config)}
    with needs("server", "the server needs"):
        from gesso.server.batch_store import open_store
        from gesso.server.run import listen
        from gesso.server.run import serve as run
        from gesso.server.settings import MEDIA_BODY_BYTES, Settings
    from gesso.engine.async_engine import AsyncEngine, Limits
    from gesso.models.card import card_of
    from gesso.telemetry.export import tracing
    from gesso.vision import NO_VISION

    settings = Settings(
        served_model_name=served_model_name if served_model_name is not None else load.model,
        api_keys=tuple(api_key or ()),
        cors_origins=tuple(cors_origin or ()),
        allowed_hosts=host_names(allowed_hosts or [], host),
        drain_seconds=drain_seconds,
        exit_on_failure=exit_on_failure,
        log_prompts=log_prompts,
        max_images=max_images,
        media_hosts=tuple(host.lower() for hosts in allow_media_url or () for host in hosts.split(",")),
        media_folder=allow_media_folder,
        batch_folder=batch_folder,
        batch_workers=4 if batch_workers is None else batch_workers,
    )
    limits = Limits(
        max_num_seqs=max_num_seqs,
        max_waiting=max_waiting,
        kv_memory=bound,
        max_model_len=max_model_len,
        prefill_chunk=prefill_chunk,
        request_timeout=request_timeout,
        hang_seconds=hang_seconds,
    )
    with contextlib.ExitStack() as stack:
        traces, listener = stack.enter_context(tracing("gesso")), stack.enter_context(listen(host, port))
        batches = None if batch_folder is None else stack.enter_context(open_store(batch_folder))
        engine = opt.load_engine(load)
        for place in folders.values():
            note_other_base(place, load.model)
        engine.defaults = engine.defaults.override(**defaults)
        longest = engine.config.canvas_length
        if (engine.defaults.canvas_length or 0) > longest:
            raise OptionError(
                f"--diffusion-config: canvas_length must be at most the model's {longest}", option="diffusion_config"
            )
        settings = dataclasses.replace(settings, card=card_of(load.model))
        if gpu_memory_utilization is not None:
            limits = dataclasses.replace(limits, kv_memory=_share_of_gpu(engine, gpu_memory_utilization))
        if engine.runner.vision is not None:
            settings = dataclasses.replace(settings, max_body_bytes=MEDIA_BODY_BYTES)
        elif settings.media_hosts or settings.media_folder is not None:
            name = "allow_media_url" if settings.media_hosts else "allow_media_folder"
            raise OptionError(f"--{name.replace('_', '-')}: {NO_VISION}", option=name)
        service = AsyncEngine(engine, limits, folders)
        if enable_chunked_prefill:
            note("chunked prefill is always on")
        if not settings.api_keys and not _is_loopback(host):
            note(f"anyone who can reach {host} may use this server; --api-key asks for a key")
        return run(
            service,
            settings,
            listener,
            started=lambda url: _announce(url, settings.served_model_name, open_browser=open_browser),
            traces=traces,
            batches=batches,
        )


def _announce(url: str, name: str, *, open_browser: bool) -> None:
    print(f"{name} is served at {url}", flush=True)
    if open_browser:
        import threading

        # A browser of the terminal is only back when it is closed.
        threading.Thread(target=_open, args=(url,), name="gesso-browser", daemon=True).start()


def _open(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        note(f"no browser was found; open {url} in one")


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def host_names(given: list[str], listening: str) -> tuple[str, ...]:
    """Returns the names that `Host` may hold; none where any may.

    Args:
        listening: the address that the server listens at.
    """
    from gesso.server.hosts import ANY, LOOPBACK

    names = [name.strip() for text in given for name in text.split(",")]
    if ANY in names or (not names and not _is_loopback(listening)):
        return ()
    return (*(names or LOOPBACK), listening) if _is_loopback(listening) else tuple(names)


def adapter_folders(given: list[str]) -> dict[str, Path]:
    """Returns folders by name, from `NAME=DIR` each.

    Raises:
        OptionError: another form, or a name twice.
    """
    from gesso.errors import OptionError
    from gesso.load_options import ADAPTER_NAME

    folders: dict[str, Path] = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if not equals or not folder or not ADAPTER_NAME.fullmatch(name):
            raise OptionError(
                f"--adapter takes NAME=DIR, the name of letters, digits, '.', '_' and '-'; got {text!r}",
                option="adapter",
            )
        if name in folders:
            raise OptionError(f"--adapter: {name} is given twice", option="adapter")
        folders[name] = Path(folder)
    return folders


def _json_object(option: str, text: str | None) -> dict[str, Any]:
    import json

    from gesso.errors import OptionError

    try:
        parsed = json.loads(text) if text is not None else {}
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{option} is no JSON: {error}", option=keyword(option)) from None
    if not isinstance(parsed, dict):
        raise OptionError(f"{option} must be a JSON object, got {text!r}", option=keyword(option))
    return parsed


def _canvas_override(text: str | None) -> dict[str, Any]:
    """Defaults of requests out of `--diffusion-config`."""
    from gesso.errors import OptionError

    given = _json_object("--diffusion-config", text)
    for name in given:
        if name != "canvas_length":
            raise OptionError(
                f"--diffusion-config: {name} has no meaning here; known: canvas_length", option="diffusion_config"
            )
    return given


def _sampler_overrides(text: str | None) -> dict[str, Any]:
    """Defaults of requests out of `--hf-overrides`."""
    from gesso.errors import OptionError

    given = _json_object("--hf-overrides", text)
    taken = {f"diffusion_{name}": name for name in ("sampler", "max_denoising_steps", *opt.strategy_options())}
    for role, registry in STRATEGIES.items():
        chosen, names = given.get(f"diffusion_{role}", registry.default), registry.names
        if chosen not in names:
            known = repr(names[0]) if len(names) == 1 else f"one of {', '.join(map(repr, names))}"
            message = f"--hf-overrides: diffusion_{role} must be {known}, got {chosen!r}"
            raise OptionError(message, option="hf_overrides")
    for name in given:
        if name not in taken:
            message = f"--hf-overrides: {name} has no meaning here; known: {', '.join(taken)}"
            raise OptionError(message, option="hf_overrides")
    return {taken[name]: value for name, value in given.items()}


def _share_of_gpu(engine: "Engine", share: float) -> int:
    """Bytes that are left for caches when the server may use this share of the GPU."""
    from gesso.engine.constraint import TABLE_BYTES
    from gesso.errors import OptionError
    from gesso.runner.memory import cache_memory

    device = engine.model.device
    if device.type != "cuda":
        raise OptionError(
            f"--gpu-memory-utilization has no meaning on {device.type}; use --kv-memory",
            option="gpu_memory_utilization",
        )
    if not 0 < share <= 1:
        raise OptionError(
            f"--gpu-memory-utilization must be above 0 and at most 1, got {share}", option="gpu_memory_utilization"
        )
    if engine.model.offload is not None:
        raise OptionError(
            "--gpu-memory-utilization is for a model that fits; here experts stream: use --device-memory",
            option="gpu_memory_utilization",
        )
    return cache_memory(device, TABLE_BYTES, share)
