"""Maintains tables: few large files instead of many small ones, and nothing kept longer than it is needed.

It may run beside the pipeline: each change is one commit of the table's own format, and the one that comes second
starts over. What the pipeline keeps in a table, to tell what it has written, stays there.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from sublet.decisions.plurals import counted
from sublet.errors import SettingsError
from sublet.ports import Clock
from sublet.spark.pipeline.lake import Lake, is_conflict, open_lake
from sublet.spark.pipeline.maintain_command import MaintainSettings
from sublet.spark.pipeline.merge_rule import DELETED_AT, MERGED
from sublet.spark.pipeline.session import in_session, say
from sublet.spark.pipeline.tally import seconds
from sublet.system.clock import SystemClock

ARRIVED = "approximateArrivalTimestamp"

Say = Callable[[str], object]


def maintain_in_this_process(settings: MaintainSettings) -> int:
    """Runs the command, and returns the exit code."""

    def work(spark: SparkSession) -> None:
        maintain(open_lake(spark, settings.output, settings.sink), settings, SystemClock(), say)

    return in_session(settings.spark, "maintain", work)


def maintain(lake: Lake, settings: MaintainSettings, clock: Clock, report: Say) -> None:
    """Maintains one table after the other. Raises SettingsError if the output has no table of the pipeline."""
    began, names, left = clock.steady(), lake.names(), 0
    if "raw" not in names:
        raise SettingsError("output", settings.output, f"it has no {settings.sink} table raw")
    for name in names:
        try:
            report(f"{name}: {_maintained(lake, name, settings, clock)}")
        except Exception as failure:
            if not is_conflict(failure):
                raise
            left += 1
            report(f"{name}: not finished, because other writers kept committing first; the next run goes on")
    done = "looked at" if settings.dry_run else "maintained"
    report(f"{counted(len(names) - left, 'table')} {done} in {seconds(clock.steady() - began)}, {left} left for later")


def _maintained(lake: Lake, name: str, settings: MaintainSettings, clock: Clock) -> str:
    """Maintains a table, and returns as text what was done, or what there is to do."""
    dry, tombstones = settings.dry_run, 0
    is_merged = name == MERGED and lake.has_column(name, DELETED_AT)
    if is_merged:
        tombstones = lake.delete_before(name, DELETED_AT, settings.tombstone_retention, ARRIVED, dry_run=dry)
    before = lake.size(name)
    if not dry:
        lake.compact(name, settings.target_size)
    became = "" if dry else f" -> {lake.size(name).files:,}"
    old = lake.remove_old(name, settings.retention, clock.now(), dry_run=dry)
    to_do = "to remove" if dry else "removed"
    said = [f"{counted(before.files, 'file')} of {before.size / 2**20:,.1f} MB{became}", f"{old:,} old {to_do}"]
    if is_merged:
        said.append(f"{counted(tombstones, 'tombstone')} {to_do}")
    return ", ".join(said)
