"""Composition roots: where ports meet their implementations, once per way of running."""
