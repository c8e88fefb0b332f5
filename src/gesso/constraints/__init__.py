"""Makes output that is valid by construction: languages of texts, their automata over tokens, exact inference on
canvases.

A regular expression, a JSON Schema, a list of choices or a grammar becomes an `Expression` (`regex`, `json_schema`,
`choices`, `grammar`); an expression becomes a minimal automaton over UTF-8 bytes (`bytes_automaton`), and with a
tokenizer an automaton over tokens (`compile`). Given what a model says of a canvas, `inference` finds the exact
marginals under the constraint and the most probable canvas that satisfies it.

Regular expressions: `regex`, `regex_groups` -> `regex_characters`, `unicode_sets`. JSON Schema: `json_schema`, with
`json_bundle` for several files; `json_places` -> `json_scopes` -> `json_document` (`json_drafts`) -> `json_references`
-> `json_alternatives`, `json_negation`, `json_evaluated` -> `json_objects`, `json_arrays`, `json_members`,
`json_scalars`, `json_numbers`, `json_text`, `json_disjoint`, `json_excluded`, `json_one_of`, `json_limits`;
`distinct_items`. Grammars: `grammar`, `grammar_tokens`, `grammar_texts`, `grammar_rules`, `grammar_common`. Others:
`choices` in `expression`, `tool_calls`, `reasoning`.

Expressions become automata over bytes: `expression` -> `bytes_automaton` (`determinize`: `plain_subsets`,
`counted_subsets` -> `minimize`; `deterministic`, `pairings`, `tries`; `byte_table`, `embedding`, `measures`,
`distances`), within the `budget` of one constraint. With a tokenizer, `compile` makes automata over tokens (`survey`
chooses the parts that are compiled alone, `blocks` puts them into the graph; `token_parts`, `token_functions` and
`transitions` are the vocabulary's pass), and `compilation` does so in threads, lanes and turns (`quick_turns`).

A step: `class_pass` (a prediction by classes of tokens) -> `inference` (marginals, the most probable canvas; `window`,
`counters`, `stays`, `scan`). `verdict` says whether a text is taken, and why not. `held_bytes` says what a
cache of automata holds. There is no model here.
"""
