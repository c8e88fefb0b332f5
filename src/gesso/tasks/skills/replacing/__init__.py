"""Replaces and removes parts of texts.

`skill` is the task; `signs` and `parts` are further kinds of it, `texts` draws what they are asked of.
"""
