"""What a shard's load is, which keys bring it, and which shards to split or merge."""
