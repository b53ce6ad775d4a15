"""Moves an application's positions: seek, undo, restore and skip."""
