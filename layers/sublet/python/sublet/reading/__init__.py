"""Reads a stream's records, by polling or push, of one stream or several."""
