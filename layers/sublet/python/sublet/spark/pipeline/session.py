"""The command's Spark session and display."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from pyspark.sql import SparkSession

from sublet.errors import SubletError
from sublet.spark.pipeline.settings import PipelineSettings
from sublet.spark.pipeline.spark_connect import check_classic, classic
from sublet.spark.pipeline.tally import PlainLines, ProgressDisplay

REDACTED = "(?i)url|externalid"
"""A pattern of options whose values Spark's plans hide: Spark's own default, and a role's external id."""

DEFAULTS = {
    "spark.sql.redaction.options.regex": REDACTED,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.showConsoleProgress": "false",
}
"""Defaults for what the user does not set. Few readers besides Spark understand its own default, INT96 timestamps."""

SHUFFLE = "spark.sql.shuffle.partitions"


def session(settings: PipelineSettings, quiet: bool) -> SparkSession:
    return session_of(settings.spark, f"sublet pipeline {settings.stream}", quiet)


def session_of(configuration: Mapping[str, str], name: str, quiet: bool) -> SparkSession:
    """Returns the session of that name. `quiet` suppresses warnings, which would garble a terminal. Python workers run
    this interpreter unless configured otherwise."""
    check_classic(configuration)
    if "spark.pyspark.python" not in configuration:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    for key, value in {**_defaults(configuration), **configuration}.items():
        builder = builder.config(key, value)
    spark = classic(builder.getOrCreate())
    if SHUFFLE not in configuration:  # the default, 200, would be 200 tasks for a few rows
        spark.conf.set(SHUFFLE, str(spark.sparkContext.defaultParallelism))
    if quiet:
        spark.sparkContext.setLogLevel("ERROR")
    return spark


def in_session(configuration: Mapping[str, str], task: str, work: Callable[[SparkSession], object]) -> int:
    """Does a task on the tables in a session of its own. Returns the exit code: 0, or 1 if it failed, with one line on
    standard error. Raises SubletError."""
    spark = session_of(configuration, f"sublet pipeline {task}", quiet=True)
    try:
        work(spark)
    except SubletError:
        raise
    except Exception as failure:  # noqa: BLE001 - Spark's, Py4J's or the table format's
        print(f"sublet: {task} failed: {cause_of(failure)}", file=sys.stderr)
        return 1
    finally:
        spark.stop()
    return 0


def _defaults(given: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in DEFAULTS.items() if name not in given}


def display_for(stream: str, terminal: bool) -> ProgressDisplay:
    """Returns the progress bar if this is a terminal and `rich` is installed, and otherwise plain lines."""
    if not terminal or find_spec("rich") is None:
        return PlainLines(say)
    from rich.console import Console

    from sublet.spark.pipeline.progress_bar import ProgressBar

    return ProgressBar(Console(), stream)


def say(line: str) -> None:
    print(line, flush=True)


def cause_of(failure: Exception) -> str:
    """The part of an error that a person can act on: our own error if there is one, otherwise Python's last
    exception.
    """
    text = str(failure)
    ours = re.findall(r"sublet\.errors\.(\w+: .+)", text)
    raised = re.findall(r"^(?:\w+\.)*(\w+(?:Error|Exception|Exit|Interrupt): .+)", text, re.MULTILINE)
    lines = [line for line in text.splitlines() if line.strip()]
    return str((ours or raised[-1:] or lines or [type(failure).__name__])[0]).strip()
