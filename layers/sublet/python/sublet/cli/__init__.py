"""The `sublet` command."""
