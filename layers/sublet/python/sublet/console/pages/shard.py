"""One shard: all that is known of its lease, and the shards before and after it."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from sublet.console.console import Console, opened
from sublet.console.rendering import page
from sublet.console.watching import Seen
from sublet.decisions.shard_status import ShardStatus
from sublet.errors import ShardNotFound


def show(console: Console, request: Request) -> Response:
    application = opened(console, request.path_params["application"])
    seen = console.watching.seen(application.name) or Seen()
    shards = {} if seen.status is None else {shard.shard_id: shard for shard in seen.status.shards}
    name = request.path_params["shard"]
    if name not in shards:
        raise ShardNotFound(f"{application.name} has no lease of shard {name}")
    shard = shards[name]
    return page(
        request,
        "shard.html",
        application=application,
        seen=seen,
        shard=shard,
        parents=[(each, shards.get(each)) for each in sorted(shard.parents)],
        children=[(each, shards.get(each)) for each in children_of(shard, shards)],
        tab="shards",
    )


def children_of(shard: ShardStatus, shards: Mapping[str, ShardStatus]) -> list[str]:
    """By its own row, and by those of the children: Java writes the one only when the shard ends."""
    by_theirs = {each.shard_id for each in shards.values() if shard.shard_id in each.parents}
    return sorted(shard.children | by_theirs)
