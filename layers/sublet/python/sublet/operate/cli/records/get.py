"""`sublet get`: shows the record at a position."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING, NamedTuple

from sublet.command_line.command import Command, explain
from sublet.operate.cli.options.arguments import add_stream, name_or_arn, stream_named
from sublet.operate.cli.options.decoding import add_decoding, decoding
from sublet.operate.cli.text.record_text import RecordForm, add_form, decoded_text
from sublet.protocol.stream_key import own_id

if TYPE_CHECKING:
    from sublet.pull.streams import Stream

DESCRIPTION = """\
Show the record with a sequence number, which you find in logs, checkpoints and failure documents. If the record is a
KPL aggregate, it shows all its user records, or only the one whose number within the aggregate follows the sequence
number, after a colon or a slash. --data writes the data alone, unchanged, for another program. Records are payload:
mind who sees the terminal. With several streams, a shard's full name includes its stream.

The exit code is 1 if there is no such record, or it is past retention."""

EXAMPLES = """\
examples:
  sublet get shardId-000000000003 49665012345678901234567890123456789012345678901234567890 --stream orders
  sublet get shardId-000000000003 49665012345678901234567890123456789012345678901234567890:2 --stream orders --json
  sublet get shardId-000000000003 49665012345678901234567890123456789012345678901234567890 --stream orders --data"""


class RecordNumber(NamedTuple):
    """The position of a record. `sub`: a user record's number within its aggregate, or None for all of them."""

    sequence_number: str
    sub: int | None


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument("shard", metavar="SHARD")
    parser.add_argument("number", metavar="SEQUENCE[:SUB]", type=record_number)
    add_decoding(parser, selects=False)
    add_form(parser)
    parser.add_argument("--data", action="store_true", help="write only the data, unchanged")
    add_stream(parser)


def record_number(text: str) -> RecordNumber:
    number, _, sub = text.replace("/", ":").partition(":")
    if not (text.isascii() and number.isdecimal()) or not (sub.isdecimal() or (not sub and ":" not in text)):
        raise ArgumentTypeError(
            f"{text!r} is not a sequence number, with or without a colon and a number within its aggregate"
        )
    return RecordNumber(number, int(sub) if sub else None)


def get(options: Namespace) -> int:
    from sublet.aws.account import AwsAccount
    from sublet.pull.streams import Stream

    stream = Stream(AwsAccount(), name_or_arn(stream_named(options, os.environ, shard=options.shard)))
    return show(stream, options)


def show(stream: Stream, options: Namespace) -> int:
    wanted = options.number
    records = [
        record
        for record in stream.get(own_id(options.shard), wanted.sequence_number)
        if wanted.sub in (None, record.sub_sequence_number)
    ]
    looking = decoding(options, os.environ)
    for record in records:
        if options.data:
            sys.stdout.buffer.write(record.data)
        else:
            decoded = looking.of(record)
            assert decoded is not None, "get selects nothing"
            form = RecordForm.TEXT if options.form is RecordForm.LINE else options.form
            print(decoded_text(decoded, form, is_stated=looking.is_stated))
    if not records:
        print(f"sublet: shard {options.shard} has no such record, or it is past retention", file=sys.stderr)
    return 0 if records else 1


COMMAND = Command("get", "show the record with a sequence number", add_arguments, get)
