"""Turns requests into events: request building, scheduling, the step loop, output and traces."""
