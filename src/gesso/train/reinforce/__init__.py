"""Reinforces a model by rewards: answers are drawn, and what led to the better ones becomes likelier.

Life cycle of a step: `cases` gives prompts with a reward each, `rollout` draws a group of answers to each prompt with
the published sampler and records every denoising step, `replay` computes the recorded draws' log-probabilities once
more with gradients, and `objective` makes of them and of the rewards the policy gradient that the trainer steps by.
"""
