"""`sublet put`: puts one record, or each line of a file or of standard input as a record."""

from __future__ import annotations

import json
import os
import secrets
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sublet.command_line.command import Command, explain
from sublet.command_line.program import drop_output
from sublet.errors import SettingsError
from sublet.operate.cli.ending import ended_by_sigterm
from sublet.operate.cli.options.arguments import add_stream, name_or_arn, stream_named

if TYPE_CHECKING:
    from sublet.operate.put_lines import PutLine
    from sublet.operate.rules.partition_key_template import KeyTemplate
    from sublet.operate.rules.put_rate import PutRate
    from sublet.protocol.stream_info import PutRecord

DESCRIPTION = """\
Put one record or, with --from, each line of a file or of standard input as a record. It prints each record's shard and
sequence number. Without --key each record gets a random partition key, which spreads the records over the shards. In a
key, {customer} stands for a field of a JSON record, {order.customer} for one within another, {{ and }} for braces. If a
reply is lost, the record may be in the stream twice.

Lines of one key keep their order. A refused line ends the command, and so do Ctrl-C, SIGTERM and an output that is
closed; each says how many records were put, and the --skip with which the same command goes on. Lines after a refused
one that were already sent may be in the stream too. --rate spreads lines evenly over time. What takes longer than two
seconds says its progress on standard error. --from needs kinesis:PutRecords. It keeps to the shards' write limits if it
may also use kinesis:ListShards."""

EXAMPLES = """\
examples:
  sublet put '{"id": 7}' --stream orders --key customer-7
  sublet put --from lines.json --stream orders --rate 100/s --key '{id}'
  sublet put --lines --stream orders < lines.json
  sublet put '{"id": 7, "price": 10.5}' --stream orders --encode msgpack"""


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("data", nargs="?", metavar="DATA", help="the record's data, as text; - for all of standard input")
    what.add_argument(
        "--from", dest="file", metavar="FILE", help="each line of the file is a record; - for standard input"
    )
    what.add_argument("--lines", dest="file", action="store_const", const="-", help="the same as --from -")
    parser.add_argument(
        "--key",
        type=key_template,
        metavar="TEXT",
        help="the partition key, such as customer-7 or '{customer}' (default: a random one for each record)",
    )
    parser.add_argument(
        "--rate", type=put_rate, metavar="RATE", help="with --from: so many lines, such as 100/s or 30/m"
    )
    parser.add_argument(
        "--skip",
        type=lines_left_out,
        metavar="NUMBER",
        help="with --from: leave out so many lines, which were put before",
    )
    parser.add_argument(
        "--aggregate",
        action="store_true",
        help="with --from: pack lines into KPL aggregates, for consumers that can unpack them",
    )
    parser.add_argument(
        "--encode",
        metavar="FORMAT",
        help="the data is JSON, and is put as this: msgpack, avro:FILE, protobuf:FILE:MESSAGE, glue:REGISTRY/SCHEMA or "
        "confluent:URL#SUBJECT",
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON for each record")
    add_stream(parser)


def key_template(text: str) -> KeyTemplate:
    from sublet.operate.rules.partition_key_template import KeyTemplate

    try:
        return KeyTemplate.parse(text)
    except ValueError as wrong:
        raise ArgumentTypeError(f"{text!r} is not a key: {wrong}; write {{{{ and }}}} for braces") from None


def put_rate(text: str) -> PutRate:
    from sublet.operate.rules.put_rate import PutRate

    try:
        return PutRate.parse(text)
    except ValueError as wrong:
        raise ArgumentTypeError(str(wrong)) from None


def lines_left_out(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ArgumentTypeError(f"{text!r} is not a number of lines")
    return int(text)


def put(options: Namespace) -> int:
    from sublet.aws.account import AwsAccount
    from sublet.operate.put_lines import LinePut
    from sublet.pull.streams import Stream
    from sublet.putting.producer import Producer

    check(options)
    stream, account = name_or_arn(stream_named(options, os.environ)), AwsAccount()

    def show(done: PutRecord) -> None:
        print(_line(done, as_json=options.json), flush=True)

    if options.file is None:
        for each in records_of(iter([one_record(options, sys.stdin.buffer)]), options.key, options.encode):
            show(Stream(account, stream).put(each.key, each.data))
        return 0
    skipped = options.skip or 0
    with _opened(options.file) as file, ended_by_sigterm():
        lines = records_of(islice(lines_of(file), skipped, None), options.key, options.encode)
        producer = Producer(stream, account=account, aggregation_enabled=options.aggregate)
        try:
            LinePut(producer, lines, show, _say, account.clock, account.tasks, options.rate, skipped).run()
        except BrokenPipeError:  # as in `sublet put | head`, which has ended it: not all lines may be put
            drop_output()
            return 2
    return 0


def check(options: Namespace) -> None:
    """Raises SettingsError for options that one record cannot have."""
    if options.file is None:
        for name in ("rate", "skip", "aggregate"):
            if getattr(options, name):
                raise SettingsError(name, None, "only allowed with --from or --lines")


@contextmanager
def _opened(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        opened = Path(file).open("rb")  # noqa: SIM115 -- closed below
    except OSError as problem:
        raise SettingsError("from", file, f"a file that can be read: {problem.strerror}") from None
    with opened:
        yield opened


def one_record(options: Namespace, standard_input: Iterable[bytes]) -> bytes:
    if options.data == "-":
        return b"".join(standard_input)
    data: str = options.data
    return data.encode(errors="surrogateescape")


def lines_of(file: Iterable[bytes]) -> Iterator[bytes]:
    """Lines without their ends."""
    return (line.removesuffix(b"\n").removesuffix(b"\r") for line in file)


def records_of(data: Iterator[bytes], key: KeyTemplate | None, payload_format: str | None) -> Iterator[PutLine]:
    """Raises SettingsError and SchemaRegistryError at once, and PayloadUnreadable and PayloadNotEncodable where the
    data is not JSON, does not fit, or lacks a field of the key.
    """
    from sublet.operate.put_lines import PutLine
    from sublet.payloads.json_document import json_reader

    encode, read = None, json_reader()
    if payload_format is not None:
        from sublet.putting.encoder import encoder

        encode = encoder(payload_format)
    reads = encode is not None or (key is not None and key.has_fields)

    def record_of(each: bytes) -> PutLine:
        value: Any = read(each) if reads else None
        own = secrets.token_hex(8) if key is None else key.key_of(value)
        return PutLine(own, each if encode is None else encode(value))

    return map(record_of, data)


def _say(text: str) -> None:
    print(f"sublet: {text}", file=sys.stderr, flush=True)


def _line(done: PutRecord, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({"shard_id": done.shard_id, "sequence_number": done.sequence_number})
    return f"{done.shard_id} {done.sequence_number}"


COMMAND = Command("put", "put a record, or each line of a file or of standard input", add_arguments, put)
