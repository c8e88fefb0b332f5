"""Serves an engine over OpenAI's HTTP interface and others': FastAPI, strict schemas, server-sent events.

`create_app` builds the application over a service that is started; `run.serve` puts it behind uvicorn until a signal
comes. Needs the packages of the extra `server`.

`requests` and `chat_models` (Pydantic models made from the table of options by `option_fields`) and `answers` are
OpenAI's bodies; `chat`, `completions`, `fill`, `infill`, `edit`, `choose` and `explain` serve them. `responses_*`,
`anthropic`, `ollama`, `fim` and `props` are other interfaces, each of which becomes a chat or text completion
(`submit_chat`, `submit_text`); `ollama_catalogue` lists its models. `choices` carries events from the engine's thread
to the event loop, `chunks` makes parts of a completion of them, `stream` writes server-sent events, `attended` waits
until the client goes or its time is over, `errors` has OpenAI's shape and `field_names` other interfaces' fields.
`connection` bounds a connection, over `plain_http` (HTTP/1 alone); `hosts` and `auth` let requests in, and
`http_settings` has what a router has too; `media` reads content parts over `fetch` (what may be fetched) and
`daemon_pool` (threads that nothing waits for). `metrics` (with `latency_buckets`, as the router's), `access_log` and
`tracing` watch. `studio` and `option_table` have what the page needs, `docs_page` shows the interface. `files`,
`batches`, `batch_store` (SQLite), `batch_worker` and `batch_life` are batches. docs/server.md describes it all.
"""
