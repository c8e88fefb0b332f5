"""Tells praise from blame.

`skill` is the task, `texts` draws what it is asked of.
"""
