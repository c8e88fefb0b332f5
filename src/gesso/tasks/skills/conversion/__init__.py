"""Turns small tables and objects from one format into another.

`skill` is the task, `values` draws tables of all kinds of values and objects within objects, `everyday`
tables of common columns, `forms` other forms of JSON.
"""
