"""The command's Spark session and display."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec

from pyspark.sql import SparkSession

from sublet.spark.pipeline.settings import PipelineSettings
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
    """Returns the Spark session. `quiet` suppresses warnings, which would garble a terminal. Python workers run this
    interpreter unless configured otherwise."""
    if "spark.pyspark.python" not in settings.spark:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"sublet pipeline {settings.stream}")
    for name, value in {**_defaults(settings.spark), **settings.spark}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if SHUFFLE not in settings.spark:  # the default, 200, would be 200 tasks for a few rows
        spark.conf.set(SHUFFLE, str(spark.sparkContext.defaultParallelism))
    if quiet:
        spark.sparkContext.setLogLevel("ERROR")
    return spark


def _defaults(given: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in DEFAULTS.items() if name not in given}


def display_for(stream: str, terminal: bool) -> ProgressDisplay:
    """Returns the progress bar if this is a terminal and `rich` is installed, and otherwise plain lines."""
    if not terminal or find_spec("rich") is None:
        return PlainLines(_say)
    from rich.console import Console

    from sublet.spark.pipeline.progress_bar import ProgressBar

    return ProgressBar(Console(), stream)


def _say(line: str) -> None:
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
