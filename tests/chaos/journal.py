"""Reads the journals of the flaky handler in every worker process while they grow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sublet.protocol.checkpoint import Checkpoint


class Record(NamedTuple):
    """One user record in one call. `text` is `<key>/<running number of the key>`."""

    checkpoint: Checkpoint
    text: str


class Begun(NamedTuple):
    """The beginning of a tenure: one process has a shard's lease for one window, and starts after `checkpoint`."""

    at: int
    shard_id: str
    tenure: str
    pid: int
    checkpoint: Checkpoint


class Call(NamedTuple):
    """One call of the handler. It saw `records`, possibly up to its failure, and finished the first `done` of them."""

    at: int
    shard_id: str
    tenure: str
    pid: int
    records: tuple[Record, ...]
    done: int
    failed: bool = False


class Ended(NamedTuple):
    """The handler was told that all of a shard's records are handled."""

    at: int
    shard_id: str


Entry = Begun | Call | Ended


@dataclass
class Journal:
    """Times are nanoseconds since the epoch. `entries` are in each process's own order; sort them by `at` to mix
    them.
    """

    folder: Path
    entries: list[Entry] = field(default_factory=list)
    handled: set[str] = field(default_factory=set)
    last_call: dict[str, Call] = field(default_factory=dict)
    """Of each shard that has not ended."""
    pids: set[int] = field(default_factory=set)
    """Of every process that has written anything."""
    _read_to: dict[Path, int] = field(default_factory=dict)
    _tenures: dict[tuple[Path, str], int] = field(default_factory=dict)

    def read(self) -> None:
        """Reads new lines. An incomplete one is left for later, or for ever, if its process was killed while writing
        it."""
        for path in sorted(self.folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read_to.get(path, 0))
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read_to[path] = self._read_to.get(path, 0) + len(whole) + len(newline)
            for line in whole.splitlines():
                self._take(path, json.loads(line))

    def at_work(self, since: int) -> dict[int, set[str]]:
        """By process: the shards for which it was the last to be called, at `since` or later."""
        found: dict[int, set[str]] = {}
        for shard_id, call in self.last_call.items():
            if call.at >= since:
                found.setdefault(call.pid, set()).add(shard_id)
        return found

    def calls(self) -> Iterator[Call]:
        return (entry for entry in self.entries if isinstance(entry, Call))

    def _take(self, path: Path, line: list[Any]) -> None:
        what, at, shard_id, *fields = line
        pid = int(path.name.partition("-")[0])
        self.pids.add(pid)
        number = self._tenures.get((path, shard_id), 0)
        tenure = f"{path.stem} {shard_id} {number}"
        match what:
            case "acquired":
                self._tenures[path, shard_id] = number + 1
                tenure = f"{path.stem} {shard_id} {number + 1}"
                sequence_number, _, sub = fields[0].partition(":")
                self.entries.append(Begun(at, shard_id, tenure, pid, Checkpoint.parse(sequence_number, int(sub or 0))))
            case "call":
                done, rows, failed = fields
                records = tuple(Record(Checkpoint(number, sub), text) for number, sub, text in rows)
                call = Call(at, shard_id, tenure, pid, records, done, failed)
                self.entries.append(call)
                self.handled.update(record.text for record in records[:done])
                self.last_call[shard_id] = max(self.last_call.get(shard_id, call), call, key=_at)
            case "ended":
                self.entries.append(Ended(at, shard_id))
                self.last_call.pop(shard_id, None)
            case other:
                raise ValueError(f"{path}: no such entry: {other!r}")


def _at(call: Call) -> int:
    return call.at
