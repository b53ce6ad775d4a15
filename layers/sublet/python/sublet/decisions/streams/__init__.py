"""Which streams an application consumes, and what is known of each."""
