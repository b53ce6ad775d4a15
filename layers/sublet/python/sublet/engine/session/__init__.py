"""One lease's part in a window."""
