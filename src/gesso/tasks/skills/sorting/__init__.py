"""Sorts lists.

`skill` is the task, `lists` holds what is given and how it is to be; `kinds`, `days`, `lengths` and `repeats` draw what
is sorted beside words and whole numbers.
"""
