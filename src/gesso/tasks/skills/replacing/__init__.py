"""Replaces and removes parts of texts.

`skill` is the task; `signs`, `parts` and `records` are further kinds of it, `texts` and `prose` draw what they are
asked of, and `placing` puts it beside the request.
"""
