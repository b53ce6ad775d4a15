"""`sublet.spark.pipeline.command`, under its path of 0.2, which a job's entry point may import."""

from sublet.moved import forwarded

__getattr__ = forwarded(__name__, "sublet.spark.pipeline.command")
