"""Adds, subtracts and multiplies.

`skill` is the task; `numbers` draws what is calculated with, `expressions` and `stories` are further kinds of it.
"""
