"""What a lease manager decides in a tick."""
