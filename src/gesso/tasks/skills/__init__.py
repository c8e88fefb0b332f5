"""Provides skills with open slots: any word, name, identifier or number, in many phrasings, some of them held out
whole."""
