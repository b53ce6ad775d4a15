"""The producer: a thread that puts every flight on the stream, in the order of its partition key, through any reshard."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sublet.protocol.shard import Shard

from demo.flights import Flight
from demo.lanes import Entry, Event, Lanes, ShardMap

ListShards = Callable[[], Sequence[Shard]]

LISTING_LAG = 0.1
"""Seconds before shards are listed again if a reply named one that the listing lacks."""

PATIENCE = 3.0
"""Seconds to wait for a thread that was asked to end: after Ctrl-C its request may hang in an emulator that is being
ended."""


def as_events(flights: Iterable[Flight]) -> Iterator[Event]:
    return (Event.of(flight.partition_key, flight.event()) for flight in flights)


class Producer:
    """Puts everything in a thread of its own. `lanes` may be read meanwhile; `failure` is set if it gave up."""

    def __init__(self, kinesis: Any, stream: str, list_shards: ListShards, events: Iterator[Event]) -> None:
        self.lanes = Lanes(ShardMap(list_shards()))
        self.failure: Exception | None = None
        self._kinesis, self._stream, self._list_shards, self._events = kinesis, stream, list_shards, events
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends after the current request, without waiting long for it."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(PATIENCE)

    @property
    def is_done(self) -> bool:
        return self._thread.ident is not None and not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.lanes.fill(self._events)
                entries = self.lanes.next_request()
                if not entries:
                    return
                self._put(entries)
        except Exception as failure:  # noqa: BLE001 -- the main thread must see any failure
            self.failure = failure

    def _put(self, entries: list[Entry]) -> None:
        records = [_request(entry) for entry in entries]
        reply = self._kinesis.put_records(StreamName=self._stream, Records=records)
        landed = [record.get("ShardId") for record in reply["Records"]]
        self.lanes.settle(entries, landed, self._map_after(entries, landed))

    def _map_after(self, entries: Sequence[Entry], landed: Sequence[str | None]) -> ShardMap:
        """The shard map, listed again if a record went elsewhere than predicted."""
        shard_map = self.lanes.shard_map
        if all(entry.predicted == shard_id for entry, shard_id in zip(entries, landed, strict=True)):
            return shard_map
        while True:
            shard_map = ShardMap(self._list_shards())
            if all(shard_id is None or shard_id in shard_map for shard_id in landed):
                return shard_map
            time.sleep(LISTING_LAG)


def _request(entry: Entry) -> dict[str, Any]:
    request: dict[str, Any] = {"Data": entry.data(), "PartitionKey": entry.partition_key}
    if entry.explicit_hash_key is not None:
        request["ExplicitHashKey"] = entry.explicit_hash_key
    return request
