"""Takes the look that `sublet status`, `shards` and `workers` show."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from sublet.command_line.terminal_text import harmless
from sublet.errors import LeaseTableError
from sublet.operate.cli.options.one_stream import one_stream
from sublet.operate.cli.options.operated import operated
from sublet.settings.value import NO_STREAM

if TYPE_CHECKING:
    from collections.abc import Callable

    from sublet.decisions.status.fleet_status import FleetStatus
    from sublet.operate.status_watch import Watch
    from sublet.ports import Ports

LOOKS_EVERY = timedelta(seconds=10)
"""How often a command looks with --watch."""

HOME_AND_CLEAR = "\x1b[H\x1b[J"


def look_once(options: Namespace) -> FleetStatus:
    """Reads the tables and, if a stream is given, its description. With `options.probe` it also asks the shards."""
    watch, retention = watch_of(options, probes=getattr(options, "probe", False))
    return watch.look(retention)


def watch_of(
    options: Namespace, *, probes: bool, seen_by: Callable[[Ports], Ports] = lambda ports: ports
) -> tuple[Watch, timedelta | None]:
    """Returns the watch, and the stream's retention if a stream is given. Probing needs the stream. `seen_by`: through
    which every call goes, those of finding the application too.
    """
    from sublet.operate.positions.seek import check_stream
    from sublet.operate.status_watch import Watch

    settings, ports = operated(options, required=("application", *(("stream",) if probes else ())))
    ports = with_sightings_if_there(seen_by(ports), needs_leases=True)
    if (named := getattr(options, "one_stream", None)) is not None:
        ports = _of_one_stream(named, ports, settings.application)
    if settings.stream == NO_STREAM or not hasattr(options, "stream"):
        return Watch(ports, settings, probes), None
    retention = retention_of(ports)
    if ports.streams is not None:
        return Watch(ports, settings, probes), retention
    scan, known = ports.table.scan(), ports.sightings.load().stream
    check_stream(settings.application, known, scan.leases, ports.stream.list_shards(), ports)
    return Watch(ports, settings, probes), retention


def _of_one_stream(named: str, ports: Ports, application: str) -> Ports:
    from sublet.reading.several_streams import LeasesOfStreams

    streams = one_stream(named, ports.table.scan(), application, ports.sightings.load().stream)
    return ports if streams is None else replace(ports, table=LeasesOfStreams(ports.table, frozenset(streams)))


def retention_of(ports: Ports) -> timedelta | None:
    """Returns None for several streams, because each has its own retention."""
    if ports.streams is None:
        return ports.stream.describe().retention
    found = ports.streams.find().streams
    return ports.streams.of(found[0].stream).describe().retention if len(found) == 1 else None


def with_sightings_if_there(ports: Ports, *, needs_leases: bool = False) -> Ports:
    """Continues without sightings if they cannot be read: an application of KCL alone has none, and a role may not be
    allowed to read them. `needs_leases`: if the lease table cannot be read either, raise what LeaseTable raises,
    instead of warning about the sightings.
    """
    from sublet.engine.manager.memory_sightings import MemorySightingStore

    try:
        ports.sightings.load()
    except LeaseTableError as unknown:
        if needs_leases:
            ports.table.scan()
        print(f"sublet: expired owners are not known: {harmless(str(unknown))}", file=sys.stderr)
        return replace(ports, sightings=MemorySightingStore(), control=None)
    return ports
