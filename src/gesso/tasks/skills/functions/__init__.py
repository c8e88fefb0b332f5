"""Writes small Python functions.

`skill` is the task; `forms` draws what a function does, of `words`, `heads` functions with more than that, `statements`
functions told step by step and lambdas, and `telling` functions whose names say enough.
"""
