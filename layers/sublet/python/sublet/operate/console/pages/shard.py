"""The page of one shard: all that is known of its lease, and its parents and children."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from sublet.decisions.load.resharding import aws_command
from sublet.decisions.session.control import pause_of
from sublet.decisions.status.shard_status import ShardStatus
from sublet.errors import ShardNotFound, SubletError
from sublet.operate.console.applications import OpenApplication
from sublet.operate.console.console_parts import Console, opened
from sublet.operate.console.rendering import LIVE_HEADER, page
from sublet.operate.console.watching import ApplicationView
from sublet.operate.rules.hot_shards import HotShard
from sublet.operate.rules.shard_history import NOT_KEPT, ShardEvent, shard_history
from sublet.protocol.control import NO_CONTROL
from sublet.protocol.lease import Lease, lease_key_of

EVENTS_MAX = 50


def show(console: Console, request: Request) -> Response:
    application = opened(console, request.path_params["application"])
    seen = console.watching.seen(application.name) or ApplicationView()
    shards = {} if seen.status is None else {shard.shard_id: shard for shard in seen.status.shards}
    name = request.path_params["shard"]
    if seen.status is None and seen.problem:
        raise SubletError(f"{application.name} could not be read: {seen.problem}")
    if name not in shards:
        raise ShardNotFound(f"{application.name} has no lease of shard {name}")
    shard = shards[name]
    hot = None if seen.heat is None else seen.heat.shards.get(name)
    is_whole = LIVE_HEADER not in request.headers
    return page(
        request,
        "shard.html",
        application=application,
        seen=seen,
        shard=shard,
        hot=hot,
        command=command_of(application, hot),
        parents=[(each, shards.get(each)) for each in sorted(shard.parents)],
        children=[(each, shards.get(each)) for each in children_of(shard, shards)],
        events=_events(application, name) if is_whole else (),
        not_kept=NOT_KEPT,
        tab="shards",
    )


def command_of(application: OpenApplication, hot: HotShard | None) -> str | None:
    """Returns AWS' command for the verdict; None if there is no such command."""
    if hot is None or hot.change is None or application.stream is None:
        return None
    return aws_command(application.stream, hot.change)


def _events(application: OpenApplication, shard_id: str) -> Sequence[ShardEvent]:
    """Returns what is known of the shard's past, newest first. It is read when the page is opened, and not at each
    refresh.
    """
    ports, key = application.ports, lease_key_of(shard_id)
    try:
        row = ports.table.get(key)
        if not isinstance(row, Lease):
            return ()
        sighting = ports.sightings.load().sightings.get(key)
        control = NO_CONTROL if ports.control is None else ports.control.control()
        pause = pause_of(control, key, ports.clock.now())
        found = shard_history(row, application.snapshots.snapshots(), sighting, pause)
    except SubletError:  # a role may not read all of it; the rest of the page does not need it
        return ()
    return tuple(reversed(found.events))[:EVENTS_MAX]


def children_of(shard: ShardStatus, shards: Mapping[str, ShardStatus]) -> list[str]:
    """Finds the children in the shard's own row and in the children's rows, since Java names them in the former only
    when the shard ends.
    """
    by_theirs = {each.shard_id for each in shards.values() if shard.shard_id in each.parents}
    return sorted(shard.children | by_theirs)
