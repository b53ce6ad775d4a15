"""Writes a number with its noun."""

from __future__ import annotations


def counted(count: int, one: str, many: str | None = None) -> str:
    """`1 lease`, `2,000 leases`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
