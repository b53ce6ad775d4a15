"""Which partition keys hash into a range, and which keys are cached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sublet.protocol import hash_keys
from sublet.protocol.hash_keys import KeysInside, hash_key, keys_inside
from sublet.protocol.shard import FULL_RANGE, HashKeyRange

LOWER = HashKeyRange(0, 2**127 - 1)


class Hashing:
    """MD5, counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._md5 = hash_keys._md5  # type: ignore[attr-defined]
        self.keys: list[bytes] = []
        monkeypatch.setattr(hash_keys, "_md5", self)

    def __call__(self, key: bytes) -> Any:
        self.keys.append(key)
        return self._md5(key)


@pytest.fixture
def hashing(monkeypatch: pytest.MonkeyPatch) -> Hashing:
    return Hashing(monkeypatch)


@pytest.fixture
def inside() -> Iterator[str]:
    """Partition keys that hash into LOWER, each once."""
    return (key for key in map(str, range(1000)) if hash_key(key, None) in LOWER)


def take(keys: Iterator[str], number: int) -> list[str]:
    return [next(keys) for _ in range(number)]


def test_a_key_is_hashed_once(hashing: Hashing, inside: Iterator[str]) -> None:
    lower, [one, other] = KeysInside(LOWER), take(inside, 2)
    hashing.keys.clear()
    assert all(lower.hold(keys) for keys in ([one], [one], [one, other], [other, one]))
    assert hashing.keys == [one.encode(), other.encode()]


def test_keys_beside_one_outside_are_not_taken_for_known(hashing: Hashing, inside: Iterator[str]) -> None:
    lower, [one] = KeysInside(LOWER), take(inside, 1)
    outside = next(key for key in map(str, range(1000)) if hash_key(key, None) not in LOWER)
    hashing.keys.clear()
    assert [lower.hold([one, outside]) for _ in range(2)] == [False, False]
    assert hashing.keys == [one.encode(), outside.encode()] * 2


def test_latest_keys_are_remembered_while_keys_repeat(
    hashing: Hashing, inside: Iterator[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_keys, "KEYS_KNOWN_MAX", 4)
    lower = KeysInside(LOWER)
    for _ in range(10):
        keys = take(inside, 3)
        assert lower.hold(keys)
        hashing.keys.clear()
        assert lower.hold(keys)
        assert not hashing.keys


def test_no_key_is_remembered_once_every_key_is_new(
    hashing: Hashing, inside: Iterator[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_keys, "KEYS_KNOWN_MAX", 4)
    lower = KeysInside(LOWER)
    for _ in range(3):
        assert lower.hold(take(inside, 2))
    keys = take(inside, 2)
    hashing.keys.clear()
    assert lower.hold(keys)
    assert lower.hold(keys)
    assert len(hashing.keys) == 4


def test_no_more_keys_are_remembered_than_allowed(
    hashing: Hashing, inside: Iterator[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_keys, "KEYS_KNOWN_MAX", 4)
    lower, keys = KeysInside(LOWER), take(inside, 10)
    assert lower.hold(keys)
    hashing.keys.clear()
    assert lower.hold(keys)
    assert len(hashing.keys) == 6


def test_into_the_whole_range_every_key_hashes(hashing: Hashing) -> None:
    assert KeysInside(FULL_RANGE).hold(["a", "b"])
    assert not hashing.keys


def test_keys_inside_is_none_without_a_range() -> None:
    assert keys_inside(None) is None
