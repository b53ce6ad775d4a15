"""EMF lines and log lines as CloudWatch reads them."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from sublet.aws.clients import Connection
from sublet.aws.log import PowertoolsLog
from sublet.aws.metrics import EmfMetrics
from sublet.aws.ports import aws_ports
from sublet.aws.standard_output import Output
from sublet.metric_names import LEAN, Metric, MetricScope
from sublet.ports import Log, Metrics, Ports
from sublet.settings import MetricsByShard, MetricsLevel, Settings
from sublet.testing.memory import MemoryLog, MemoryMetrics

IN_EUROPE = Connection(region="eu-west-1")


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def definition(line: dict[str, Any]) -> dict[str, Any]:
    (only,) = line["_aws"]["CloudWatchMetrics"]
    assert isinstance(only, dict)
    return only


def test_a_number_of_the_application(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = EmfMetrics("orders")
    metrics.put(Metric.TOTAL_LEASES, 12)
    metrics.flush()
    (line,) = lines(capsys)
    assert definition(line) == {
        "Namespace": "sublet",
        "Dimensions": [["application"]],
        "Metrics": [{"Name": "total_leases", "Unit": "Count"}],
    }
    assert (line["application"], line["total_leases"]) == ("orders", [12])


def test_a_number_of_a_shard_is_also_one_of_the_application(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = EmfMetrics("orders")
    for shard, lag in (("shardId-0", 5.0), ("shardId-1", 7.0)):
        metrics.put(Metric.MILLIS_BEHIND_LATEST, lag, shard_id=shard)
    metrics.flush()
    found = {(line.get("shard_id"), tuple(line["millis_behind_latest"])) for line in lines(capsys)}
    assert found == {(None, (5.0, 7.0)), ("shardId-0", (5.0,)), ("shardId-1", (7.0,))}


def test_a_shard_has_no_metrics_of_its_own_where_that_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    metrics = EmfMetrics("orders", by_shard=MetricsByShard.NONE)
    metrics.put(Metric.RECORDS, 3, shard_id="shardId-0")
    metrics.flush()
    (line,) = lines(capsys)
    assert definition(line)["Dimensions"] == [["application"]]
    assert line["records"] == [3]


def test_worst_shards_and_those_in_trouble_have_their_own_metrics_by_default(
    capsys: pytest.CaptureFixture[str],
) -> None:
    metrics = EmfMetrics("orders", by_shard=MetricsByShard.WORST)
    metrics.put(Metric.BYTES, 3, shard_id="shardId-0")
    metrics.put(Metric.UNREAD_AGE, 4, shard_id="shardId-0")
    metrics.put_for_shard(Metric.BYTES, 9, "shardId-1")
    metrics.flush()
    of_application, in_trouble, worst = lines(capsys)
    assert of_application["bytes"] == [3], "the worst shard's bytes are in it already, by its worker"
    assert (in_trouble["shard_id"], "bytes" in in_trouble, in_trouble["unread_age"]) == (
        "shardId-0",
        False,
        [4],
    )
    assert (worst["shard_id"], worst["bytes"]) == ("shardId-1", [9])


@pytest.mark.parametrize("by_shard", [MetricsByShard.WORST, MetricsByShard.ALL])
def test_a_shard_that_is_not_in_trouble_counts_for_the_application_alone(
    by_shard: MetricsByShard, capsys: pytest.CaptureFixture[str]
) -> None:
    """So does what is of the application, whichever shard it is about: each would be billed."""
    metrics = EmfMetrics("orders", by_shard=by_shard)
    metrics.put(Metric.UNREAD_AGE, 4, shard_id="shardId-0", in_trouble=False)
    metrics.put(Metric.HANDLER_ATTEMPTS, 2, shard_id="shardId-0")
    metrics.flush()
    (line,) = lines(capsys)
    assert definition(line)["Dimensions"] == [["application"]]
    assert (line["unread_age"], line["handler_attempts"]) == ([4], [2])


@pytest.mark.parametrize("by_shard", [MetricsByShard.ALL, MetricsByShard.NONE])
def test_otherwise_the_worst_are_not_put_again(by_shard: MetricsByShard, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = EmfMetrics("orders", by_shard=by_shard)
    metrics.put_for_shard(Metric.BYTES, 9, "shardId-1")
    metrics.flush()
    assert lines(capsys) == []


def test_each_dimension_set_is_declared(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = EmfMetrics("orders")
    metrics.put(Metric.RECORDS, 1, shard_id="shardId-0")
    metrics.flush()
    assert [definition(line)["Dimensions"] for line in lines(capsys)] == [
        [["application"]],
        [["application", "shard_id"]],
    ]


def test_metrics_of_several_streams_have_a_dimension_for_each_and_its_shards(
    capsys: pytest.CaptureFixture[str],
) -> None:
    metrics = EmfMetrics("orders")
    metrics.put(Metric.RECORDS, 1, shard_id="123456789012:eu:1700000000:shardId-0")
    metrics.put(Metric.RECORDS, 2, shard_id="123456789012:us:1700000001:shardId-0")
    metrics.flush()
    put = {(line.get("stream"), line.get("shard_id")): line["records"] for line in lines(capsys)}
    assert put == {
        (None, None): [1, 2],
        ("eu", None): [1],
        ("us", None): [2],
        ("eu", "shardId-0"): [1],
        ("us", "shardId-0"): [2],
    }


@pytest.mark.parametrize("by_shard", MetricsByShard)
def test_stream_stalled_age_is_put_for_the_stream_alone(
    capsys: pytest.CaptureFixture[str], by_shard: MetricsByShard
) -> None:
    metrics = EmfMetrics("orders", by_shard=by_shard)
    metrics.put(Metric.STREAM_STALLED_AGE, 9, shard_id="123456789012:eu:1700000000:shardId-0")
    metrics.flush()
    assert [(definition(line)["Dimensions"], line["stream"]) for line in lines(capsys)] == [
        ([["application", "stream"]], "eu")
    ]


def lean(by_shard: MetricsByShard = MetricsByShard.NONE) -> EmfMetrics:
    return EmfMetrics("orders", by_shard=by_shard, level=MetricsLevel.LEAN)


def test_lean_metrics_are_five_whatever_is_put(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = lean()
    for metric in Metric:
        if metric is not Metric.METRICS_EXPORTS_FAILED:  # which is put with metrics_export=otlp alone
            metrics.put(metric, 300_000, shard_id="123456789012:eu:1700000000:shardId-0")
    metrics.flush()
    (line,) = lines(capsys)
    assert {each["Name"] for each in definition(line)["Metrics"]} == {
        "standstill_age",
        "handler_attempts",
        "data_gap",
        "leases_failed",
        "millis_behind_latest",
    }
    assert definition(line)["Dimensions"] == [["application"]]


def test_lean_line_has_the_least_the_greatest_and_the_sum_of_every_metric(capsys: pytest.CaptureFixture[str]) -> None:
    """CloudWatch Logs Insights reads them, and cannot add up a list."""
    metrics = lean()
    for value in (4, 1, 2):
        metrics.put(Metric.RECORDS, value, shard_id="shardId-0")
    metrics.put(Metric.LEASES_FAILED, 1)
    metrics.flush()
    (line,) = lines(capsys)
    assert line["metrics"] == {
        "records": {"min": 1, "max": 4, "sum": 7},
        "leases_failed": {"min": 1, "max": 1, "sum": 1},
    }
    metrics.put(Metric.RECORDS, 5)
    metrics.flush()
    (line,) = lines(capsys)
    assert line == {"application": "orders", "metrics": {"records": {"min": 5, "max": 5, "sum": 5}}}


def test_lean_standstill_is_put_by_ticks_alone_unless_a_call_is_long(capsys: pytest.CaptureFixture[str]) -> None:
    """Its absence shows that a process does not tick, although its workers go on."""
    metrics = lean()
    for age in (0, 239_999):
        metrics.put(Metric.HANDLER_CALL_AGE, age)
    metrics.flush()
    (line,) = lines(capsys)
    assert "_aws" not in line
    metrics.put(Metric.HANDLER_CALL_AGE, 240_000)
    metrics.flush()
    (line,) = lines(capsys)
    assert line["standstill_age"] == [240_000]


@pytest.mark.parametrize("metric", [Metric.UNREAD_AGE, Metric.OWNER_STALLED_AGE])
def test_lean_standstill_is_the_age_of_whatever_stands_still(
    metric: Metric, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = lean()
    metrics.put(metric, 0)
    metrics.put(metric, 400_000, shard_id="shardId-0")
    metrics.flush()
    (line,) = lines(capsys)
    assert line["standstill_age"] == [0, 400_000]


@pytest.mark.parametrize(("refused", "counted"), [(0, 0), (10, 0), (11, 1), (200, 1)])
def test_lean_polls_that_stay_throttled_count_as_a_failed_lease(
    refused: int, counted: int, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = lean()
    metrics.put(Metric.THROTTLED_POLLS, refused, shard_id="shardId-0")
    metrics.flush()
    (line,) = lines(capsys)
    assert line["leases_failed"] == [counted]


def test_lean_metrics_by_shard_are_those_that_the_setting_says(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = lean(MetricsByShard.WORST)
    metrics.put(Metric.UNREAD_AGE, 7, shard_id="shardId-0")
    metrics.flush()
    of_application, in_trouble = lines(capsys)
    assert (of_application["standstill_age"], in_trouble["unread_age"]) == ([7], [7])
    assert in_trouble["shard_id"] == "shardId-0"


def test_lean_metric_of_over_a_hundred_values_has_its_summary_once(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = lean()
    for value in range(250):
        metrics.put(Metric.MILLIS_BEHIND_LATEST, value)
    metrics.flush()
    written = lines(capsys)
    assert [len(line["millis_behind_latest"]) for line in written] == [100, 100, 50]
    assert ["metrics" in line for line in written] == [True, False, False]


def test_full_metrics_leave_out_what_only_lean_has(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = EmfMetrics("orders", by_shard=MetricsByShard.NONE)
    for metric in LEAN:
        metrics.put(metric, 1)
    metrics.flush()
    (line,) = lines(capsys)
    assert {each["Name"] for each in definition(line)["Metrics"]} == set(LEAN)
    assert "metrics" not in line


def test_metric_of_over_a_hundred_values_takes_several_lines(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = EmfMetrics("orders")
    for n in range(250):
        metrics.put(Metric.BYTES, n)
    metrics.put(Metric.LOST_LEASES, 1)
    metrics.flush()
    written = lines(capsys)
    assert [len(line["bytes"]) for line in written] == [100, 100, 50]
    assert [value for line in written for value in line["bytes"]] == list(range(250))
    assert [line.get("lost_leases") for line in written] == [[1], None, None]
    assert [len(definition(line)["Metrics"]) for line in written] == [2, 1, 1]


@pytest.mark.parametrize("metric", Metric)
def test_each_metric_has_its_own_unit(capsys: pytest.CaptureFixture[str], metric: Metric) -> None:
    metrics = EmfMetrics("orders")
    of_several = "123456789012:eu:1700000000:shardId-0"
    metrics.put(metric, 1, shard_id=of_several if metric.per is MetricScope.STREAM else None)
    metrics.flush()
    assert [definition(line)["Metrics"] for line in lines(capsys)] == [
        [{"Name": metric.value, "Unit": metric.unit.value}]
    ]


def test_flush_writes_each_metric_once_and_nothing_without_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = EmfMetrics("orders")
    metrics.flush()
    metrics.put(Metric.RECORDS, 1)
    metrics.flush()
    metrics.flush()
    assert len(lines(capsys)) == 1


def test_threads_lose_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = EmfMetrics("orders")

    def put_some() -> None:
        for _ in range(200):
            metrics.put(Metric.RECORDS, 1)
        metrics.flush()

    threads = [threading.Thread(target=put_some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    metrics.flush()
    assert sum(sum(line["records"]) for line in lines(capsys)) == 800


def test_a_log_line_has_its_fields_as_keys_and_says_where_it_is_from(
    capsys: pytest.CaptureFixture[str],
) -> None:
    PowertoolsLog("test_log_line").warning("lease lost", lease_key="shardId-0", lease_counter=7)
    (line,) = lines(capsys)
    expected = {"level": "WARNING", "message": "lease lost", "lease_key": "shardId-0", "lease_counter": 7}
    assert expected.items() <= line.items()
    assert line["location"].startswith("test_a_log_line")


@pytest.mark.parametrize("level", ["info", "warning", "error"])
def test_each_level_is_written_as_itself(capsys: pytest.CaptureFixture[str], level: str) -> None:
    getattr(PowertoolsLog(f"test_{level}"), level)("said")
    assert [line["level"] for line in lines(capsys)] == [level.upper()]


def test_the_memory_ones_keep_everything() -> None:
    memory_metrics, memory_log = MemoryMetrics(), MemoryLog()
    metrics: Metrics = memory_metrics
    log: Log = memory_log
    metrics.put(Metric.RECORDS, 1, shard_id="a")
    metrics.put(Metric.RECORDS, 2, shard_id="b")
    metrics.flush()
    log.info("one", n=1)
    log.error("two")
    assert memory_metrics.values(Metric.RECORDS) == [1, 2]
    assert memory_metrics.values(Metric.RECORDS, shard_id="b") == [2]
    assert memory_metrics.flushes == 1
    assert memory_log.messages() == ["one", "two"]
    assert memory_log.messages("error") == ["two"]


class Unwritable(io.StringIO):
    """Like /dev/full, or a broken pipe."""

    def flush(self) -> None:
        raise BrokenPipeError("the reader is gone")


def closed() -> io.StringIO:
    file = io.StringIO()
    file.close()
    return file


@pytest.mark.parametrize("make", [Unwritable, closed, lambda: None], ids=["full", "closed", "none"])
def test_a_failed_write_ends_nothing_and_is_reported_once(
    make: Callable[[], Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = Output("stdout")
    metrics, log = EmfMetrics("orders", output=output), PowertoolsLog(f"test_{make}", output)
    file = make()
    monkeypatch.setattr("sys.stdout", file)
    for _ in range(3):
        metrics.put(Metric.RECORDS, 1)
        metrics.flush()
        log.info("said")
    told = capsys.readouterr().err.splitlines()
    assert [line.startswith("sublet: stdout cannot be written") for line in told] == [True] * (file is not None)


def test_a_failed_write_ends_nothing_even_if_its_report_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Unwritable())
    monkeypatch.setattr("sys.stderr", closed())
    Output("stdout").write("line\n")
    Output("stderr").write("line\n")


@pytest.fixture
def in_a_program() -> Ports:
    """The ports of a `Consumer` over AWS."""
    return aws_ports(Settings(application="orders", stream="events"), "test_program", IN_EUROPE, output=None)


def test_log_lines_in_a_users_program_go_to_its_logging(
    in_a_program: Ports, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("INFO", "sublet")
    in_a_program.log.warning("lease lost", lease_key="shardId-0", lease_counter=7)
    (line,) = caplog.records
    assert (line.name, line.levelname) == ("sublet", "WARNING")
    assert line.getMessage() == "sublet: lease lost lease_key=shardId-0 lease_counter=7"
    assert (vars(line)["lease_key"], line.funcName) == (
        "shardId-0",
        "test_log_lines_in_a_users_program_go_to_its_logging",
    )
    assert capsys.readouterr() == ("", "")


def test_percent_sign_in_a_message_is_logged_as_it_is(in_a_program: Ports, caplog: pytest.LogCaptureFixture) -> None:
    in_a_program.log.error("100% of %s", problem="%d")
    assert caplog.messages == ["sublet: 100% of %s problem=%d"]


def test_metrics_in_a_users_program_go_to_their_own_handler_alone(
    in_a_program: Ports, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    everything, metrics = (logging.StreamHandler(io.StringIO()) for _ in range(2))
    monkeypatch.setattr(logging.getLogger(), "handlers", [everything])
    monkeypatch.setattr(logging.getLogger("sublet.metrics"), "handlers", [])  # pytest's own
    in_a_program.metrics.put(Metric.RECORDS, 1)
    in_a_program.metrics.flush()
    logging.getLogger("sublet.metrics").addHandler(metrics)
    in_a_program.metrics.put(Metric.RECORDS, 2)
    in_a_program.metrics.flush()
    assert json.loads(metrics.stream.getvalue())["records"] == [2]
    assert (everything.stream.getvalue(), capsys.readouterr()) == ("", ("", ""))


def test_metrics_and_log_can_be_turned_off(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERTOOLS_METRICS_DISABLED", "true")
    monkeypatch.setenv("POWERTOOLS_LOG_LEVEL", "CRITICAL")
    metrics = EmfMetrics("orders")
    metrics.put(Metric.RECORDS, 1)
    metrics.flush()
    PowertoolsLog("test_off").error("said")
    assert capsys.readouterr() == ("", "")
