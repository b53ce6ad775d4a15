"""Spark imports every installed module whose name begins with `pyspark_`, and registers its DefaultSource."""

from sublet.spark.source import SubletDataSource as DefaultSource

__all__ = ["DefaultSource"]
