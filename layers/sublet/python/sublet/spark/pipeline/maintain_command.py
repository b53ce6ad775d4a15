"""The command `sublet pipeline maintain`: its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from sublet.errors import SettingsError
from sublet.settings import duration_text
from sublet.spark.option_values import duration
from sublet.spark.pipeline.settings import Sink, pairs, size

SUMMARY = "compact files, and remove what is old"

DESCRIPTION = """\
Maintain the tables that `sublet pipeline` writes, by Delta's or Iceberg's own commands:

  1. remove tombstones of deleted rows from the table `merged` (see --merge-key) after --tombstone-retention
  2. rewrite small files into files of about --target-file-size
  3. remove versions of a table (Delta: VACUUM; Iceberg: snapshots) that are older than --retention, and files of none

It may run while the pipeline runs. Run it once a day."""

EXAMPLES = """\
examples:
  sublet pipeline maintain --output s3://lake/orders --sink delta
  sublet pipeline maintain --output lake --sink delta --retention 14d --dry-run"""

RETENTION_MIN = timedelta(days=1)
"""Within it, somebody may still read or write a file: a long query, or a batch whose commit is yet to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainSettings:
    """Checked settings, which `maintain_settings` makes."""

    output: str
    sink: Sink
    retention: timedelta
    tombstone_retention: timedelta
    target_size: int
    dry_run: bool
    spark: Mapping[str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_output(parser)
    parser.add_argument(
        "--retention",
        metavar="DURATION",
        default="7d",
        help="how long old versions stay readable (default: 7d, at least 1d)",
    )
    parser.add_argument(
        "--tombstone-retention",
        metavar="DURATION",
        default="7d",
        help="for how much arrival time a deleted row of `merged` leaves a tombstone (default: 7d, at least 1d); after "
        "that, an older update that comes late brings the row back",
    )
    parser.add_argument(
        "--target-file-size", metavar="SIZE", default="128MB", help="how large files become (default: 128MB)"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what there is to do, and do nothing")
    add_conf(parser)


def add_output(parser: argparse.ArgumentParser) -> None:
    """The arguments that say which tables: as `sublet pipeline` has them."""
    parser.add_argument(
        "--output",
        metavar="WHERE",
        required=True,
        help="where the tables are: a folder or URI; for iceberg a namespace, such as glue.orders",
    )
    parser.add_argument("--sink", choices=list(Sink), required=True, help="the kind of tables: delta or iceberg")


def add_conf(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--conf",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a configuration of the Spark session, such as spark.driver.memory=4g",
    )


def run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    from sublet.spark.pipeline.maintaining import maintain_in_this_process

    return maintain_in_this_process(settings)


def settings_of(arguments: argparse.Namespace) -> MaintainSettings:
    """Raises SettingsError with the argument's name."""
    sink = changeable(arguments.sink)
    return MaintainSettings(
        output=output_of(arguments.output, sink),
        sink=sink,
        retention=_at_least_a_day("retention", arguments.retention),
        tombstone_retention=_at_least_a_day("tombstone-retention", arguments.tombstone_retention),
        target_size=size(arguments.target_file_size),
        dry_run=arguments.dry_run,
        spark=pairs("conf", arguments.conf),
    )


def changeable(text: str) -> Sink:
    """Raises SettingsError for a sink whose tables cannot be changed in place."""
    if Sink(text) is Sink.PARQUET:
        wanted = "delta or iceberg: files of Parquet tables cannot be replaced in a transaction"
        raise SettingsError("sink", text, wanted)
    return Sink(text)


def output_of(text: str, sink: Sink) -> str:
    if not text.strip():
        raise SettingsError("output", text, "a folder or URI of the tables")
    return text if sink is Sink.ICEBERG else text.rstrip("/")


def _at_least_a_day(name: str, text: str) -> timedelta:
    lasts = duration(name, text)
    if lasts < RETENTION_MIN:
        raise SettingsError(name, text, f"at least {duration_text(RETENTION_MIN)}")
    return lasts
