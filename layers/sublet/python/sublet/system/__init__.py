"""The machine's clock, threads and garbage collection."""
