"""Spark's writers into a stream, at least once, over the producer's decisions (`sublet.putting`)."""
