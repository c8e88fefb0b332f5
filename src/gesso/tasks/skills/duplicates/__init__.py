"""Finds and removes what stands in a list more than once.

`skill` is the task, `kinds` has what is asked beside the removal from a list, `letters` what is asked of words.
"""
