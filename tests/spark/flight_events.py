"""Flights as the demo's producer writes them, generated from a number; and invalid data of each kind, with its
reason.
"""

from __future__ import annotations

import json
from typing import Any

from sublet.protocol.aggregation import aggregate

CARRIERS = ("AA", "UA", "WN")

MISFITS = {
    b"\xff\xfe": "not UTF-8: invalid start byte at byte 0",
    b'{"key": "N1"': "not JSON: Expecting ',' delimiter: line 1 column 13 (char 12)",
    b"[]": "the record: an object expected, found []",
    b"{}": "key: a value expected, found null",
    b'{"key": "N1", "number": %s}' % (b"[" * 900 + b"]" * 900): (
        f"number: a whole number of 32 bits expected, found {'[' * 59}…"
    ),
}


def flight(number: int) -> bytes:
    event = {
        "key": f"N{number % 50}",
        "number": number,
        "carrier": CARRIERS[number % 3],
        "flight": number,
        "from": "EWR",
        "to": "IAH",
        "scheduled": "2013-01-01T05:15",
        "departure_delay": number % 7,
        "arrival_delay": None if number % 5 == 0 else number % 11,
    }
    return json.dumps(event).encode()


def carriers(numbers: list[int]) -> dict[str, tuple[int, int, int, int, int]]:
    """The figures of examples/pipeline/carriers.py for these flights, computed differently."""
    figures = {}
    for index, carrier in enumerate(CARRIERS):
        of = [number for number in numbers if number % 3 == index]
        arrived = [number % 11 for number in of if number % 5]
        figures[carrier] = (len(of), len(of), sum(number % 7 for number in of), len(arrived), sum(arrived))
    return figures


class FlightStream:
    """A stream of two shards on the emulator, and everything that was put on it."""

    def __init__(self, client: Any, name: str) -> None:
        self.name, self._client = name, client
        self.numbers: list[int] = []
        self.misfits: list[bytes] = []
        client.create_stream(StreamName=name, ShardCount=2)
        client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})

    @property
    def produced(self) -> list[bytes]:
        return [flight(number) for number in self.numbers] + self.misfits

    def produce(self, count: int) -> None:
        """Flights one by one, ten more in an aggregate, and one of each kind of misfit."""
        first = len(self.numbers)
        inner = list(range(first + count, first + count + 10))
        entries = [(f"N{number % 50}", flight(number)) for number in range(first, first + count)]
        entries.append(("N1", aggregate([("N1", None, flight(number)) for number in inner])))
        entries += [(f"misfit-{index}", data) for index, data in enumerate(MISFITS)]
        records = [{"PartitionKey": key, "Data": data} for key, data in entries]
        for start in range(0, len(records), 500):
            reply = self._client.put_records(StreamName=self.name, Records=records[start : start + 500])
            assert reply["FailedRecordCount"] == 0, reply
        self.numbers += range(first, first + count + 10)
        self.misfits += MISFITS
