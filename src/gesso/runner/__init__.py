"""Runs the model: batches in, outcomes out, one thread at a time.

`protocol` declares the runner, its batches and cache handles. `model_runner` stands over `rows` (what is kept of a
request), with `cuda_graphs` (which passes are captured and replayed) and `cuda_capture` (how one is), `prompt_input`
(ids and embedding spans), `image_embeddings` (the tower behind a cache by content), `logprobs` and `offload` (asks the
device what fits). `leading_runner` starts ranks and announces what is computed; over it `distributed_runner` and
`pipeline_runner` lead the ranks of `gesso.tensor_parallel` and `gesso.pipeline_parallel`.
"""
