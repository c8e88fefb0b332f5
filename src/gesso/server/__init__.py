"""Serves an engine over OpenAI's HTTP interface and others': FastAPI, strict schemas, server-sent events.

`create_app` builds the application over a service that is started; `run.serve` puts it behind uvicorn until a signal
comes. Needs the packages of the extra `server`.
"""
