"""Extracts facts from texts, as JSON or alone.

`skill` is the task, `facts` draws what its own sentences tell. Further kinds are `records` and `rows` (JSON of texts
that `telling` writes with `values`), `people` (one to three of whom a text tells the same), `labelled` (values behind
their names), `tokens` and `questions`; `keys`, `placing`, `whole` and `missing` write the requests.
"""
