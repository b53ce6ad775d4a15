"""The other direction, at least once: Spark's writers, over the producer's decisions (`sublet.putting`)."""
