"""`sublet peek`: the records that come next in a shard."""

from __future__ import annotations

import base64
import json
import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from sublet.cli.command import Command, explain
from sublet.cli.place import place
from sublet.cli.settings_options import add_setting, settings_of
from sublet.cli.shown import time_text
from sublet.settings import DEFINITIONS

if TYPE_CHECKING:
    from sublet.ports import Ports
    from sublet.protocol.records import UserRecord

DESCRIPTION = """\
Show the records that come next in a shard: after its lease's checkpoint, or from a position. KPL aggregates are expanded. It
moves nothing, holds no lease, and reads the shard at most twice a second. Records are payload: mind who sees the terminal."""

EXAMPLES = """\
examples:
  sublet peek shardId-000000000003 --application orders-audit --stream orders
  sublet peek shardId-000000000003 --application orders-audit --stream orders --from 10m -n 100 --key customer-7
  sublet peek shardId-000000000003 --application orders-audit --stream orders -n 1 --json"""

SHOWN_CHARACTERS = 80


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument("shard", metavar="SHARD")
    parser.add_argument(
        "--from", dest="place", type=place, metavar="POSITION",
        help="earliest, latest, a time, or how long ago, instead of the checkpoint",
    )  # fmt: skip
    parser.add_argument(
        "-n", "--records", type=count, default=10, metavar="NUMBER", help="at most so many (default: 10)"
    )
    parser.add_argument("--key", metavar="TEXT", help="only records with this partition key")
    parser.add_argument("--grep", metavar="TEXT", help="only records whose data contains this text")
    parser.add_argument(
        "--json", action="store_true", help="a line of JSON for each record, with its data in base64"
    )
    for name in ("application", "stream"):
        add_setting(parser, DEFINITIONS[name])


def count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r} is not a number of records, 1 or more")
    return int(text)


def peek(options: Namespace) -> int:
    from sublet.aws.ports import aws_ports

    settings = settings_of(options, os.environ, required=("application", "stream"))
    found = 0
    for record in islice(wanted(options, aws_ports(settings, "sublet", output=None)), options.records):
        print(json_of(record) if options.json else line_of(record), flush=True)
        found += 1
    return 0 if found else 1


def wanted(options: Namespace, ports: Ports) -> Iterator[UserRecord]:
    from sublet.operate.peek import start_at, start_at_lease, upcoming

    if options.place is not None:
        start = start_at(options.place, ports)
    else:
        opened = start_at_lease(options.shard, options.application or "this application", ports)
        if opened is None:
            return
        start = opened
    text = None if options.grep is None else options.grep.encode()
    for record in upcoming(options.shard, start.at, start.after, ports):
        if options.key in (None, record.partition_key) and (text is None or text in record.data):
            yield record


def line_of(record: UserRecord) -> str:
    """Arrival, size, partition key, position, and the beginning of the data, without what could move a cursor."""
    text = record.data[: 4 * SHOWN_CHARACTERS].decode(errors="replace")
    shown = "".join(each if each.isprintable() else "·" for each in text)[:SHOWN_CHARACTERS]
    key = "-" if record.partition_key is None else repr(record.partition_key)[1:-1]
    at = f"{record.sequence_number}:{record.sub_sequence_number}"
    return f"{time_text(record.approximate_arrival_timestamp)}  {len(record.data):>8} B  {key:<24}  {at}  {shown}"


def json_of(record: UserRecord) -> str:
    return json.dumps(
        {
            "arrived": record.approximate_arrival_timestamp.isoformat(),
            "partition_key": record.partition_key,
            "sequence_number": record.sequence_number,
            "sub_sequence_number": record.sub_sequence_number,
            "is_aggregated": record.is_aggregated,
            "data": base64.b64encode(record.data).decode(),
        }
    )


COMMAND = Command("peek", "the records that come next in a shard", add_arguments, peek)
