"""Adapts user code of each contract to the Handler port."""
