"""Writes dates in other forms, and counts with them.

`skill` is the task; `forms` and `words` write dates, `draws` draws and moves them; `moves`, `relations`, `counts`,
`styles` and `texts` are further kinds of requests.
"""
