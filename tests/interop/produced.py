"""Checks records of sublet.Producer as KCL's AggregatorUtil unpacks them: each user record once, with its keys and its
data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import NamedTuple

from sublet import Producer
from sublet.protocol.kpl_format import MAGIC
from sublet.protocol.shard import HASH_KEY_MAX
from sublet.testing.memory import MemoryAccount, MemoryStream

from tests.doubles.producing_world import records_of, reshard
from tests.interop.aggregates import Case
from tests.interop.build import Profile
from tests.interop.deaggregation import OWN_KEY, Given, java_gave

PRODUCED = 4_000
"""Records."""

STREAM = "produced"
KEYS = ("a", "customer-7", "ключ", "\U0001d11e" * 100, "k" * 256)
SIZES = (0, 1, 3, 100, 130, 16_500, 60_000)


class Keys(NamedTuple):
    partition_key: str | None
    explicit_hash_key: str | None


def produced(count: int, seed: int) -> tuple[MemoryStream, dict[bytes, Keys]]:
    """A stream that a producer has filled through reshards, and the keys of the records, by their data."""
    chance, account = Random(seed), MemoryAccount()
    account.create(STREAM, 3)
    given: dict[bytes, Keys] = {}
    with Producer(STREAM, account=account, rate_limit=None, record_max_buffered_time=0.005) as producer:
        for number in range(count):
            key = chance.choice(KEYS)
            explicit = str(chance.randint(0, HASH_KEY_MAX)) if chance.random() < 0.2 else None
            data = b"%d:" % number + chance.randbytes(chance.choice(SIZES))
            given[data] = Keys(key, explicit)
            producer.put(key, data, explicit_hash_key=explicit)
            if not number % 400:
                reshard(account.at(STREAM), chance)
    return account.at(STREAM), given


def differences(stream: MemoryStream, given: Mapping[bytes, Keys], profile: Profile) -> Iterator[str]:
    """Where Java's reading of the stream is not what was put."""
    stored = [(shard, record) for shard in stream.list_shards() for record in records_of(stream, shard.shard_id)]
    read = java_gave([Case(record.data, shard.hash_key_range) for shard, record in stored], profile)
    found: Counter[bytes] = Counter()
    for (_, record), gave in zip(stored, read, strict=True):
        if isinstance(gave, str):
            yield gave
            continue
        for place, one in enumerate(gave):
            found[one.data] += 1
            # A plain record's keys are its stream record's, and Kinesis does not return its explicit one.
            keys = _keys_of(one, record.partition_key, given)
            if given.get(one.data) != keys or one.sub_sequence_number != place:
                yield f"{one!s:.200} is not as it was put"
    yield from (f"{given[data]} is there {found[data]} times" for data in given if found[data] != 1)


def _keys_of(one: Given, partition_key: str | None, given: Mapping[bytes, Keys]) -> Keys:
    if one.partition_key != OWN_KEY:
        return Keys(one.partition_key, one.explicit_hash_key)
    return Keys(partition_key, given[one.data].explicit_hash_key if one.data in given else None)


def compare_produced(count: int, seed: int) -> bool:
    """Report what was compared; True if Java's reading is what was put."""
    stream, given = produced(count, seed)
    records = [record for shard in stream.list_shards() for record in records_of(stream, shard.shard_id)]
    aggregates = sum(record.data.startswith(MAGIC) for record in records)
    clean = True
    for profile in (Profile.KCL_2, Profile.KCL_3):
        wrong = list(differences(stream, given, profile))
        print(
            f"{profile}, seed {seed}: {count:,} records of sublet.Producer in {aggregates:,} aggregates and "
            f"{len(records) - aggregates:,} plain records, {len(wrong):,} differences"
        )
        for line in wrong[:5]:
            print(f"  {line}")
        clean = clean and not wrong
    return clean
