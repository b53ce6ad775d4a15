"""`sublet.spark.pipeline.judging`, under its path of 0.2."""

from sublet.moved import forwarded

__getattr__ = forwarded(__name__, "sublet.spark.pipeline.judging")
