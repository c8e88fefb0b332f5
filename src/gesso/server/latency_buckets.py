"""Says which latencies the histograms of servers and of the router tell apart, so that both are alike."""

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Upper bounds of the buckets, in seconds."""
