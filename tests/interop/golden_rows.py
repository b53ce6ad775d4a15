"""Rewrites tests/data/kcl_2_rows.json and the others of CAPTURES: a row of each kind, as Java's KCL wrote it.

`python -m tests.interop.golden_rows [kcl2] [kcl3] [kcl2-several] [kcl3-several]`. Plays the life of one application and
watches every write to its table: KCL takes, checkpoints, ends, begins children and, in 3.x, hands over; plus the rows
that are not leases. A second application starts at a timestamp and prepares its checkpoints, a third starts at LATEST,
and one with 3.4 keeps other data in tables of their own. With `several`, each application reads two streams
(MultiStreamTracker).
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_key import StreamKey

from infra.local.embedded import ROOT, EmbeddedAws, embedded_aws
from tests.e2e.deliveries import wait_until
from tests.interop.build import Profile, build, problem
from tests.interop.stories.handoff import ask_for_handoff, hand_over
from tests.interop.workers import Java, end_by_exception
from tests.mixed_fleet.history import Row
from tests.mixed_fleet.stage import Stage, new_fleet, stage_of
from tests.mixed_fleet.workers import Employer, Side, Worker

DATA = ROOT / "tests" / "data"
PATIENCE = 240.0


class Capture(NamedTuple):
    """`streams`: how many each application reads."""

    profile: Profile
    streams: int
    file: Path


CAPTURES: Mapping[str, Capture] = {
    "kcl2": Capture(Profile.KCL_2, 1, DATA / "kcl_2_rows.json"),
    "kcl3": Capture(Profile.KCL_3, 1, DATA / "kcl_3_rows.json"),
    "kcl2-several": Capture(Profile.KCL_2, 2, DATA / "kcl_2_several_rows.json"),
    "kcl3-several": Capture(Profile.KCL_3, 2, DATA / "kcl_3_several_rows.json"),
}
Found = dict[str, Row]


def _checkpoint(row: Row) -> str:
    return str(row.get("checkpoint", {}).get("S", ""))


def _is_kcls(row: Row) -> bool:
    return str(row.get("leaseOwner", {}).get("S", "kcl")).startswith("kcl")


def _is_mine(row: Row) -> bool:
    return _is_kcls(row) and "leaseOwner" in row and "subletHolder" not in row


def _parents(row: Row) -> int:
    return len(row.get("parentShardId", {}).get("SS", ()))


LEASES: Mapping[str, Callable[[Row], bool]] = {
    "created": lambda row: _checkpoint(row) == "TRIM_HORIZON" and "leaseOwner" not in row and not _parents(row),
    "taken": lambda row: _checkpoint(row) == "TRIM_HORIZON" and _is_mine(row),
    "held": lambda row: _checkpoint(row).isdecimal() and _is_mine(row),
    "aggregated": lambda row: _is_mine(row) and row.get("checkpointSubSequenceNumber") not in (None, {"N": "0"}),
    "ended": lambda row: _checkpoint(row) == "SHARD_END" and "childShardIds" in row and _is_mine(row),
    "child_of_a_split": lambda row: _parents(row) == 1 and _is_kcls(row),
    "child_of_a_merge": lambda row: _parents(row) == 2 and _is_kcls(row),
    "taken_from_sublet": lambda row: (
        _is_kcls(row) and {"subletHolder", "leaseOwner"} <= row.keys() and "checkpointOwner" not in row
    ),
    "handing_over_to_kcl": lambda row: str(row.get("checkpointOwner", {}).get("S", "")).startswith("sublet"),
    "handing_over_to_sublet": lambda row: str(row.get("checkpointOwner", {}).get("S", "")).startswith("kcl"),
    "at_timestamp": lambda row: _checkpoint(row) == "AT_TIMESTAMP",
    "latest": lambda row: _checkpoint(row) == "LATEST",
    "pending": lambda row: "pendingCheckpoint" in row,
}
LIFE = ("created", "taken", "held", "aggregated", "ended", "child_of_a_split", "child_of_a_merge")
ENTITY = "entity_"
SIDE_TABLE = "side_table_"


def main() -> int:
    end_by_exception()
    if why := problem():
        print(why, file=sys.stderr)
        return 1
    build()
    with embedded_aws() as aws:
        for name in sys.argv[1:] or CAPTURES:
            capture, found = CAPTURES[name], Found()
            _life(aws, capture, found)
            _beginnings(aws, capture, found)
            if capture == CAPTURES["kcl3"]:
                _tables_of_its_own(aws, found)
            _write(capture.file, found)
    return 0


def _write(file: Path, found: Found) -> None:
    file.write_text(json.dumps(found, indent=2, sort_keys=True, default=_binary) + "\n")
    print(f"{file.relative_to(ROOT)}: {', '.join(sorted(found))}", flush=True)


class Application(NamedTuple):
    """Both sides' workers, which read the stage's stream, or it and others."""

    stage: Stage
    java: Java
    sublet: Callable[[str], Worker]


def _life(aws: EmbeddedAws, capture: Capture, found: Found) -> None:
    profile = capture.profile
    with _application(aws, f"rows-{profile}-{capture.streams}", capture.streams) as (stage, java, sublet):
        kcl = stage.hire(java.kcl(profile, "1"))
        _collect(stage, found, LIFE[:4])
        stage.fleet.split()
        _collect(stage, found, LIFE[:6])
        stage.fleet.merge()
        _collect(stage, found, LIFE)
        ours = stage.hire(sublet("1"))
        if profile is Profile.KCL_3:
            hand_over(stage, kcl, ours)
            ask_for_handoff(stage, ours, kcl)
            _collect(stage, found, ["handing_over_to_sublet", "handing_over_to_kcl"])
        kcl.kill()
        wait_until(
            lambda: {*stage.watch.owners().values()} == {ours.worker_id},
            PATIENCE,
            lambda: f"{ours.worker_id} has not all leases: {stage.watch.owners()}",
        )
        ours.kill()
        stage.hire(java.kcl(profile, "2"))
        _collect(stage, found, ["taken_from_sublet"])
        time.sleep(5)  # what is no lease is written as time goes by
        _collect_entities(stage, found)


def _beginnings(aws: EmbeddedAws, capture: Capture, found: Found) -> None:
    profile = capture.profile
    for kind, position, settings, kinds in (
        ("at-timestamp", f"AT_TIMESTAMP:{time.time():.3f}", {"prepares": "true"}, ("at_timestamp", "pending")),
        ("latest", "LATEST", {}, ("latest",)),
    ):
        name = f"rows-{profile}-{capture.streams}-{kind}"
        with _application(aws, name, capture.streams, position) as (stage, java, _):
            stage.hire(java.kcl(profile, "1", **settings))
            _collect(stage, found, kinds)


def _tables_of_its_own(aws: EmbeddedAws, found: Found) -> None:
    """3.4 keeps in separate tables what 3.5 keeps in the lease table."""
    with _application(aws, "rows-kcl34") as (stage, java, _), stage.producing():
        stage.handles(stage.hire(java.kcl(Profile.KCL_3_4, "1")))
        time.sleep(40)  # a report of metrics, every 30 s
        for table in ("WorkerMetricStats", "CoordinatorState"):
            rows = stage.fleet.dynamodb.scan(TableName=f"{stage.fleet.stream}-{table}")["Items"]
            found.update({f"{SIDE_TABLE}{table}_{number}": row for number, row in enumerate(rows)})


@contextmanager
def _application(
    aws: EmbeddedAws, name: str, streams: int = 1, position: str = "TRIM_HORIZON"
) -> Iterator[Application]:
    with tempfile.TemporaryDirectory() as folder:
        fleet = new_fleet(aws, name, 2, Path(folder))
        beside = [new_fleet(aws, f"{name}-beside-{number}", 1, Path(folder)).stream for number in range(1, streams)]
        stage = stage_of(fleet, Path(folder), lambda line: print(line, flush=True))
        stage.history.start()
        try:
            yield _both_sides(aws, stage, [name, *beside], position)
        finally:
            stage.end()
            stage.history.stop()


def _both_sides(aws: EmbeddedAws, stage: Stage, streams: Sequence[str], position: str) -> Application:
    """Java is given several streams by their keys, and sublet by their names."""
    keys = ",".join(_key(stage, stream) for stream in streams)
    name = stage.fleet.stream
    employer = Employer(aws, name, name, stage.folder, position, failover_seconds=5)
    if len(streams) == 1:
        return Application(stage, Java(employer), employer.sublet)
    several = partial(replace(employer, stream="").sublet, streams=",".join(streams))
    return Application(stage, Java(replace(employer, stream=keys)), several)


def _key(stage: Stage, stream: str) -> str:
    found = stage.fleet.kinesis.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]
    return str(StreamKey.of(StreamIdentity(found["StreamARN"], found["StreamCreationTimestamp"])))


def _collect(stage: Stage, found: Found, kinds: tuple[str, ...] | list[str]) -> None:
    """Put records until a row of each kind has been written."""

    def seen() -> bool:
        stage.fleet.produce(["key-1", "key-2", "key-3"], aggregated=True)
        for kind in set(kinds) - found.keys():
            rows = (written.row for written in stage.history.writes if written.row)
            if row := next((row for row in rows if _checkpoint(row) and LEASES[kind](row)), None):
                found[kind] = row
        return set(kinds) <= found.keys()

    wait_until(seen, PATIENCE, lambda: f"{set(kinds) - found.keys()} never came")


def _collect_entities(stage: Stage, found: Found) -> None:
    for written in stage.history.writes:
        kind = (written.row or {}).get("entityType", {}).get("S", "LEASE")
        if kind != "LEASE" and written.row and not written.key.startswith(Side.SUBLET):
            found[f"{ENTITY}{kind}"] = written.row


def _binary(value: object) -> Any:
    """DynamoDB's own JSON has binary as base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{value!r} is not of DynamoDB's JSON")


if __name__ == "__main__":
    sys.exit(main())
