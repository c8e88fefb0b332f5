"""Adds, subtracts and multiplies.

`skill` is the task; `numbers` draws what is calculated with, `expressions` and `kinds` are further kinds of it: those
of `stories`, `quotients`, `amounts` and `columns`.
"""
