"""`sublet tail`: shows the records of all shards as they arrive."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from typing import TYPE_CHECKING

from sublet.command_line.command import Command, explain
from sublet.operate.cli.options.arguments import add_streams, place, streams_named
from sublet.operate.cli.options.decoding import add_decoding, decoding, tell_unjudged
from sublet.operate.cli.text.record_text import add_form, add_selecting, count, decoded_text, is_selected

if TYPE_CHECKING:
    from sublet.ports import Ports

DESCRIPTION = """\
Show the records of one stream or several as they arrive in any shard, until Ctrl-C. KPL aggregates are expanded, and
reshards are followed. It holds no lease, moves nothing, and reads each shard at most once a second: the readers of a
provisioned shard share five reads and 2 MB a second, and reading an on-demand stream is charged for. Records are
payload: mind who sees the terminal."""

EXAMPLES = """\
examples:
  sublet tail --stream orders
  sublet tail --stream orders --key customer-7 --text
  sublet tail --stream orders --from earliest --grep total -n 4 --json
  sublet tail --stream orders --decode msgpack --text
  sublet tail --streams 'orders,audit-*'"""


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "--from",
        dest="place",
        type=place,
        default="latest",
        metavar="POSITION",
        help="begin at earliest, latest, a time, or how long ago (default: latest)",
    )
    parser.add_argument(
        "--shard",
        dest="shards",
        metavar="SHARD",
        action="append",
        default=[],
        help="only this shard and its children; may be repeated",
    )
    parser.add_argument("-n", "--records", type=count, metavar="NUMBER", help="end after so many")
    add_selecting(parser)
    add_decoding(parser)
    add_form(parser)
    add_streams(parser)


def tail(options: Namespace) -> int:
    from sublet.operate.aws.ports import CommandPorts

    with suppress(KeyboardInterrupt):
        show(options, CommandPorts(streams_named(options, os.environ)))
    return 0


def show(options: Namespace, ports: Ports) -> None:
    from sublet.operate.tail import Tail
    from sublet.reading.several_streams import named_shards

    shards = frozenset(named_shards(options.shards, ports)) or None
    shown, looking = 0, decoding(options, os.environ)
    try:
        for shard_id, record in Tail(ports, options.place.moment(ports.stream.service_time()), shards).records():
            decoded = looking.of(record) if is_selected(record, options) else None
            if decoded is not None:
                print(decoded_text(decoded, options.form, shard_id, is_stated=looking.is_stated), flush=True)
                shown += 1
                if shown == options.records:
                    return
    finally:
        tell_unjudged(looking)


COMMAND = Command("tail", "show the records of all shards as they arrive", add_arguments, tail)
