"""What the Spark benchmarks run in `.local/spark`'s environment, inside Spark and its Python workers."""
