"""Makes output that is valid by construction: languages of texts, their automata over tokens, exact inference on
canvases.

A regular expression, a JSON Schema, a list of choices or a grammar becomes an `Expression` (`regex`, `json_schema`,
`choices`, `grammar`); an expression becomes a minimal automaton over UTF-8 bytes (`bytes_automaton`), and with a
tokenizer an automaton over tokens (`compile`). Given what a model says of a canvas, `inference` finds the exact
marginals under the constraint and the most probable canvas that satisfies it.
"""
