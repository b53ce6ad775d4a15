"""`sublet peek`: shows the records that come next in a shard."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from sublet.command_line.command import Command, explain
from sublet.command_line.settings_options import add_setting
from sublet.operate.cli.options.arguments import place, stream_named
from sublet.operate.cli.options.decoding import add_decoding, decoding, tell_unjudged
from sublet.operate.cli.options.operated import AS_HANDLED, operated
from sublet.operate.cli.text.record_text import add_form, add_selecting, count, decoded_text, is_selected
from sublet.protocol.stream_key import own_id
from sublet.settings import DEFINITIONS

if TYPE_CHECKING:
    from sublet.ports import Ports
    from sublet.protocol.records import UserRecord
    from sublet.settings import Settings

DESCRIPTION = """\
Show the records that come next in a shard: after its lease's checkpoint, or from the position of --from, which needs no
application. KPL aggregates are expanded; with the application's --filter-criteria or --deaggregate false, the records
are shown as its handler gets them. It moves nothing, holds no lease, and reads the shard at most twice a second.
Records are payload: mind who sees the terminal. If the application reads several streams, give the shard's full name,
as `sublet status` shows it, or --stream.

The exit code is 1 if nothing follows."""

EXAMPLES = """\
examples:
  sublet peek shardId-000000000003 --application orders-audit --stream orders
  sublet peek shardId-000000000003 --stream orders --from 10m -n 100 --key customer-7
  sublet peek shardId-000000000003 --application orders-audit --stream orders -n 1 --hex
  sublet peek shardId-000000000003 --stream orders --from 1h --decode glue --where 'price > 10 and country == "DE"'"""


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument("shard", metavar="SHARD")
    parser.add_argument(
        "--from",
        dest="place",
        type=place,
        metavar="POSITION",
        help="begin at earliest, latest, a time, or how long ago, instead of at the checkpoint",
    )
    parser.add_argument(
        "-n", "--records", type=count, default=10, metavar="NUMBER", help="how many at most (default: 10)"
    )
    add_selecting(parser)
    add_decoding(parser)
    add_form(parser)
    for name in ("application", "stream", *AS_HANDLED):
        add_setting(parser, DEFINITIONS[name])


def peek(options: Namespace) -> int:
    from sublet.operate.aws.ports import CommandPorts

    if options.place is None:
        settings, ports = operated(options, required=("application", "stream"))
    else:
        settings = stream_named(options, os.environ, shard=options.shard)
        ports = CommandPorts(settings)
    found, looking = 0, decoding(options, os.environ)
    every = (looking.of(record) for record in wanted(options, ports, settings))
    for decoded in islice((each for each in every if each is not None), options.records):
        print(decoded_text(decoded, options.form, is_stated=looking.is_stated), flush=True)
        found += 1
    tell_unjudged(looking)
    if not found:
        print(f"sublet: nothing{_of_those(options)} follows in shard {options.shard}", file=sys.stderr)
    return 0 if found else 1


def _of_those(options: Namespace) -> str:
    is_any = options.key is None and options.grep is None and options.where is None
    return "" if is_any else " with that key, text or field"


def wanted(options: Namespace, ports: Ports, settings: Settings) -> Iterator[UserRecord]:
    from sublet.operate.peek import as_handled_by, start_at, start_at_lease, unopened_text, upcoming
    from sublet.reading.several_streams import named_shards

    shard = own_id(options.shard) if ports.streams is None else named_shards([options.shard], ports)[0]
    if options.place is not None:
        start = start_at(options.place, ports)
    else:
        opened = start_at_lease(shard, options.application or "this application", ports)
        if opened is None:
            return
        start = opened
        if start.is_unopened:
            print(f"sublet: {unopened_text(shard)}", file=sys.stderr)
    as_handled = as_handled_by(shard, ports, settings)
    for record in upcoming(shard, start.at, start.after, ports, as_handled=as_handled):
        if is_selected(record, options):
            yield record


COMMAND = Command("peek", "show the records that come next in a shard", add_arguments, peek)
