"""Tells for `gesso doctor` which packages are installed, which optional parts miss some, and what installs these."""

import os
from importlib.util import find_spec
from typing import Any

from gesso.extras import pip_install

PARTS: dict[str, tuple[str, dict[str, str]]] = {
    "server": (
        "gesso serve, chat --server",
        {
            p: p
            for p in (
                "fastapi",
                "uvicorn",
                "pydantic",
                "prometheus-client",
                "httpx",
                "httptools",
                "uvloop",
                "python-multipart",
            )
        },
    ),
    "train": ("--plot, --tensorboard, --optimizer adamw8bit", {p: p for p in ("matplotlib", "tensorboard", "torchao")}),
    "otel": (
        "OpenTelemetry's traces of gesso serve and gesso router",
        {
            "opentelemetry.sdk": "opentelemetry-sdk",
            "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
        },
    ),
    "vision": ("images in prompts", {"PIL": "pillow"}),
    "video": ("clips in prompts", {"av": "av"}),
    "gguf": ("models in GGUF files", {"gguf": "gguf"}),
    "ray": ("clusters by Ray Serve", {"ray": "ray[serve]"}),
    "lm-eval": ("EleutherAI's harness, python -m gesso.lm_eval", {"lm_eval": "lm-eval"}),
    "transformers": ("gesso bench --peer transformers", {"transformers": "transformers"}),
    "pynvml": ("joules in gesso bench, on CUDA", {"pynvml": "nvidia-ml-py"}),
}
"""Optional parts: what each is for, and its modules with the packages they come in."""
EXTRAS = ("server", "train", "otel", "vision", "video", "gguf", "ray", "lm-eval")
"""Parts that are extras of the package."""
OUTSIDE_ALL = ("ray", "lm-eval", "transformers", "pynvml")
"""Parts that the extra `all` leaves out: few want them, and nothing is wrong without."""
NEEDED = ("torch", "safetensors", "tokenizers", "huggingface-hub", "jinja2", "numpy", "llvmlite", "typer", "rich")


def version_of(package: str) -> str | None:
    """Returns the version of an installed package; None where there is none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        if package != "gesso":
            return None
        from gesso import __version__

        return __version__  # run from its sources


def missing_parts() -> list[dict[str, Any]]:
    """Returns the optional parts that are not whole, and the command that installs each."""
    import torch

    found = []
    for part, (use, modules) in PARTS.items():
        if part == "pynvml" and not torch.cuda.is_available():
            continue
        absent = [package for module, package in modules.items() if not _is_there(module)]
        if os.name == "nt":
            absent = [package for package in absent if package != "uvloop"]
        if absent:
            command = pip_install(part) if part in EXTRAS else f"pip install {' '.join(absent)}"
            in_all = part not in OUTSIDE_ALL
            found.append({"part": part, "for": use, "packages": absent, "install": command, "in_all": in_all})
    return found


def _is_there(module: str) -> bool:
    """Says whether a module could be imported; it imports no more of it than the packages around it."""
    try:
        return find_spec(module.replace("-", "_")) is not None
    except ModuleNotFoundError:  # of a package around it
        return False
