"""`make demo-spark`: a stream goes from the Lambda fleet to Spark and back, and the proof that nothing was missed or repeated."""
