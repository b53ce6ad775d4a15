"""Chance as an argument: the part of `random.Random` that decisions use. With a seeded one every plan can be repeated."""

from __future__ import annotations

from typing import Any, Protocol


class Chance(Protocol):
    def shuffle(self, x: list[Any], /) -> None: ...

    def getrandbits(self, k: int, /) -> int: ...
