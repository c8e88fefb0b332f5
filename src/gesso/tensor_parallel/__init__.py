"""Spreads one text model over several processes of a machine, each with a part of every large weight.

Rank 0, the leader, runs the engine and announces what the others, its followers, compute with it; they decide nothing.
Heads, the dense MLP, experts and the vocabulary are cut; norms, routers and self-conditioning are whole in every rank,
and so is the residual stream (Megatron-LM's scheme, arXiv 1909.08053; experts whole, as in GShard, arXiv 2006.16668).
A pass takes two sums a layer and one for the embedding, a prediction a gather and a sum: 2 L + 3 for a denoising step.

`shards` (what each rank holds) -> `vocabulary`, `classes` (a constraint's, summed where its tokens are), `experts`,
`packed`, `model`, `adapters`, `loading`, `follower`.
"""
