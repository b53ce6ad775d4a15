"""What `sublet status`, `shards` and `workers` look at."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from sublet.cli.settings_options import settings_of
from sublet.errors import LeaseTableError, SettingsError
from sublet.protocol.stream_key import StreamKey, stream_key_of
from sublet.settings import Settings, StreamChoice
from sublet.settings.value import NO_STREAM

if TYPE_CHECKING:
    from sublet.decisions.fleet_status import FleetStatus
    from sublet.operate.standing import Watch
    from sublet.ports import Ports
    from sublet.protocol.lease import LeaseScan


def look_once(options: Namespace) -> FleetStatus:
    """What the tables say, and the stream if it is given. `options.probe` asks it."""
    watch, retention = watch_of(options, probes=getattr(options, "probe", False))
    return watch.look(retention)


def watch_of(options: Namespace, *, probes: bool) -> tuple[Watch, timedelta | None]:
    """With the stream's retention, if the stream is given. Probing needs the stream."""
    from sublet.operate.seek import check_stream
    from sublet.operate.standing import Watch

    settings = settings_of(options, os.environ, required=("application", *(("stream",) if probes else ())))
    ports = _ports(settings)
    if settings.stream == NO_STREAM or ports.streams is not None or not hasattr(options, "stream"):
        return Watch(ports, settings, probes), None
    scan = ports.table.scan()
    if scan.multi_stream and not scan.leases:
        return _watch_of_one_of_several(settings, scan, probes=probes)
    retention = ports.stream.describe().retention
    known = ports.sightings.load().stream
    check_stream(settings.application, known, scan.leases, ports.stream.list_shards(), ports)
    return Watch(ports, settings, probes), retention


def _watch_of_one_of_several(
    settings: Settings, scan: LeaseScan, *, probes: bool
) -> tuple[Watch, timedelta | None]:
    """Of an application of several streams, those shards alone that are of the given one."""
    from sublet.operate.standing import Watch

    key = _key_of(settings.stream, scan)
    several = replace(settings, stream="", stream_arn=None, streams=StreamChoice.parse(settings.stream))
    ports = _ports(several)
    assert ports.streams is not None
    return Watch(ports, several, probes, of=key), ports.streams.of(key).describe().retention


def _key_of(stream: str, scan: LeaseScan) -> StreamKey:
    """The latest of its name: one that was deleted and created again has other leases."""
    keys = {key for each in scan.multi_stream if (key := stream_key_of(each)) is not None}
    named = [key for key in keys if key.stream == stream]
    if not named:
        theirs = ", ".join(sorted({key.stream for key in keys}))
        raise SettingsError("stream", stream, f"one of this application's streams: {theirs}")
    return max(named, key=lambda key: key.epoch)


def _ports(settings: Settings) -> Ports:
    from sublet.aws.ports import aws_ports

    return with_sightings_if_there(aws_ports(settings, "sublet", output=None), needs_leases=True)


def with_sightings_if_there(ports: Ports, *, needs_leases: bool = False) -> Ports:
    """KCL's own tables have none beside them, and a role may not be allowed to read them. `needs_leases`: where there is no lease
    table either, raise what LeaseTable raises, instead of a word about sightings.
    """
    from sublet.memory import MemorySightingStore

    try:
        ports.sightings.load()
    except LeaseTableError as unknown:
        if needs_leases:
            ports.table.scan()
        print(f"sublet: expired owners are not known: {unknown}", file=sys.stderr)
        return replace(ports, sightings=MemorySightingStore(), control=None)
    return ports
