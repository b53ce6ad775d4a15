"""`sublet put`: puts one record, or each line of standard input as a record."""

from __future__ import annotations

import json
import os
import secrets
import sys
import threading
from argparse import ArgumentParser, Namespace
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from sublet.command_line.command import Command, explain
from sublet.decisions.plurals import counted
from sublet.errors import RecordsNotPut, StreamError
from sublet.operate.cli.options.arguments import add_stream, name_or_arn, stream_named

if TYPE_CHECKING:
    from concurrent.futures import Future

    from sublet.protocol.stream_info import PutRecord
    from sublet.putting.producer import Producer

DESCRIPTION = """\
Put one record or, with --lines, each line of standard input as a record. It prints each record's shard and sequence
number. Without --key each record gets a random partition key, which spreads the records over the shards. If a reply is
lost, the record may be in the stream twice.

Lines of one key keep their order. A refused line ends the command, and the message says how many lines before it were
put; lines after it that were already sent may be in the stream too. --lines needs kinesis:PutRecords. It keeps to the
shards' write limits if it may also use kinesis:ListShards."""

EXAMPLES = """\
examples:
  sublet put '{"id": 7}' --stream orders --key customer-7
  sublet put --lines --stream orders < lines.json
  sublet put '{"id": 7, "price": 10.5}' --stream orders --encode msgpack"""


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("data", nargs="?", metavar="DATA", help="the record's data, as text; - for all of standard input")
    what.add_argument("--lines", action="store_true", help="each line of standard input is a record")
    parser.add_argument("--key", metavar="TEXT", help="the partition key (default: a random one for each record)")
    parser.add_argument(
        "--aggregate",
        action="store_true",
        help="with --lines: pack lines into KPL aggregates, for consumers that can unpack them",
    )
    parser.add_argument(
        "--encode",
        metavar="FORMAT",
        help="the data is JSON, and is put as this: msgpack, avro:FILE, protobuf:FILE:MESSAGE, glue:REGISTRY/SCHEMA or "
        "confluent:URL#SUBJECT",
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON for each record")
    add_stream(parser)


def put(options: Namespace) -> int:
    from sublet.aws.account import AwsAccount
    from sublet.pull.streams import Stream
    from sublet.putting.producer import Producer

    stream, account = name_or_arn(stream_named(options, os.environ)), AwsAccount()
    data = encoded(data_of(options, sys.stdin.buffer), options.encode)

    def show(done: PutRecord) -> None:
        print(_line(done, as_json=options.json), flush=True)

    if options.lines:
        put_all(Producer(stream, account=account, aggregation_enabled=options.aggregate), data, options.key, show)
        return 0
    for each in data:
        show(Stream(account, stream).put(_key(options.key), each))
    return 0


def data_of(options: Namespace, standard_input: Iterable[bytes]) -> Iterator[bytes]:
    if options.lines:
        yield from (line.removesuffix(b"\n").removesuffix(b"\r") for line in standard_input)
    elif options.data == "-":
        yield b"".join(standard_input)
    else:
        yield options.data.encode(errors="surrogateescape")


def encoded(data: Iterator[bytes], payload_format: str | None) -> Iterator[bytes]:
    """Raises SettingsError and SchemaRegistryError at once, and PayloadUnreadable and PayloadNotEncodable where the
    data is not JSON, or does not fit.
    """
    if payload_format is None:
        return data
    from sublet.payloads.json_document import json_reader
    from sublet.putting.encoder import encoder

    encode, read = encoder(payload_format), json_reader()
    return (encode(read(each)) for each in data)


def put_all(producer: Producer, data: Iterable[bytes], key: str | None, show: Callable[[PutRecord], object]) -> None:
    """Puts all data, and shows the records in order, each as soon as it is in the stream, even while this waits for
    more data. Raises StreamError, which says how many records were put before, and whatever `show` raises.
    """
    shown = _OrderedOutput(show)
    try:
        for each in data:
            if shown.failure is not None:
                break
            shown.expect(producer.put(_key(key), each))
    except StreamError as problem:
        _close(producer)
        raise _with_count(shown.failure or problem, shown.count) from problem
    finally:
        _close(producer)
    if shown.failure is not None:
        raise _with_count(shown.failure, shown.count)


def _key(key: str | None) -> str:
    return secrets.token_hex(8) if key is None else key


def _close(producer: Producer) -> None:
    with suppress(RecordsNotPut):  # the first record that was given up says why
        producer.close()


def _with_count(problem: BaseException, before: int) -> BaseException:
    if not before or not isinstance(problem, StreamError):
        return problem
    return type(problem)(f"{problem}; {counted(before, 'record before it was', 'records before it were')} put")


class _OrderedOutput:
    """Shows records in the order of their puts, although several threads report them.

    count    how many records were shown
    failure  why the first record was not put, or could not be shown
    """

    def __init__(self, show: Callable[[PutRecord], object]) -> None:
        self.count = 0
        self.failure: BaseException | None = None
        self._show = show
        self._lock = threading.Lock()
        self._waiting: deque[Future[PutRecord]] = deque()

    def expect(self, future: Future[PutRecord]) -> None:
        with self._lock:
            self._waiting.append(future)
        future.add_done_callback(lambda _: self._show_done())

    def _show_done(self) -> None:
        with self._lock:
            while self.failure is None and self._waiting and self._waiting[0].done():
                try:
                    self._show(self._waiting.popleft().result(0))
                    self.count += 1
                except Exception as problem:  # noqa: BLE001 -- raised where the lines are read
                    self.failure = problem


def _line(done: PutRecord, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({"shard_id": done.shard_id, "sequence_number": done.sequence_number})
    return f"{done.shard_id} {done.sequence_number}"


COMMAND = Command("put", "put a record, or each line of standard input", add_arguments, put)
