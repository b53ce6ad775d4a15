"""Consumers that do the same work in a process of their own: `python -m benchmarks.consumers.<name> STREAM APPLICATION EXPECTED`.

Each reads a whole stream of 4 shards with a handler that does nothing, and says what that took (see `tally`).
"""
