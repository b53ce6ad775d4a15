"""This machine: clock, threads, garbage collection."""
