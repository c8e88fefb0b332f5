"""Reverses lists and the letters of words.

`skill` is the task, `kinds` has what is reversed beside these.
"""
