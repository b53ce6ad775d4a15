"""`sublet put`: puts a record, or each line of standard input."""

from __future__ import annotations

import json
import os
import secrets
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sublet.cli.command import Command, explain
from sublet.cli.stream_option import add_stream, name_or_arn, stream_named
from sublet.errors import StreamError

if TYPE_CHECKING:
    from sublet.protocol.stream_info import PutRecord
    from sublet.pull.streams import Stream

DESCRIPTION = """\
Put one record, or with --lines each line of standard input as a record of its own, in order. It prints each record's shard and
sequence number. Without --key each record gets a random partition key, which spreads them over the shards. If a response is lost
on its way, the record may be there twice. A line that is refused ends it, and the message says how many were put."""

EXAMPLES = """\
examples:
  sublet put '{"id": 7}' --stream orders --key customer-7
  sublet put --lines --stream orders < lines.json"""


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "data", nargs="?", metavar="DATA", help="the record's data, as text; - for all of standard input"
    )
    what.add_argument("--lines", action="store_true", help="each line of standard input is a record")
    parser.add_argument(
        "--key", metavar="TEXT", help="the partition key (default: a random one for each record)"
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON for each record")
    add_stream(parser)


def put(options: Namespace) -> int:
    from sublet.aws.account import AwsAccount
    from sublet.pull.streams import Stream

    stream = Stream(AwsAccount(), name_or_arn(stream_named(options, os.environ)))
    for done in put_all(stream, data_of(options, sys.stdin.buffer), options.key):
        print(_line(done, as_json=options.json), flush=True)
    return 0


def data_of(options: Namespace, standard_input: Iterable[bytes]) -> Iterator[bytes]:
    if options.lines:
        yield from (line.removesuffix(b"\n").removesuffix(b"\r") for line in standard_input)
    elif options.data == "-":
        yield b"".join(standard_input)
    else:
        yield options.data.encode(errors="surrogateescape")


def put_all(stream: Stream, data: Iterable[bytes], key: str | None) -> Iterator[PutRecord]:
    """Raises StreamError, with the number of records that were put before."""
    for before, each in enumerate(data):
        try:
            yield stream.put(secrets.token_hex(8) if key is None else key, each)
        except StreamError as problem:
            if not before:
                raise
            raise type(problem)(f"{problem}; {before:,} records before it were put") from problem


def _line(done: PutRecord, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({"shard_id": done.shard_id, "sequence_number": done.sequence_number})
    return f"{done.shard_id} {done.sequence_number}"


COMMAND = Command("put", "put a record, or each line of standard input", add_arguments, put)
