"""`make demo-spark`: a stream goes from the Lambda fleet to Spark and back, with the proof that nothing was missed or
repeated."""
