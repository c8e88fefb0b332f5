"""Reads the headers of the W3C's Trace Context, which need no library."""

import re

HEADERS = (b"traceparent", b"tracestate")
"""Names of the headers that tie the parts of a trace together."""
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


def trace_id(traceparent: str) -> str | None:
    """Reads the trace of a `traceparent` header, as hexadecimal digits; None where it is none."""
    found = _PARENT.fullmatch(traceparent)
    return found[1] if found is not None and int(found[1], 16) else None
