"""The part of `spark_polls` that runs in `.local/spark`'s environment, inside Spark and its Python workers."""
