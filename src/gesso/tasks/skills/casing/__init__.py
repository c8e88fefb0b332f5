"""Changes the case of texts and the style of identifiers.

`skill` is the task; `styles` and `parts` are further kinds of it, `texts` draws what they are asked of.
"""
