"""The parts of the Spark benchmarks that run in `.local/spark`'s environment, inside Spark and its Python workers."""
