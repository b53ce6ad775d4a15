"""`sublet streams`: lists the streams of an application that reads several, and removes the leases of one that has
left.
"""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sublet.command_line.command import Command, explain
from sublet.command_line.settings_options import add_setting, settings_of
from sublet.command_line.terminal_text import printable
from sublet.decisions.plurals import counted
from sublet.errors import RemovalRefused, StreamError, StreamNotFound
from sublet.operate.cli.options.one_stream import add_one_stream
from sublet.operate.formatting import time_text
from sublet.protocol.stream_identity import stream_settings
from sublet.settings import DEFINITIONS

if TYPE_CHECKING:
    from sublet.decisions.streams.stream_status import StreamStanding
    from sublet.ports import Stream
    from sublet.protocol.stream_key import StreamKey

DESCRIPTION = """\
List the streams of an application that reads several, with a status for each:

  READ      workers read it
  LEFT      no lease manager has named it for former_streams_wait; its leases wait
  GONE      it was deleted, or there is a newer stream of its name; its leases wait
  UNKNOWN   a KCL fleet may read it

`sublet streams remove STREAM` deletes the leases of a stream that has left or is gone, and with them its positions. It
refuses while a worker reads the stream or a lease manager names it, and, if the stream is gone, while Kinesis still
describes it. It does not deregister the stream's fan-out consumer, for which AWS still charges, but prints how to.

The exit code is 0, or 2 for an error or a refusal."""

EXAMPLES = """\
examples:
  sublet streams --application orders-audit
  sublet streams remove returns --application orders-audit"""

SETTINGS = ("application", "former_streams_wait", "failover_time")


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "action", nargs="?", choices=["remove"], help="delete the leases of a stream that is no longer read"
    )
    # Not `stream`: `settings_of` would take it for the setting, which neither takes a key nor goes with `streams`.
    parser.add_argument(
        "named", nargs="?", metavar="STREAM", help="the stream's name, or account:stream:creation epoch"
    )
    parser.add_argument(
        "--consumer",
        metavar="NAME",
        help="with remove: the name of the fan-out consumer to look for (default: the application's name)",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_one_stream(parser)
    for name in SETTINGS:
        add_setting(parser, DEFINITIONS[name])


def run_streams(options: Namespace) -> int:
    from sublet.aws import clients
    from sublet.aws.tables.lease_table import DynamoDbLeaseTable
    from sublet.aws.tables.sightings import DynamoDbSightingStore
    from sublet.operate.stream_removal import chosen, remove, standings
    from sublet.system.clock import SystemClock

    settings = settings_of(options, os.environ, required=("application",))
    table = DynamoDbLeaseTable(clients.dynamodb_client(), settings.lease_table, several=True)
    store, clock = DynamoDbSightingStore(clients.dynamodb_client, settings.sightings_table), SystemClock()
    found = standings(table, store, settings, clock.now)
    if options.action is None:
        if options.one_stream is not None:
            named = stream_settings(options.one_stream)["stream"]
            found = tuple(each for each in found if each.stream.stream == named)
        print(
            json.dumps([stream_json(each) for each in found], indent=2) if options.json else "\n".join(lines_of(found))
        )
        return 0
    if options.named is None:
        raise RemovalRefused("name the stream whose leases to delete: `sublet streams remove STREAM`")
    standing = chosen(found, options.named)
    removed = remove(standing, table, store, _stream_of(standing.stream), settings, clock.now())
    print(f"removed {counted(removed, 'lease')} of stream {printable(str(standing.stream))}")
    if (left := consumer_left(standing.stream, options.consumer or settings.fan_out_name)) is not None:
        print(left)
    return 0


def consumer_left(key: StreamKey, name: str) -> str | None:
    """Describes the stream's fan-out consumer of this name. None if there is no such consumer, or no such stream: a
    newer stream of the same name has its own consumer.
    """
    from sublet.aws.account import AwsAccount

    try:
        _stream_of(key).describe()
        arn = AwsAccount().consumer_arn(key.stream, name)
    except StreamNotFound:
        return None
    except StreamError as problem:
        return printable(f"it is not known whether the stream has a fan-out consumer {name}: {problem}")
    if arn is None:
        return None
    return printable(
        f"the stream still has the fan-out consumer {name}, and AWS charges for it until you deregister it: "
        f"aws kinesis deregister-stream-consumer --consumer-arn {arn}"
    )


def _stream_of(key: StreamKey) -> Stream:
    from sublet.aws.account import AwsAccount
    from sublet.reading.several_streams import StreamOfSeveral

    return StreamOfSeveral(key, AwsAccount().reading(key.stream))


def lines_of(found: Sequence[StreamStanding]) -> Iterable[str]:
    """Yields a line for each stream."""
    if not found:
        yield "the application has no leases of several streams"
        return
    width = max(len(str(each.stream)) for each in found)
    yield f"{'stream':<{width}}  {'status':<8} {'leases':>7} {'workers':>8}  named at"
    for each in found:
        named = "-" if each.named_at is None else time_text(each.named_at)
        name = printable(str(each.stream))
        yield f"{name:<{width}}  {each.status:<8} {len(each.leases):>7} {len(each.owners):>8}  {named}"


def stream_json(standing: StreamStanding) -> dict[str, object]:
    return {
        "stream": standing.stream.stream,
        "account": standing.stream.account,
        "created_at": None if (created := standing.stream.created_at) is None else created.isoformat(),
        "key": str(standing.stream),
        "status": standing.status.value,
        "word": standing.status.value,  # its name in 0.2
        "leases": len(standing.leases),
        "workers": list(standing.owners),
        "named_at": None if standing.named_at is None else standing.named_at.isoformat(),
    }


COMMAND = Command("streams", "list the streams of an application that reads several", add_arguments, run_streams)
