"""Calls of the user's handler."""
