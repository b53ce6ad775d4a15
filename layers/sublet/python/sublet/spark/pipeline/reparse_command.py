"""The command `sublet pipeline reparse`: its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sublet.errors import SettingsError
from sublet.spark.pipeline.maintain_command import add_conf, add_output, changeable, output_of
from sublet.spark.pipeline.merge_rule import MergeRule, add_merge, merge_rule
from sublet.spark.pipeline.payload_arguments import add_format, check_format
from sublet.spark.pipeline.settings import CHECKPOINT, Sink, pairs

SUMMARY = "read records again through today's schema"

DESCRIPTION = """\
Read records that are in the tables again, through today's --schema:

  --from rejected   the records that did not fit: those that fit now move to `parsed`
  --from raw        all records: `parsed` and `rejected` become what today's schema makes of them, with the columns that
                    it adds, and for a lake that had no schema so far

Each record is in one of the two afterwards. After a crash, run it again. It may run while the pipeline runs, with the
same schema: records that the pipeline has not written into all of its tables yet stay for the next time."""

EXAMPLES = """\
examples:
  sublet pipeline reparse --output lake --sink delta --schema orders.json
  sublet pipeline reparse --output lake --sink delta --schema orders.json --from raw"""


class Source(StrEnum):
    RAW = "raw"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReparseSettings:
    """Checked settings, which `settings_of` makes."""

    output: str
    checkpoint: str
    sink: Sink
    source: Source
    schema: str
    merge: MergeRule | None
    spark: Mapping[str, str]
    format: str | None = None
    strict: bool = False
    region: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_output(parser)
    parser.add_argument("--checkpoint", metavar="WHERE", help="the pipeline's (default: _checkpoint in the output)")
    parser.add_argument(
        "--schema", metavar="DDL|FILE", required=True, help="the records' columns, as the pipeline has them"
    )
    parser.add_argument(
        "--from",
        dest="source",
        choices=list(Source),
        default=Source.REJECTED,
        help="the table to read (default: rejected)",
    )
    as_there = parser.add_argument_group("as the pipeline has them")
    add_format(as_there)
    as_there.add_argument(
        "--region",
        metavar="REGION",
        help="of Glue's schema registry, as --option region= of the pipeline (default: boto3's own, on the executors)",
    )
    add_merge(as_there)
    add_conf(parser)


def run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    from sublet.spark.pipeline.reparsing import reparse_in_this_process

    return reparse_in_this_process(settings)


def settings_of(arguments: argparse.Namespace) -> ReparseSettings:
    """Raises SettingsError with the argument's name."""
    sink = changeable(arguments.sink)
    output = output_of(arguments.output, sink)
    if sink is Sink.ICEBERG and arguments.checkpoint is None:
        raise SettingsError("checkpoint", None, "required with iceberg: the pipeline's own")
    check_format(arguments.format, arguments.schema, one_row="reparse")
    if arguments.region is not None and not arguments.region.strip():
        raise SettingsError("region", arguments.region, "a region, such as eu-west-1")
    return ReparseSettings(
        output=output,
        checkpoint=(arguments.checkpoint or f"{output}/{CHECKPOINT}").rstrip("/"),
        sink=sink,
        source=Source(arguments.source),
        schema=arguments.schema,
        merge=merge_rule(arguments.merge_key, arguments.order_by, arguments.delete_when, schema=arguments.schema),
        spark=pairs("conf", arguments.conf),
        format=arguments.format,
        strict=arguments.strict,
        region=arguments.region,
    )
