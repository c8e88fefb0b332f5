"""Provides skills with open slots: any word, name, identifier or number, in many phrasings, some of them held out
whole.

A file or a folder a skill. Shared: `slots` (values), `placing` (requests and their data), `numerals` and `articles`
(words of numbers, "a" or "an"), `lexicon` (words).
"""
