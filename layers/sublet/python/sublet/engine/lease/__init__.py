"""What the engine and Spark's keeper share: writes to a lease that is held, and the steps of its life."""
