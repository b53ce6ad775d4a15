"""An operator rewinds a running KCL fleet, with the shards that a reshard has ended, and takes it back: by sublet's own
commands."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import decode_row
from sublet.protocol.snapshot import Snapshot, read_snapshot

from tests.e2e.deliveries import wait_until
from tests.interop.build import Profile
from tests.interop.workers import Java
from tests.mixed_fleet.stage import PATIENCE, Stage

REWOUND_BY = "10s"
CLEANUP_MILLIS = 2_000
"""KCL removes the rows of shards that have ended so often: every minute, and after five, by default."""
COMMAND_LIMIT = 120.0


@dataclass(frozen=True)
class Seeking:
    """Two KCL workers, so that either may go on with a lease that was moved."""

    stage: Stage
    java: Java
    profile: Profile
    repeats_nothing: Container[str] = ()
    settings: ClassVar[Mapping[str, int]] = {}
    """Of the KCL workers."""

    def run(self) -> None:
        stage = self.stage
        stage.watch.is_moved_back = True
        with stage.producing():
            self._begin()
            everything = list(stage.fleet.put)
            stage.fleet.recorder.wait_for(everything, PATIENCE)

            since = self._sublet("seek", "earliest")
            self._come_again(everything, since, "a seek to the earliest")

            last = self._last_snapshot()
            since = self._sublet("undo")
            self._is_undone(last, since)
            self._settled("an undo")

            recent = stage.fleet.produce(stage.keys)
            stage.fleet.recorder.wait_for(recent, PATIENCE)
            since = self._sublet("seek", REWOUND_BY)
            self._come_again(recent, since, f"a seek by {REWOUND_BY}")
        stage.drained()

    def _begin(self) -> None:
        """The start of every story: two workers, and a split."""
        for name in ("1", "2"):
            self.stage.hire(self.java.kcl(self.profile, name, **self.settings))
        self._settled("two workers have started")
        self._split("a split")

    def _split(self, what: str) -> None:
        self.stage.fleet.split()
        self._settled(what)

    def _settled(self, what: str) -> None:
        """KCL 3.x lets one worker have all leases while their throughput is low."""
        self.stage.settle(what, self.stage.alive(), each=self.profile is Profile.KCL_2)

    def _sublet(self, *command: str) -> int:
        """When it began, in nanoseconds since the epoch."""
        employer, since = self.java.employer, time.time_ns()
        options = ["--application", employer.application, "--stream", employer.stream]
        done = subprocess.run(
            [sys.executable, "-m", "sublet", *command, *options, "--execute", "--confirm", employer.application],
            env=employer.environment,
            cwd=employer.folder,
            capture_output=True,
            text=True,
            timeout=COMMAND_LIMIT,
            check=False,
        )
        self.stage.tell(f"$ sublet {' '.join(command)}\n{done.stdout}{done.stderr}")
        assert done.returncode == 0, f"sublet {command[0]} has ended with {done.returncode}"
        return since

    def _come_again(self, texts: Iterable[str], since: int, what: str) -> None:
        started, wanted = time.monotonic(), set(texts)

        def missing() -> set[str]:
            again = (each.text for each in self.stage.fleet.recorder.deliveries() if each.at > since)
            return wanted.difference(again)

        wait_until(lambda: not missing(), PATIENCE, lambda: f"{what}: did not come again: {sorted(missing())[:10]}")
        self.stage.note(f"{what}: {len(wanted)} records have come again", started)

    def _last_snapshot(self) -> Snapshot:
        """A KCL application has no sightings table, so that its snapshots are files."""
        files = self.java.employer.folder.glob("*-snapshot-*.json")
        return max((read_snapshot(file.read_text()) for file in files), key=lambda each: each.taken_at)

    def _is_undone(self, snapshot: Snapshot, since: int) -> None:
        """The undo wrote exactly the positions that the seek had replaced. It leaves a shard that has ended again."""

        def undone() -> set[str]:
            writes = [row for at, _, row in [*self.stage.history.writes] if row is not None and at >= since]
            rows = map(decode_row, [*writes, *self.stage.watch.rows.values()])
            return {
                lease.lease_key
                for lease in rows
                if isinstance(lease, Lease) and (lease.lease_owner is None or lease.is_ended)
                if lease.position == snapshot.positions.get(lease.lease_key)
            }

        wait_until(
            lambda: undone() >= {*snapshot.moved},
            PATIENCE,
            lambda: f"not undone: {sorted({*snapshot.moved} - undone())}",
        )


@dataclass(frozen=True)
class SeekingBehindCleanup(Seeking):
    """Two splits of the same keys, whose parents' rows the KCL has removed before the seek: it makes them again. Java's
    workers do not wait for a parent without a row, so that only what comes is promised, not its order."""

    settings: ClassVar[Mapping[str, int]] = {"leaseCleanupMillis": CLEANUP_MILLIS}

    def run(self) -> None:
        stage = self.stage
        stage.watch.is_moved_back = True
        with stage.producing():
            self._begin()
            self._split("a split of its child")
            everything = list(stage.fleet.put)
            stage.fleet.recorder.wait_for(everything, PATIENCE)
            self._cleaned_up()
            since = self._sublet("seek", "earliest")
            self._come_again(everything, since, "a seek to the earliest over two generations without rows")
        stage.drained()

    def _cleaned_up(self) -> None:
        started = time.monotonic()
        shards = self.stage.fleet.kinesis.list_shards(StreamName=self.stage.fleet.stream)["Shards"]
        ended = {each["ShardId"] for each in shards} - {each["ShardId"] for each in self.stage.fleet.open_shards()}
        assert len(ended) > 1, f"one generation only: {ended}"
        wait_until(
            lambda: ended.isdisjoint(self.stage.watch.rows),
            PATIENCE,
            lambda: f"not cleaned up: {sorted(ended.intersection(self.stage.watch.rows))}",
        )
        self.stage.note(f"KCL has removed the rows of {len(ended)} shards that have ended", started)
