"""The commands that move positions."""
