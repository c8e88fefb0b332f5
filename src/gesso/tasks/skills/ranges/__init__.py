"""Counts, and goes on with rows.

`skill` is the task; `kinds` and `written` draw rows of other than whole numbers one apart, `gaps` rows of which
something is missing.
"""
