"""The lease manager: what a tick does."""
