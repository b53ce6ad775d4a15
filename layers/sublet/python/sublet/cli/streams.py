"""`sublet streams`: the streams of an application that reads several, and removing the leases of one that has left."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sublet.cli.command import Command, explain
from sublet.cli.settings_options import add_setting, settings_of
from sublet.cli.shown import printable, time_text
from sublet.errors import RemovalRefused, StreamError, StreamNotFound
from sublet.settings import DEFINITIONS

if TYPE_CHECKING:
    from sublet.decisions.stream_standing import StreamStanding
    from sublet.ports import Stream
    from sublet.protocol.stream_key import StreamKey

DESCRIPTION = """\
Show the streams of an application that reads several, with one word for each: READ, LEFT (no lease manager has named it for
former_streams_wait), GONE (it was deleted, or there is a newer one of its name) or UNKNOWN (a KCL fleet may read it). Leases of a
stream that is not read wait.

`sublet streams remove STREAM` deletes the leases of a stream that has left or is gone, and with them its positions. It refuses
while a worker reads the stream, while a lease manager still names it, and, for one that is gone, if Kinesis describes it. It
names the stream's fan-out consumer, which goes on costing, and leaves it.

The exit code is 0, or 2 for an error or a refusal."""

EXAMPLES = """\
examples:
  sublet streams --application orders-audit
  sublet streams remove returns --application orders-audit"""

SETTINGS = ("application", "former_streams_wait", "failover_time")


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "action", nargs="?", choices=["remove"], help="delete the leases of a stream that is not read"
    )
    # Not `stream`: `settings_of` would take it for the setting, which neither takes a key nor goes with `streams`.
    parser.add_argument(
        "named", nargs="?", metavar="STREAM", help="its name, or account:stream:creation epoch"
    )
    parser.add_argument(
        "--consumer",
        metavar="NAME",
        help="with remove: of the fan-out consumer to look for on the stream; the application's by default",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    for name in SETTINGS:
        add_setting(parser, DEFINITIONS[name])


def run_streams(options: Namespace) -> int:
    from sublet.aws import clients
    from sublet.aws.dynamodb import DynamoDbLeaseTable
    from sublet.aws.sightings import DynamoDbSightingStore
    from sublet.operate.streams import chosen, remove, standings
    from sublet.system.clock import SystemClock

    settings = settings_of(options, os.environ, required=("application",))
    table = DynamoDbLeaseTable(clients.dynamodb_client(), settings.lease_table, several=True)
    store, clock = DynamoDbSightingStore(clients.dynamodb_client, settings.sightings_table), SystemClock()
    found = standings(table, store, settings, clock.now)
    if options.action is None:
        print(
            json.dumps([stream_json(each) for each in found], indent=2)
            if options.json
            else "\n".join(lines_of(found))
        )
        return 0
    if options.named is None:
        raise RemovalRefused("which stream? `sublet streams remove STREAM`")
    standing = chosen(found, options.named)
    removed = remove(standing, table, store, _stream_of(standing.stream), settings, clock.now())
    print(f"removed {removed} leases of stream {printable(str(standing.stream))}")
    if (left := consumer_left(standing.stream, options.consumer or settings.fan_out_name)) is not None:
        print(left)
    return 0


def consumer_left(key: StreamKey, name: str) -> str | None:
    """What to say of the stream's fan-out consumer of this name; None without one, or without the stream: a newer stream of its
    name has its own consumer.
    """
    from sublet.aws.account import AwsAccount

    try:
        _stream_of(key).describe()
        arn = AwsAccount().consumer_arn(key.stream, name)
    except StreamNotFound:
        return None
    except StreamError as problem:
        return printable(f"whether the stream keeps a fan-out consumer {name} is not known: {problem}")
    if arn is None:
        return None
    return printable(
        f"the stream keeps the fan-out consumer {name}, which is charged for until you deregister it: "
        f"aws kinesis deregister-stream-consumer --consumer-arn {arn}"
    )


def _stream_of(key: StreamKey) -> Stream:
    from sublet.aws.account import AwsAccount
    from sublet.several_streams import StreamOfSeveral

    return StreamOfSeveral(key, AwsAccount().reading(key.stream))


def lines_of(found: Sequence[StreamStanding]) -> Iterable[str]:
    """Yields a line for each stream."""
    if not found:
        yield "the application has no leases of several streams"
        return
    width = max(len(str(each.stream)) for each in found)
    yield f"{'stream':<{width}}  {'word':<8} {'leases':>7} {'workers':>8}  named at"
    for each in found:
        named = "-" if each.named_at is None else time_text(each.named_at)
        name = printable(str(each.stream))
        yield f"{name:<{width}}  {each.word:<8} {len(each.leases):>7} {len(each.owners):>8}  {named}"


def stream_json(standing: StreamStanding) -> dict[str, object]:
    return {
        "stream": standing.stream.stream,
        "account": standing.stream.account,
        "created_at": None if (created := standing.stream.created_at) is None else created.isoformat(),
        "key": str(standing.stream),
        "word": standing.word.value,
        "leases": len(standing.leases),
        "workers": list(standing.owners),
        "named_at": None if standing.named_at is None else standing.named_at.isoformat(),
    }


COMMAND = Command("streams", "the streams of an application that reads several", add_arguments, run_streams)
