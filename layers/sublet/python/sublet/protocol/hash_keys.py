"""Hash keys, by which Kinesis places a record in a shard: the explicit one, or the MD5 of its partition key."""

from __future__ import annotations

from collections.abc import Collection

from sublet.protocol.shard import FULL_RANGE, HashKeyRange

try:
    # The interpreter's own MD5: for a partition key, half the time of hashlib's, which is OpenSSL's.
    from _md5 import md5 as _md5  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    from hashlib import md5 as _md5

DIGEST_SIZE = 16
"""Bytes of an MD5."""

KEYS_KNOWN_MAX = 16_384
"""How many partition keys inside the range are remembered: some 2 MB."""

_WORTH_IT = 4
"""Remembering a new key costs a fifth of what it saves when the key recurs: one key in this many must recur."""


def hash_key(partition_key: str | None, explicit_hash_key: str | None) -> int:
    """The 128-bit integer that places a record in a shard. ValueError for a record with neither key: Kinesis places
    it.
    """
    if explicit_hash_key is not None:
        return int(explicit_hash_key)
    if partition_key is None:
        raise ValueError("a record without a partition key is placed by Kinesis")
    return int.from_bytes(_md5(partition_key.encode()).digest(), "big")  # noqa: S324 -- Kinesis' choice


class KeysInside:
    """Which partition keys hash into a range. The keys inside are remembered, so that a recurring key is hashed once.

    At most KEYS_KNOWN_MAX keys. When that is reached it starts over, or stops remembering if too few keys have
    recurred.
    """

    def __init__(self, hash_key_range: HashKeyRange) -> None:
        self.hash_key_range = hash_key_range
        self._starting, self._ending = (end.to_bytes(DIGEST_SIZE, "big") for end in hash_key_range)
        of_first_byte = 2 ** (8 * (DIGEST_SIZE - 1))
        first = -(-hash_key_range.starting // of_first_byte)
        self._first_bytes_inside = bytes(range(first, (hash_key_range.ending + 1) // of_first_byte))
        self._known: set[str] = set()
        self._met_again = 0
        self.remembers = True

    def __contains__(self, explicit_hash_key: int) -> bool:
        return explicit_hash_key in self.hash_key_range

    def hold(self, partition_keys: Collection[str]) -> bool:
        """Whether all of them hash into the range."""
        if self.hash_key_range == FULL_RANGE:
            return True
        known = self._known
        if known.issuperset(partition_keys):
            self._met_again += len(partition_keys)
            return True
        new = [key for key in partition_keys if key not in known] if known else partition_keys
        if not self._all_inside([_md5(key.encode()).digest() for key in new]):  # noqa: S324 -- Kinesis' choice
            return False
        self._met_again += len(partition_keys) - len(new)
        if self.remembers:
            self._remember(new)
        return True

    def _all_inside(self, digests: list[bytes]) -> bool:
        """Big-endian digests sort as bytes too. Mostly the first bytes decide, and those are checked all at once."""
        doubtful = b"".join(digests)[::DIGEST_SIZE].translate(None, self._first_bytes_inside)
        return not doubtful or (self._starting <= min(digests) and max(digests) <= self._ending)

    def _remember(self, keys: Collection[str]) -> None:
        if len(self._known) + len(keys) > KEYS_KNOWN_MAX:
            self.remembers = self._met_again * _WORTH_IT >= len(self._known)
            self._known.clear()
            self._met_again = 0
        if self.remembers:
            self._known.update(list(keys)[:KEYS_KNOWN_MAX])


def keys_inside(hash_key_range: HashKeyRange | None) -> KeysInside | None:
    """Returns None if the range is not known: then nothing is filtered."""
    return None if hash_key_range is None else KeysInside(hash_key_range)
