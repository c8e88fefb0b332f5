"""Starts and leads the processes that compute one model together, whatever each of them has of it.

Rank 0, the leader, runs the engine and announces what the others, its followers, compute; they decide nothing.
`gesso.tensor_parallel` and `gesso.pipeline_parallel` say what a rank holds and computes.

`group` has collectives and messages, over `uninterrupted` (holds Ctrl-C back); then `processes`, `follower`, `refusal`
(what it cannot load) and `caches`.
"""
