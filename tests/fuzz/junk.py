"""Values made from a fuzzer's bytes. The same bytes make the same values, with or without the fuzzer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")

DEPTH_MAX = 3
LENGTH_MAX = 4
ODD_TEXTS = (
    "",
    "0",
    "-1",
    "00",
    "1e3",
    "9" * 40,
    "9" * 130,
    "9" * 5000,
    "٣",
    "NaN",
    "inf",
    "true",
    "LATEST",
    "SHARD_END",
    "TRIM_HORIZON",
    "AT_TIMESTAMP",
    "\ud800",
    "\x00",
    "é" * 300,
)
ODD_NUMBERS = (0, 1, -1, 2**31, 2**63, 2**64, 2**128, 10**400)


class Junk:
    """Takes bytes from the front; when they are used up, every choice is the first and every text is empty."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    def byte(self) -> int:
        if not self._data:
            return 0
        first, self._data = self._data[0], self._data[1:]
        return int(first)

    def below(self, limit: int) -> int:
        return self.byte() % limit

    def pick(self, values: Sequence[T]) -> T:
        return values[self.below(len(values))]

    def blob(self) -> bytes:
        length = self.byte()
        taken, self._data = self._data[:length], self._data[length:]
        return bytes(taken)

    def rest(self) -> bytes:
        taken, self._data = self._data, self._data[:0]
        return bytes(taken)

    def text(self) -> str:
        return self.pick(ODD_TEXTS) if self.below(3) == 0 else self.blob().decode(errors="surrogateescape")

    def digits(self) -> str:
        return str(int.from_bytes(self.blob()[:50], "big"))

    def json(self, depth: int = 0) -> Any:
        """Any JSON value, a few levels deep."""
        kind = self.below(8 if depth < DEPTH_MAX else 6)
        if kind == 6:
            return [self.json(depth + 1) for _ in range(self.below(LENGTH_MAX))]
        if kind == 7:
            return {self.text(): self.json(depth + 1) for _ in range(self.below(LENGTH_MAX))}
        simple = (None, True, self.text(), self.byte(), self.pick(ODD_NUMBERS), self.byte() / 7)
        return simple[kind]

    def nested(self) -> list[Any]:
        """A list in a list, up to thousands of levels."""
        value: list[Any] = []
        for _ in range(2 << self.below(13)):
            value = [value]
        return value
