"""SubscribeToShard over HTTP/2."""
