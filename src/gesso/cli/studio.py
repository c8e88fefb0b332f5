"""Runs `gesso studio`."""

from dataclasses import asdict

from gesso.cli import options as opt
from gesso.cli.serve import serve
from gesso.cli.serve_options import Adapters, Port
from gesso.load_options import LoadOptions


@opt.takes(but=("adapter",))
def studio(load: LoadOptions, port: Port = 0, adapter: Adapters = None) -> int:
    """Open the studio, a page where canvases are seen, in the browser: `gesso serve --open`, for this machine alone."""
    return int(serve(**{**asdict(load), "adapter": adapter}, port=port, open_browser=True))
