"""Answers files of requests in OpenAI's batch format: every line once, whatever stops the process on the way."""
