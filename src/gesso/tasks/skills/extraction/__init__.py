"""Extracts facts from texts, as JSON or alone.

`skill` is the task. Its further kinds are `records` and `rows` (JSON of texts that `telling` writes with `values`),
`tokens` and `questions`; `keys` and `placing` write the requests.
"""
