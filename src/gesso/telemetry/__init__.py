"""Traces requests: spans by OpenTelemetry where its variables ask for them, and W3C's headers in any case.

`settings` -> `traces`, `export`; `w3c` reads and writes headers. No other package knows OpenTelemetry; `server.tracing`
and `router.spans` make the spans.
"""
