"""Makes HTML for notebooks. This package knows texts and numbers, and nothing else of gesso.

`replay` and `html` make HTML of results and replays; `layout` -> `svg`, `gif`.
"""
