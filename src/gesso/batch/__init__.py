"""Answers files of requests in OpenAI's batch format: every line once, whatever stops the process on the way.

`lines` -> `ask` -> `run`, with a `journal` that has every line once. Servers are known by HTTP alone.
"""
