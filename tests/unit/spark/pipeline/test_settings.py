"""`sublet pipeline`: its arguments, and which are refused, without Spark."""

from __future__ import annotations

import argparse
import subprocess
import sys
from datetime import timedelta

import pytest
from sublet.errors import SettingsError
from sublet.operate.cli import main as command_line
from sublet.spark.pipeline import command
from sublet.spark.pipeline.settings import PipelineSettings, Sink, in_partitions

NAMED = ("--stream", "orders", "--output", "lake/")


def settings(*arguments: str) -> PipelineSettings:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.settings_of(parser.parse_args([*NAMED, *arguments]))


def test_the_defaults() -> None:
    given = settings()
    assert given.stream == "orders"
    assert (given.output, given.checkpoint) == ("lake", "lake/_checkpoint")
    assert given.sink is Sink.PARQUET
    assert given.every == timedelta(minutes=1)
    assert settings("--every", "5 minutes").every == timedelta(minutes=5)
    assert given.options == {"stream": "orders", "maxSpanPerTrigger": "10m"}


def test_pipeline_settings_follow_the_command_line() -> None:
    given = settings(
        *("--sink", "delta", "--checkpoint", "s3://b/c/", "--available-now", "--start", "LATEST"),
        *("--application", "audit", "--leases", "follow"),
        *("--option", "region=eu-west-1", "--option", "maxrecordspertrigger=5"),
        *("--conf", "spark.driver.memory=4g", "--schema", "a INT", "--transform", "orders:tables"),
    )
    assert given.checkpoint == "s3://b/c"
    assert given.every is None
    assert given.options == {
        "stream": "orders",
        "startPosition": "LATEST",
        "application": "audit",
        "leases": "follow",
        "region": "eu-west-1",
        "maxrecordspertrigger": "5",
        "availableNow": "true",
    }
    assert given.spark == {"spark.driver.memory": "4g"}
    assert (given.schema, given.transform) == ("a INT", "orders:tables")


def test_pipeline_reads_in_as_many_tasks_as_there_are_slots_unless_told() -> None:
    assert in_partitions({"stream": "orders"}, 16) == {"stream": "orders", "maxPartitions": "16"}
    assert in_partitions({"MaxPartitions": "3"}, 16) == {"MaxPartitions": "3"}


@pytest.mark.parametrize("how", ["hold", "HOLD"])
def test_a_source_that_holds_leases_knows_the_checkpoint(how: str) -> None:
    given = settings("--application", "audit", "--leases", how, "--metrics")
    assert given.options["checkpointLocation"] == "lake/_checkpoint"
    assert given.metrics_of == "audit"
    assert settings("--metrics").metrics_of == "orders"
    assert settings().metrics_of is None


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (("--option", "startPositoin=LATEST"), r"startPositoin.*did you mean startPosition"),
        (("--option", "region"), r"option = 'region': NAME=VALUE"),
        (("--option", "region=a", "--option", "Region=b"), "Region is given twice"),
        (("--option", "stream=b"), "option = 'stream': has an argument of its own"),
        (("--option", "endPosition=AT_TIMESTAMP:2026-01-01T00:00:00Z"), "endPosition.*not for readStream"),
        (("--start", "YESTERDAY"), "startPosition = 'YESTERDAY'"),
        (("--leases", "follow"), "setting leases .*application"),
        (("--every", "60"), "every = '60': a number and a unit"),
        (("--every", "0s"), "every = '0s': longer than 0"),
        (("--sink", "iceberg"), "checkpoint is required with iceberg"),
        (("--output", " "), "output = ' '"),
        (("--option", "checkpointLocation=x"), "checkpointLocation.*set by the pipeline"),
        (("--option", "availablenow=true"), "availableNow.*set by the pipeline.*--available-now"),
        (("--conf", "=x"), "conf = '=x': NAME=VALUE"),
    ],
)
def test_pipeline_settings_are_refused_by_name(wrong: tuple[str, ...], says: str) -> None:
    with pytest.raises(SettingsError, match=f"(?i){says}"):
        settings(*wrong)


def test_a_word_that_is_no_argument_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        settings("--kind", "delta")
    assert "unrecognized arguments: --kind" in capsys.readouterr().err


@pytest.mark.parametrize("call", [command.main, lambda given: command_line.main(["pipeline", *given])])
def test_settings_error_prints_one_sentence_and_exits_2_in_both_programs(
    capsys: pytest.CaptureFixture[str], call: object
) -> None:
    assert callable(call)
    assert call([*NAMED, "--option", "x=y"]) == 2
    assert capsys.readouterr().err.startswith("sublet: setting x = 'y': no such option")


def test_pipeline_help_imports_no_spark() -> None:
    program = (
        "import sys; from sublet.operate.cli.main import main\n"
        "try: main(['pipeline', '--help'])\n"
        "finally: assert not {'pyspark', 'pyarrow', 'numpy', 'boto3'} & set(sys.modules), sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "rejected   the records that do not fit" in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--format", "glue"), "only with schema"),
        (("--format", "xml", "--schema", "id BIGINT"), "json, jsonl, csv or csv:NAME,NAME"),
        (("--schema", "orders.avsc"), "required with an Avro schema: avro, glue or confluent:URL"),
        (("--format", "avro", "--schema", "id BIGINT"), "avro:FILE, or avro with an Avro schema's file"),
        (("--format", "csv:id,price", "--schema", "id BIGINT"), "the schema names the columns"),
        (
            *[
                (
                    "--format",
                    "jsonl",
                    "--schema",
                    "id BIGINT",
                    "--sink",
                    "delta",
                    "--merge-key",
                    "id",
                    "--order-by",
                    "id",
                )
            ],
            "a format with one row a record, for merge-key",
        ),
    ],
)
def test_format_that_does_not_go_with_the_schema_is_refused(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(SettingsError, match="setting format") as refused:
        settings(*words)
    assert says in str(refused.value)


def test_format_and_strictness_are_settings() -> None:
    given = settings("--format", "avro", "--schema", "orders.avsc", "--strict")
    assert (given.format, given.schema, given.strict) == ("avro", "orders.avsc", True)
    assert (settings().format, settings().strict) == (None, False)
