"""Checks for Pillow, which is optional: what needs it asks for it here first, and imports it then."""

import functools

from gesso.errors import OptionError
from gesso.extras import pip_install


@functools.cache
def require_pillow() -> None:
    """Checks that Pillow is installed.

    Raises:
        OptionError: it is not.
    """
    try:
        import PIL.Image
    except ImportError:
        raise OptionError(f"images need Pillow: {pip_install('vision')}") from None
    PIL.Image.init()  # all formats are known from here on
