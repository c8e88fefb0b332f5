"""Serves models on a Ray cluster: replicas that Ray starts, moves and counts, behind the router of this package."""
