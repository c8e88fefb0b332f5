"""Changes the case of texts and the style of identifiers.

`skill` is the task; `styles`, `parts` and `people` are further kinds of it, `style_names` asks for styles by other than
their names, `texts` draws what they are asked of.
"""
