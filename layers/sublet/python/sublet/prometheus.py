"""Metrics of a program's consumers and producers in its own Prometheus registry (the extra `metrics`)."""

from sublet.runtimes.prometheus_page import register

__all__ = ["register"]
