"""A pipeline's settings, validated before Spark starts: errors name the setting."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from sublet.errors import SettingsError
from sublet.settings import duration_text
from sublet.spark.option_table import OPTIONS, parse_options
from sublet.spark.options import Leases, UseOfLeases
from sublet.spark.pipeline.merge_rule import MergeRule
from sublet.spark.pipeline.payload_arguments import check_format

SPAN_DEFAULT = "10m"
"""How much arrival time one batch covers. It limits a batch's size, also while the run catches up on a week."""

PARTITION_BY_DEFAULT = ("arrivalDate",)
FILE_SIZE_DEFAULT = 128 * 2**20
"""Bytes of records' data in a file. Most readers like files of 100 MB to 1 GB."""

_LIMITS = frozenset(option.name.lower() for option in OPTIONS if option.name.endswith("PerTrigger"))

MAX_PARTITIONS = "maxPartitions"

CHECKPOINT = "_checkpoint"
"""The checkpoint's folder, in the output by default. Readers of tables ignore names with a leading underscore."""


class Sink(StrEnum):
    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """Checked settings. Only `pipeline_settings` makes them.

    output       a folder or URI that Spark can write to; for Iceberg a catalog's namespace
    schema       DDL, or a `.json` file in Spark's form; None: only `raw` is written
    transform    the user's `module:function`
    every        the time between batches; None: read what is available, then end
    options      the source's options, by Spark's names
    spark        the session's configuration
    partition_by the columns that new tables are partitioned by, as far as they have them
    file_size    how many bytes of records' data a file should have
    metrics_of   the application whose metrics the run puts; None: it puts none
    merge        how the table `merged` comes about; None: there is none
    format       what the records are, as the setting `payload_format` says it, or avro by the schema; None: JSON
    strict       an object in JSON that repeats a key is rejected
    """

    output: str
    checkpoint: str
    sink: Sink
    schema: str | None
    transform: str | None
    every: timedelta | None
    options: Mapping[str, str]
    spark: Mapping[str, str]
    partition_by: tuple[str, ...] = PARTITION_BY_DEFAULT
    file_size: int = FILE_SIZE_DEFAULT
    metrics_of: str | None = None
    merge: MergeRule | None = None
    format: str | None = None
    strict: bool = False

    @property
    def stream(self) -> str:
        return self.options["stream"]


def pipeline_settings(
    *,
    output: str,
    checkpoint: str | None,
    sink: Sink,
    schema: str | None,
    transform: str | None,
    every: timedelta | None,
    options: Mapping[str, str],
    spark: Mapping[str, str],
    partition_by: str | None = None,
    file_size: str | None = None,
    metrics_of: str | None = None,
    merge: MergeRule | None = None,
    format: str | None = None,  # noqa: A002 - the argument's name
    strict: bool = False,
) -> PipelineSettings:
    """Checks the settings. Raises SettingsError for the first that is wrong."""
    if not output.strip():
        raise SettingsError("output", output, "a folder or URI for the tables")
    if every is not None and every <= timedelta(0):
        raise SettingsError("every", duration_text(every), "longer than 0")
    if sink is Sink.ICEBERG and checkpoint is None:
        raise SettingsError("checkpoint", None, "required with iceberg: a folder or URI of this pipeline's own")
    if merge is not None and sink is Sink.PARQUET:
        raise SettingsError("merge-key", ", ".join(merge.key), "left out with parquet: it needs delta or iceberg")
    check_format(format, schema, one_row=None if merge is None else "merge-key")
    place = (checkpoint or f"{output.rstrip('/')}/{CHECKPOINT}").rstrip("/")
    return PipelineSettings(
        output=output if sink is Sink.ICEBERG else output.rstrip("/"),
        checkpoint=place,
        sink=sink,
        schema=schema,
        transform=transform,
        every=every,
        options=source_options(options, place, available_now=every is None),
        spark=spark,
        partition_by=PARTITION_BY_DEFAULT if partition_by is None else columns(partition_by),
        file_size=FILE_SIZE_DEFAULT if file_size is None else size(file_size),
        metrics_of=metrics_of,
        merge=merge,
        format=format,
        strict=strict,
    )


def source_options(given: Mapping[str, str], checkpoint: str, *, available_now: bool) -> dict[str, str]:
    """The source's options, checked, with a default limit for a batch; with the checkpoint if the query holds
    leases.
    """
    known = {name.lower(): text for name, text in given.items()}
    if "checkpointlocation" in known:
        raise SettingsError("option", "checkpointLocation", "set by the pipeline: leave it out, or give checkpoint")
    if "availablenow" in known:
        raise SettingsError("option", "availableNow", "set by the pipeline: leave it out, or give --available-now")
    options = {**given, **({"availableNow": "true"} if available_now else {})}
    if _LIMITS.isdisjoint(known):
        options["maxSpanPerTrigger"] = SPAN_DEFAULT
    if known.get("leases", "").strip().lower() == Leases.HOLD:
        options["checkpointLocation"] = checkpoint
    parse_options(options, UseOfLeases.STREAM)
    return options


def in_partitions(options: Mapping[str, str], slots: int) -> dict[str, str]:
    """The source's options, with a batch read in as many tasks as run at once, unless they say in how many."""
    is_given = MAX_PARTITIONS.lower() in {name.lower() for name in options}
    return {**options, **({} if is_given else {MAX_PARTITIONS: str(slots)})}


def columns(text: str) -> tuple[str, ...]:
    """The columns of --partition-by; empty for `none`."""
    names = () if text == "none" else tuple(name.strip() for name in text.split(","))
    if any(not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) for name in names) or len(set(names)) < len(names):
        raise SettingsError("partition-by", text, "columns, each once, such as arrivalDate,shardId; or none")
    return names


def size(text: str) -> int:
    """Bytes of a size such as 128MB or 1GB."""
    match = re.fullmatch(r"(\d+)(MB|GB)", text)
    if match is None or not 1 <= (megabytes := int(match[1]) * (1024 if match[2] == "GB" else 1)) <= 16 * 1024:
        raise SettingsError("target-file-size", text, "1MB to 16GB, such as 128MB")
    return megabytes * 2**20


def pairs(setting: str, texts: Sequence[str]) -> dict[str, str]:
    """Parses `NAME=VALUE` of a repeatable setting. Refuses a missing name or `=`, and a repeated name."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise SettingsError(setting, text, "NAME=VALUE")
        if name.lower() in {known.lower() for known in found}:
            raise SettingsError(setting, text, f"{name} is given twice")
        found[name] = value
    return found
