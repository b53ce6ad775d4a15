"""What a shard's, a lease's and a fleet's status is."""
