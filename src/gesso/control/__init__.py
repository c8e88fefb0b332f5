"""Does with a canvas what goes beyond writing an answer: fill holes, edit, choose.

`fill` fills `holes` with a `window`: `hole_filler` goes through the holes, `filler` fills them on canvases,
`causal_filler` token by token; `hole_texts` and `fill_result` are what comes of it. `edit` changes a `selection`,
`choose` scores `answers`, `search` and `grading` find the best of n behind a check (`search_options` says how),
`likelihood` is the causal pass's. Each is a job: a generator of requests that knows nothing of who runs them. `at_once`
runs jobs to their ends, for Python.
"""
