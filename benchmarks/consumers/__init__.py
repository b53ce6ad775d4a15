"""Consumers that do the same work, each in a process: `python -m benchmarks.consumers.<name> STREAM APPLICATION
EXPECTED`.

Each reads a whole stream with a handler that does nothing, and prints what that took (see `tally`).
"""
