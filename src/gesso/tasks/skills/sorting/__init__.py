"""Sorts lists.

`skill` is the task, `kinds` draws what is sorted beside words and whole numbers.
"""
