"""Spark imports every installed module whose name begins with `pyspark_`, and registers its DefaultSource."""

from sublet.spark import SubletDataSource as DefaultSource

__all__ = ["DefaultSource"]
