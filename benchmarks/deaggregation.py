"""Measures deaggregation: user records per second from KPL aggregates of 50 KB, compared with aws-kinesis-agg, aiokpl
and the floor.

The floor is what every reader must do: the MD5, and protobuf's own parser. Each call takes one aggregate and drops
the result. The order changes in each round, because each reader leaves the cache in a bad state for the next one.
"A key each": every user record has a key of its own, which is the worst case: as many keys to read and to hash as
records. All keys are in the half of the hash keys that passes the filter, so that it hashes them all. "recurring
keys": the filter has met them before, as a lease worker has on most streams.
"""

from __future__ import annotations

import hashlib
import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import count, islice
from random import Random
from statistics import median
from typing import NamedTuple

from sublet.protocol.aggregation import KPL_MAX_BYTES, aggregate, deaggregate
from sublet.protocol.hash_keys import KeysInside, hash_key
from sublet.protocol.kpl_format import DIGEST_SIZE, MAGIC
from sublet.protocol.kpl_messages import parse_aggregated_record
from sublet.protocol.records import StreamRecord
from sublet.protocol.shard import HashKeyRange

import benchmarks
from benchmarks import peers

ROUNDS = benchmarks.rounds(61)
AGGREGATES = 10
RANGE = HashKeyRange(0, 2**127 - 1)
NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)

FLOOR = "floor: MD5, parse"
TUPLES = "parse + tuples"
SUBLET = "sublet"
SUBLET_FILTERED = "sublet, filtered"
SUBLET_RECURRING = "same, recurring keys"
AGG = "aws-kinesis-agg"
AGG_LAMBDA = "same, Lambda format"
AIOKPL = "aiokpl"

FRAMES = 8
"""About how many bytes an aggregate adds to each user record."""

Row = tuple[str, None, bytes]
"""A partition key, no explicit hash key, and data."""

Reader = Callable[[bytes], object]


class Dataset(NamedTuple):
    name: str
    size: int
    """Bytes of a user record's data."""
    many_keys: bool


DATASETS = (
    Dataset("100 B, one key", 100, many_keys=False),
    Dataset("100 B, a key each", 100, many_keys=True),
    Dataset("1 KB, one key", 1024, many_keys=False),
    Dataset("1 KB, a key each", 1024, many_keys=True),
)


class Goal(NamedTuple):
    datasets: str
    reader: str
    against: str
    ratio: float


GOALS = (
    Goal("100 B", SUBLET, AGG, 4.0),
    Goal("100 B", SUBLET_FILTERED, AGG, 2.5),
    Goal("100 B", SUBLET_RECURRING, AGG, 2.5),
    Goal("1 KB", SUBLET, FLOOR, 0.8),
)

Rates = dict[str, dict[str, float]]
"""User records per second, by dataset and reader."""


def measure() -> Rates:
    """Medians of interleaved rounds, by CPU time, so that other load on the machine matters little."""
    rates: Rates = peers.measured_beside_peers(__name__)
    return rates


def report(rates: Rates) -> bool:
    """Print the table; True if the goals are met that can be judged without the missing peers."""
    from rich.console import Console  # noqa: PLC0415 -- not in the peers' environment
    from rich.table import Table  # noqa: PLC0415

    table = Table("", *rates, title="deaggregation: user records a second (and of the floor)", title_justify="left")
    for reader in next(iter(rates.values())):
        cells = (f"{found[reader] / 1e6:.2f}M ({found[reader] / found[FLOOR]:.2f})" for found in rates.values())
        table.add_row(reader, *cells, style="bold" if reader.startswith(SUBLET) else None)
    console = Console()
    console.print(table)
    verdicts = list(_verdicts(rates))
    for text, met in verdicts:
        console.print(f"  {text}: {'[green]met[/]' if met else '[red]MISSED[/]'}")
    if AGG not in next(iter(rates.values())):
        console.print(f"  [yellow]{peers.MISSING}[/]")
    return all(met for _, met in verdicts)


def _verdicts(rates: Rates) -> Iterator[tuple[str, bool]]:
    for goal in GOALS:
        for dataset, found in rates.items():
            if dataset.startswith(goal.datasets) and goal.against in found:
                ratio = found[goal.reader] / found[goal.against]
                yield (
                    f"{dataset}: {goal.reader} / {goal.against} = {ratio:.2f}, goal {goal.ratio:g}",
                    ratio >= goal.ratio,
                )


def _rates(dataset: Dataset) -> dict[str, float]:
    aggregates = _aggregates(dataset)
    user_records = sum(number for _, number in aggregates)
    readers = {**_readers(), **_peers()}
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    random = Random(7)
    for _ in range(ROUNDS):
        for name in random.sample(list(readers), len(readers)):
            read = readers[name]
            start = time.process_time()
            for data, _ in aggregates:
                read(data)
            seconds[name].append(time.process_time() - start)
    return {name: user_records / median(taken) for name, taken in seconds.items()}


def _aggregates(dataset: Dataset) -> list[tuple[bytes, int]]:
    """Stream records' data, and how many user records each contains."""
    random = Random(7)
    keys = (f"{n:016x}" for n in count() if hash_key(f"{n:016x}", None) in RANGE)
    one_key = next(keys)
    rows: Iterator[Row] = (
        (next(keys) if dataset.many_keys else one_key, None, random.randbytes(dataset.size)) for _ in count()
    )
    return [(data, user_records) for _, data, user_records in islice(_kpl_aggregates(rows), AGGREGATES)]


def _kpl_aggregates(rows: Iterable[Row]) -> Iterator[tuple[str, bytes, int]]:
    """Aggregates of about 50 KB, as a producer with the KPL's defaults makes: the first partition key, the data and the
    number of user records of each. The rest of the rows is dropped.
    """
    taken: list[Row] = []
    keys: set[str] = set()
    size = 0
    for row in rows:
        key, _, data = row
        added = len(data) + FRAMES + (0 if key in keys else len(key) + 2)
        if taken and size + added > KPL_MAX_BYTES:
            yield taken[0][0], aggregate(taken), len(taken)
            taken, keys, size = [], set(), 0
            added = len(data) + FRAMES + len(key) + 2
        taken.append(row)
        keys.add(key)
        size += added


def _readers() -> dict[str, Reader]:
    def floor(data: bytes) -> object:
        payload = data[len(MAGIC) : -DIGEST_SIZE]
        assert hashlib.md5(payload, usedforsecurity=False).digest() == data[-DIGEST_SIZE:]
        return parse_aggregated_record(payload)

    def tuples(data: bytes) -> object:
        payload = data[len(MAGIC) : -DIGEST_SIZE]
        assert hashlib.md5(payload, usedforsecurity=False).digest() == data[-DIGEST_SIZE:]
        message = parse_aggregated_record(payload)
        keys = [key.decode() for key in message.partition_key_table]
        return [(r.data, keys[r.partition_key_index], None, n, data) for n, r in enumerate(message.records)]

    new, recurring = KeysInside(RANGE), KeysInside(RANGE)
    keys = map(str, count())
    while new.remembers:  # as a lease worker soon does on a stream whose every record has its own key
        new.hold([key for key in islice(keys, 1000) if hash_key(key, None) in RANGE])
    return {
        FLOOR: floor,
        TUPLES: tuples,
        SUBLET: lambda data: deaggregate((StreamRecord("1", data, "k", NOW),), None),
        SUBLET_FILTERED: lambda data: deaggregate((StreamRecord("1", data, "k", NOW),), new),
        SUBLET_RECURRING: lambda data: deaggregate((StreamRecord("1", data, "k", NOW),), recurring),
    }


def _peers() -> dict[str, Reader]:
    """The installed ones. None of them filters by hash range."""
    found: dict[str, Reader] = {}
    try:
        from aws_kinesis_agg.deaggregator import deaggregate_records, iter_deaggregate_records  # noqa: PLC0415

        record = {"PartitionKey": "k", "SequenceNumber": "1", "ApproximateArrivalTimestamp": NOW}
        found[AGG] = lambda data: list(iter_deaggregate_records([{**record, "Data": data}], data_format="Boto3"))
        found[AGG_LAMBDA] = lambda data: deaggregate_records([_lambda_record(data)])
    except ImportError:
        pass
    try:
        from aiokpl.aggregation import decode_aggregated  # noqa: PLC0415

        found[AIOKPL] = decode_aggregated
    except ImportError:
        pass
    return found


def _lambda_record(data: bytes) -> dict[str, object]:
    return {
        "kinesis": {
            "kinesisSchemaVersion": "1.0",
            "partitionKey": "k",
            "sequenceNumber": "1",
            "approximateArrivalTimestamp": NOW.timestamp(),
            "data": b64encode(data),
        }
    }


if __name__ == "__main__":
    print(json.dumps({dataset.name: _rates(dataset) for dataset in DATASETS}))
