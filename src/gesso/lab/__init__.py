"""Compares settings of generation on tasks: a grid of them, answered with paired seeds, kept in a file and reported."""
