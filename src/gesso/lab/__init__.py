"""Compares settings of generation on tasks: a grid of them, answered with paired seeds, kept in a file and reported.

`grid` (settings x tasks) -> `run` -> `store` (SQLite) -> `statistics` (paired, intervals) -> `report`.
"""
