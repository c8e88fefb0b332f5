"""Converts quantities into other units.

`skill` is the task; `kinds` lists the units, `values` draws the numbers, `parts` writes halves and quarters in words;
`several` asks about several quantities.
"""
