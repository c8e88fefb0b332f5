"""Says how to install what is left out unless it is asked for."""

import json


def pip_install(extra: str) -> str:
    """Returns the command that adds an extra to this installation: of its folder, where it was installed from one."""
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlparse
    from urllib.request import url2pathname

    try:
        source = json.loads(distribution("gesso").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        source = {}
    if not str(source.get("url", "")).startswith("file:"):
        return f'pip install "gesso[{extra}]"'
    editable = "-e " if source.get("dir_info", {}).get("editable") else ""
    return f'pip install {editable}"{url2pathname(urlparse(source["url"]).path)}[{extra}]"'
