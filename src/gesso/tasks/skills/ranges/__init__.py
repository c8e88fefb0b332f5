"""Counts, and goes on with rows.

`skill` is the task; `number_rows` and `name_rows` draw the `rows` that are not of whole numbers a step apart, `gaps`
those of which something is missing.
"""
