"""Turns requests into events: request building, scheduling, the step loop, output and traces.

`engine` (synchronous) and `async_engine` (a thread; `request_handle`, for asyncio
`async_requests`) run an `engine_core` (the step loop) over a
`scheduler` (no tensors). `request_builder` makes a `request_state` (data) of a `request`, with its `prompt`, `settings`
and constraint: `constraint_language` says what language a request asks for, `constraint_job` compiles it, `cost` says
which mode is quicker, `prompt`, `media` and `markers` turn messages with images into a `PromptInput`. `canvases`,
`listeners` and `totals` keep what is under way; `verifier` is a state machine; `particles` stand over `resampling`;
`output` makes text, blocks and results, `progress` says what a pass means for a request. `prefix_store`, `seeds` (of
several requests), `limits`, `exit_hook`, `reasoning` (its budget), `events`, `result` and `trace` are what their names
say.
"""
