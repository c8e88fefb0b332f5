"""Runs `gesso studio`."""

from gesso.cli import options as opt
from gesso.cli.serve import serve
from gesso.cli.serve_options import Adapters, Port
from gesso.load_options import LoadOptions


@opt.takes(load=opt.LOADING)
def studio(load: LoadOptions, port: Port = 0, adapter: Adapters = None) -> int:
    """Open the studio, a page where canvases are seen, in the browser: `gesso serve --open`, for this machine alone."""
    loading = {name: getattr(load, name) for name in opt.LOADING}
    return int(serve(**loading, port=port, adapter=adapter, open_browser=True))
