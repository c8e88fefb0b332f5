"""Writes small Python functions.

`skill` is the task; `forms` draws what a function does, of `words`, and `heads` functions with more than that.
"""
