"""`sublet pipeline maintain` and `reparse`: their arguments, and which are refused, without Spark."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from datetime import timedelta

import pytest
from sublet.errors import SettingsError
from sublet.operate.cli.main import main
from sublet.spark.pipeline import command, maintain_command, reparse_command
from sublet.spark.pipeline.merge_rule import MergeRule
from sublet.spark.pipeline.reparse_command import Source
from sublet.spark.pipeline.settings import Sink

DELTA = ("--output", "lake/", "--sink", "delta")


def parsed(*arguments: str) -> Namespace:
    parser = ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(arguments)


def test_maintain_has_sane_defaults() -> None:
    given = maintain_command.settings_of(parsed("maintain", *DELTA))
    assert (given.output, given.sink, given.dry_run) == ("lake", Sink.DELTA, False)
    assert given.retention == given.tombstone_retention == timedelta(days=7)
    assert given.target_size == 128 * 2**20


def test_reparse_reads_rejected_unless_it_is_told_otherwise() -> None:
    given = reparse_command.settings_of(parsed("reparse", *DELTA, "--schema", "a INT"))
    assert (given.source, given.checkpoint, given.merge) == (Source.REJECTED, "lake/_checkpoint", None)
    merging = ("--from", "raw", "--merge-key", "a", "--order-by", "b")
    given = reparse_command.settings_of(parsed("reparse", *DELTA, "--schema", "a INT, b INT", *merging))
    assert (given.source, given.merge, given.region) == (Source.RAW, MergeRule(key=("a",), order_by=("b",)), None)


def test_reparse_takes_the_region_of_the_registry() -> None:
    glue = ("--schema", "a INT", "--format", "glue", "--region", "eu-north-1")
    assert reparse_command.settings_of(parsed("reparse", *DELTA, *glue)).region == "eu-north-1"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("maintain", *DELTA, "--retention", "23h"), "setting retention = '23h': at least 1d"),
        (("maintain", *DELTA, "--tombstone-retention", "1h"), "setting tombstone-retention = '1h': at least 1d"),
        (("maintain", *DELTA, "--target-file-size", "128"), "setting target-file-size = '128': 1MB to 16GB"),
        (("maintain", "--output", " ", "--sink", "delta"), "setting output = ' '"),
        (("maintain", "--output", "x", "--sink", "parquet"), "setting sink = 'parquet': delta or iceberg"),
        (("reparse", "--output", "x", "--sink", "parquet", "--schema", "a INT"), "setting sink = 'parquet'"),
        (
            ("reparse", "--output", "a.b", "--sink", "iceberg", "--schema", "a INT"),
            "setting checkpoint is required with iceberg",
        ),
        (("reparse", *DELTA, "--schema", "a INT", "--merge-key", "a"), "setting order-by is required"),
        (("reparse", *DELTA, "--schema", "a INT", "--region", " "), "setting region = ' '"),
    ],
)
def test_wrong_values_are_refused_by_name(arguments: tuple[str, ...], says: str) -> None:
    task = {"maintain": maintain_command, "reparse": reparse_command}[arguments[0]]
    with pytest.raises(SettingsError) as refused:
        task.settings_of(parsed(*arguments))
    assert says in str(refused.value)


def test_merging_into_parquet_is_refused_by_name() -> None:
    merging = ("--schema", "a INT", "--merge-key", "a", "--order-by", "a")
    with pytest.raises(SettingsError, match="setting merge-key = 'a': left out with parquet"):
        command.settings_of(parsed("--stream", "orders", "--output", "lake", *merging))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "the following arguments are required: --stream, --output"),
        (("maintain",), "the following arguments are required: --output, --sink"),
        (("reparse", *DELTA), "the following arguments are required: --schema"),
        (("maintain", *DELTA, "--stream", "orders"), "unrecognized"),
        (("vacuum",), "the following arguments are required: --stream, --output"),
        (("--stream", "orders", "--output", "lake", "vacuum"), "unrecognized argument"),
    ],
)
def test_each_task_has_its_own_arguments(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["pipeline", *arguments])
    assert says in capsys.readouterr().err
