"""Traces requests: spans by OpenTelemetry where its variables ask for them, and W3C's headers in any case."""
