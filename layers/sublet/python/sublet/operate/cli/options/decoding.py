"""--decode and --where, of the commands that show records."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sublet.decisions.plurals import counted
from sublet.settings.value import variable_of

if TYPE_CHECKING:
    from sublet.operate.decoded_records import RecordDecoding


def add_decoding(parser: ArgumentParser, *, selects: bool = True) -> None:
    parser.add_argument(
        "--decode",
        metavar="FORMAT",
        help="what the data is, also within gzip, zlib or zstd: json, jsonl, csv, msgpack, avro:FILE, "
        "protobuf:FILE:MESSAGE, glue, confluent:URL, cloudwatch-logs, firehose or your module:function (default: JSON, "
        "if it is that)",
    )
    if selects:
        parser.add_argument(
            "--where",
            metavar="CONDITION",
            help='only records whose fields fit, such as \'price > 10 and customer["country"] == "DE"\'',
        )


def decoding(options: Namespace, environment: Mapping[str, str]) -> RecordDecoding:
    """The format is SUBLET_PAYLOAD_FORMAT's, unless --decode names one. Raises SettingsError."""
    from sublet.operate.decoded_records import decoding_of
    from sublet.settings.payload_format import parsed_format

    text = getattr(options, "decode", None) or environment.get(variable_of("payload_format"))
    where = getattr(options, "where", None)
    if text is None:
        return decoding_of(None, None, where)
    from sublet.aws.schema_registries import registry_of
    from sublet.system.clock import SystemClock

    form = parsed_format(text, "decode")
    _find_modules_here()
    return decoding_of(form, registry_of(form, SystemClock()), where)


def _find_modules_here() -> None:
    """As `python -m` does, for a decoder of the user's own."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def tell_unjudged(decoding: RecordDecoding) -> None:
    """Says on standard error if --where could not be applied to some records: a misspelt field would look as if nothing
    matched.
    """
    where = decoding.where
    if where is not None and where.unjudged:
        records = counted(where.unjudged, "record", "records")
        print(f"sublet: --where could not be applied to {records}, of the first: {where.problem}", file=sys.stderr)
