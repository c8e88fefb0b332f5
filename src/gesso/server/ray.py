"""Is the address that Ray Serve's configuration files name: `import_path: gesso.server.ray:app`."""

from gesso.cluster.app import app

__all__ = ["app"]
