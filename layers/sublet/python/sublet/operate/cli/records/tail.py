"""`sublet tail`: shows the records of all shards as they arrive, or writes them to a file."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from sublet.command_line.command import Command, explain
from sublet.errors import SettingsError
from sublet.operate.cli.ending import ended_by_sigterm
from sublet.operate.cli.options.arguments import add_streams, place, streams_named
from sublet.operate.cli.options.decoding import add_decoding, decoding, tell_unjudged
from sublet.operate.cli.text.record_text import add_form, add_selecting, count, decoded_text, is_selected

if TYPE_CHECKING:
    from datetime import datetime

    from sublet.operate.decoded_records import DecodedRecord
    from sublet.operate.record_files import RecordWriter
    from sublet.operate.rules.arrival_order import TailedRecord
    from sublet.ports import Ports

DESCRIPTION = """\
Show the records of one stream or several as they arrive in any shard, until Ctrl-C; with --no-follow, those that are
there, and end. KPL aggregates are expanded, and reshards are followed. It holds no lease, moves nothing, and reads each
shard at most once a second: the readers of a provisioned shard share five reads and 2 MB a second, and reading an
on-demand stream is charged for. Records are payload: mind who sees the terminal.

Records of all shards and streams are in the order of their arrival, as far as one read a second shows it. A shard that
brings nothing for ten reads, because it is refused or has long been quiet, does not hold up the others.

--output writes rows for other programs, to standard output or with --to to a new file: stream, shard_id, arrived,
partition_key, sequence_number, sub_sequence_number, is_aggregated, data, value, problem. `data` is in base64 (in
Parquet bytes), `value` what it decodes to (in CSV and Parquet as JSON), and `problem` why it does not. Parquet needs
--to and the extra parquet; its file is complete when the command ends, also by Ctrl-C, and has the suffix .partial
until then."""

EXAMPLES = """\
examples:
  sublet tail --stream orders
  sublet tail --stream orders --key customer-7 --text
  sublet tail --stream orders --since 1h --no-follow --where 'total > 5 and customer != "test"'
  sublet tail --stream orders --from earliest --grep total -n 4 --json
  sublet tail --stream orders --since 1h --no-follow --output csv --to orders.csv
  sublet tail --streams 'orders,audit-*' --since earliest --no-follow --output ndjson
  sublet tail --stream orders --decode msgpack --text
  sublet tail --streams 'orders,audit-*'"""

TIP_WITHIN = timedelta(seconds=5)
"""Without --follow, records that arrive this long after the start may still be shown: the service's time comes in whole
seconds, and is of its last reply. A shard is read to its tip, so this only ends the reading of one that fills as fast.
"""


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "--from",
        "--since",
        dest="place",
        type=place,
        metavar="POSITION",
        help="begin at earliest, latest, a time, or how long ago (default: latest)",
    )
    parser.add_argument(
        "--follow",
        action=BooleanOptionalAction,
        default=True,
        help="go on with records as they arrive, which is the default; or end with those that are there",
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
    parser.add_argument(
        "--output", choices=["ndjson", "csv", "parquet"], help="write rows, with the same columns for every record"
    )
    parser.add_argument("--to", metavar="FILE", help="with --output: write to this new file")
    add_streams(parser)


def tail(options: Namespace) -> int:
    from sublet.operate.aws.ports import CommandPorts

    check(options)
    with suppress(KeyboardInterrupt), ended_by_sigterm():
        settings = streams_named(options, os.environ)
        show(options, CommandPorts(settings), settings.stream)
    return 0


def check(options: Namespace) -> None:
    """Raises SettingsError for options that mean nothing together, before any call is made."""
    from sublet.operate.cli.text.record_text import RecordForm

    if not options.follow and options.place is None:
        raise SettingsError("since", None, "required with --no-follow: by default, only later records are shown")
    if options.to is not None and options.output is None:
        raise SettingsError("to", options.to, "only allowed with --output ndjson, csv or parquet")
    if options.output is not None and options.form is not RecordForm.LINE:
        raise SettingsError("output", options.output, f"not allowed with --{options.form}")


def show(options: Namespace, ports: Ports, stream: str) -> None:
    """`stream`: the one that is read; any text if there are several."""
    shown, looking, tailed = 0, decoding(options, os.environ), _tailed(options, ports)
    with _output(options) as writer:
        try:
            for shard_id, record in tailed:
                decoded = looking.of(record) if is_selected(record, options) else None
                if decoded is None:
                    continue
                if writer is None:
                    print(decoded_text(decoded, options.form, shard_id, is_stated=looking.is_stated), flush=True)
                else:
                    _write(decoded, shard_id, stream, writer)
                shown += 1
                if shown == options.records:
                    return
        finally:
            tell_unjudged(looking)
            if options.to is not None:
                print(f"sublet: {shown:,} records are in {options.to}", file=sys.stderr)


def _tailed(options: Namespace, ports: Ports) -> Iterator[TailedRecord]:
    from sublet.operate.tail import Tail
    from sublet.reading.several_streams import named_shards

    shards = frozenset(named_shards(options.shards, ports)) or None
    now = ports.stream.service_time()
    until = None if options.follow else now + TIP_WITHIN
    return Tail(ports, _since(options, now), shards, until).records()


def _since(options: Namespace, now: datetime) -> datetime | None:
    moment: datetime | None = (options.place or place("latest")).moment(now)
    return moment


def _output(options: Namespace) -> RecordWriter | nullcontext[None]:
    if options.output is None:
        return nullcontext()
    from sublet.operate.record_files import RecordOutput, writer_of

    return writer_of(RecordOutput(options.output), None if options.to is None else Path(options.to))


def _write(decoded: DecodedRecord, shard_id: str, stream: str, writer: RecordWriter) -> None:
    from sublet.operate.record_files import row_of
    from sublet.protocol.stream_key import stream_key_of

    key = stream_key_of(shard_id)
    writer.write(row_of(decoded, shard_id, stream if key is None else key.stream))


COMMAND = Command("tail", "show the records of all shards as they arrive", add_arguments, tail)
