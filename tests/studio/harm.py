"""Text that would do harm if it were taken for HTML, and the check that it was not."""

from typing import Any

EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script><b>bold</b>'


def harmless(page: Any) -> None:
    """Nothing of it became an element, and nothing of it ran."""
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, b, iframe, object, embed, body script").count() == 0
