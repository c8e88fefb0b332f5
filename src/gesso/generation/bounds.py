"""Bounds what a request may ask."""

NARROWEST = 8
"""Tokens of the narrowest canvas that `canvas_width` chooses."""
MOST_TEMPERATURE = 2.0
MOST_LOGPROBS = 20
MOST_ROUNDS = 8
MOST_STEPS = 10**6
MOST_GUIDANCE = 100.0
LARGEST_BIAS = 1e6
"""Largest size of a bias; scores are capped far below, and so much still survives a division by any temperature."""
LARGEST_PENALTY = 2.0
"""Bound of OpenAI's penalties, both ways; nats."""
LEAST_REPETITION_PENALTY, LARGEST_REPETITION_PENALTY = 0.01, 10.0
WIDEST_WINDOW = 2**31 - 1
"""More positions than any context has."""
VERIFY_THRESHOLD = 3.0
"""Nats; see `GenerationConfig.verify_threshold`."""
