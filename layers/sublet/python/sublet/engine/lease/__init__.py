"""A held lease: its writes, its progress, and the steps of its life, which Spark's keeper takes too."""
