"""The commands that read and write records."""
