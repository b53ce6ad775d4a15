"""A scenario file: `because` says why, `given` is what is known, `expect` is the whole decision.

How leases and shards are written in `given`, both by their id:

    leases   {"7": "SHARD_END"} is short for {"7": {"checkpoint": "SHARD_END"}}; also `counter`, `owner`,
             `checkpoint_owner`, `holder`, `crashes`, `parents`, `children`, `hash_keys`, `kbps`, and `idle`: for how
             many seconds its counter is known to have stood still; `unheard`: since its owner was named
    reports  {"java-1": 20}: by worker id, how many seconds ago it reported to its KCL 3.x leader, in the lease table
    shards   {"4": {"parent": "2", "adjacent": "3", "start": 11, "open": false, "hash_keys": ["0", "99"]}}; or the name
             of a graph in graphs/. "hash_keys": "2/4" is the second of four equal parts; without it, all of them
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sublet.decisions.manager.liveness import Sighting
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.shard import FULL_RANGE, HashKeyRange, Shard
from sublet.protocol.worker_report import ReportPlace, WorkerReport
from sublet.settings import PREFIX, Settings

NOW = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
WIDTH = 110

Json = Any


class InOrder:
    """Chance without chance: a story is easier to read if chance picks the first by key."""

    def __init__(self) -> None:
        self._drawn = 0

    def shuffle(self, x: list[Any], /) -> None:
        pass

    def getrandbits(self, k: int, /) -> int:  # noqa: ARG002  - the Chance protocol's
        self._drawn += 1
        return self._drawn


@dataclass(frozen=True)
class Story:
    path: Path
    rewrite: bool

    @property
    def given(self) -> dict[str, Json]:
        return dict(json.loads(self.path.read_text())["given"])

    def check(self, decided: Json) -> None:
        """The decision as JSON must equal `expect`; or rewrite `expect`."""
        story = json.loads(self.path.read_text())
        if self.rewrite:
            story["expect"] = decided
            self.path.write_text(written(story) + "\n")
        assert decided == story["expect"], story["because"]


def leases(given: Mapping[str, Json]) -> list[Lease]:
    return [_lease(key, _long_form(text)) for key, text in given.get("leases", {}).items()]


def sightings(given: Mapping[str, Json]) -> dict[str, Sighting]:
    """Of the leases with an idle time."""
    described = {key: _long_form(text) for key, text in given.get("leases", {}).items()}
    return {
        lease.lease_key: Sighting(
            lease.lease_counter,
            lease.actual_owner,
            NOW - timedelta(seconds=described[lease.lease_key]["idle"]),
            described[lease.lease_key].get("unheard", False),
        )
        for lease in leases(given)
        if "idle" in described[lease.lease_key]
    }


def reports(given: Mapping[str, Json]) -> list[WorkerReport]:
    described = given.get("reports", {})
    return [
        WorkerReport(worker_id, NOW - timedelta(seconds=ago), ReportPlace.LEASE_TABLE)
        for worker_id, ago in described.items()
    ]


def shards(given: Mapping[str, Json]) -> list[Shard]:
    described = given.get("shards", {})
    if isinstance(described, str):
        described = json.loads((Path(__file__).parent / "graphs" / f"{described}.json").read_text())
    return [_shard(shard_id, fields) for shard_id, fields in described.items()]


def settings(given: Mapping[str, Json]) -> Settings:
    """As text, like a deployment's environment variables."""
    named = {PREFIX + name.upper(): text for name, text in given.get("settings", {}).items()}
    return Settings.from_environment({PREFIX + "APPLICATION": "app", PREFIX + "STREAM": "stream", **named})


def hash_keys(text: Json) -> HashKeyRange:
    if isinstance(text, str):
        part, parts = map(int, text.split("/"))
        size = FULL_RANGE.ending + 1
        return HashKeyRange(size * (part - 1) // parts, size * part // parts - 1)
    return HashKeyRange(int(text[0]), int(text[1]))


def hash_keys_written(hash_key_range: HashKeyRange | None) -> Json:
    return hash_key_range and [str(hash_key_range.starting), str(hash_key_range.ending)]


def written(value: Json, indent: int = 0, room: int = 0) -> str:
    """JSON for review: on one line if it fits."""
    inline = json.dumps(value, ensure_ascii=False)
    if len(inline) <= room or not isinstance(value, dict | list) or not value:
        return inline
    inner = "  " * (indent + 1)
    if isinstance(value, dict):
        keys: Iterable[tuple[str, Json]] = ((json.dumps(key) + ": ", item) for key, item in value.items())
    else:
        keys = (("", item) for item in value)
    lines = [inner + key + written(item, indent + 1, WIDTH - len(inner + key) - 1) for key, item in keys]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n" + ",\n".join(lines) + f"\n{'  ' * indent}{closing}"


def _long_form(text: Json) -> dict[str, Json]:
    return {"checkpoint": text} if isinstance(text, str) else dict(text)


def _lease(lease_key: str, fields: Mapping[str, Json]) -> Lease:
    return Lease(
        lease_key=lease_key,
        checkpoint=Checkpoint.parse(fields.get("checkpoint", "50")),
        lease_counter=fields.get("counter", 7),
        lease_owner=fields.get("owner"),
        checkpoint_owner=fields.get("checkpoint_owner"),
        holder=fields.get("holder"),
        throughput_kbps=fields.get("kbps"),
        crashes=fields.get("crashes", 0),
        holder_counter=fields.get("holder_counter"),
        parent_shard_ids=frozenset(fields.get("parents", [])),
        child_shard_ids=frozenset(fields.get("children", [])),
        hash_key_range=hash_keys(fields["hash_keys"]) if "hash_keys" in fields else None,
        start_at=datetime.fromisoformat(fields["start_at"]) if "start_at" in fields else None,
    )


def _shard(shard_id: str, fields: Mapping[str, Json]) -> Shard:
    return Shard(
        shard_id=shard_id,
        hash_key_range=hash_keys(fields.get("hash_keys", "1/1")),
        parent_shard_id=fields.get("parent"),
        adjacent_parent_shard_id=fields.get("adjacent"),
        starting_sequence_number=str(fields.get("start", 0)),
        is_open=fields.get("open", True),
    )
