"""The Spark session of the command, and what it shows on."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec

from pyspark.sql import SparkSession

from sublet.pipeline.settings import PipelineSettings
from sublet.pipeline.tally import Display, PlainLines

REDACTED = "(?i)url|externalid"
"""Options whose values Spark's plans do not show, by their names: Spark's own default, and the external id of a role."""

DEFAULTS = {
    "spark.sql.redaction.options.regex": REDACTED,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.showConsoleProgress": "false",
}
"""Ours where nobody has said otherwise. Spark's own INT96 timestamps are read by Spark and few others."""

SHUFFLE = "spark.sql.shuffle.partitions"


def session(settings: PipelineSettings, quiet: bool) -> SparkSession:
    """`quiet`: its warnings would garble a terminal. Its Python workers run this interpreter, unless something else is set."""
    if "spark.pyspark.python" not in settings.spark:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"sublet pipeline {settings.stream}")
    for name, value in {**_defaults(settings.spark), **settings.spark}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if SHUFFLE not in settings.spark:  # 200, meant for large joins: the shards' figures would be 200 tasks
        spark.conf.set(SHUFFLE, str(spark.sparkContext.defaultParallelism))
    if quiet:
        spark.sparkContext.setLogLevel("ERROR")
    return spark


def _defaults(given: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in DEFAULTS.items() if name not in given}


def display_for(stream: str, terminal: bool) -> Display:
    """The bar only on a terminal, and if `rich` is there."""
    if not terminal or find_spec("rich") is None:
        return PlainLines(_say)
    from rich.console import Console

    from sublet.pipeline.progress_bar import ProgressBar

    return ProgressBar(Console(), stream)


def _say(line: str) -> None:
    print(line, flush=True)


def cause_of(failure: Exception) -> str:
    """What a person can do something about: our own error if there is one, or the last one that Python raised."""
    text = str(failure)
    ours = re.findall(r"sublet\.errors\.(\w+: .+)", text)
    raised = re.findall(r"^(?:\w+\.)*(\w+(?:Error|Exception|Exit|Interrupt): .+)", text, re.MULTILINE)
    lines = [line for line in text.splitlines() if line.strip()]
    return str((ours or raised[-1:] or lines or [type(failure).__name__])[0]).strip()
