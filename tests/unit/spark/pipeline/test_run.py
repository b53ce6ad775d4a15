"""The rules of a pipeline's run, without Spark: whose output it is, what an attempt left behind, what it prints."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console
from sublet.errors import SettingsError
from sublet.spark.pipeline.identity import PipelineIdentity, settle
from sublet.spark.pipeline.journal_of_02 import BatchJournal, left_over
from sublet.spark.pipeline.progress_bar import ProgressBar
from sublet.spark.pipeline.settings import Sink
from sublet.spark.pipeline.tally import (
    BatchDone,
    PlainLines,
    RunTally,
    seconds,
    summary_lines,
)

FRESH, FIRST, OTHER = (PipelineIdentity(name, "orders", Sink.PARQUET) for name in ("fresh", "first", "other"))


def test_a_first_run_claims_unused_tables_and_the_next_runs_keep_them() -> None:
    assert settle(FRESH, None, None, in_use=False) == FRESH
    assert settle(FRESH, FIRST, FIRST, in_use=True) == FIRST


def test_run_that_died_between_its_marks_is_continued() -> None:
    assert settle(FRESH, FIRST, None, in_use=False) == FIRST


@pytest.mark.parametrize(
    ("output", "checkpoint", "says"),
    [
        (None, None, "already used by something else"),
        (FIRST, None, "needs its own checkpoint"),
        (None, FIRST, "belongs to another output"),
        (FIRST, OTHER, r"another checkpoint \(orders into parquet \(first\)\)"),
    ],
)
def test_an_output_and_a_checkpoint_that_do_not_belong_together(
    output: PipelineIdentity | None, checkpoint: PipelineIdentity | None, says: str
) -> None:
    with pytest.raises(SettingsError, match=f"setting checkpoint .*{says}"):
        settle(FRESH, output, checkpoint, in_use=True)


def test_a_checkpoint_whose_output_is_gone_is_refused_also_before_its_first_batch() -> None:
    with pytest.raises(SettingsError, match="belongs to another output"):
        settle(FRESH, None, FIRST, in_use=False)


@pytest.mark.parametrize(
    "theirs", [PipelineIdentity("first", "payments", Sink.PARQUET), PipelineIdentity("first", "orders", Sink.DELTA)]
)
def test_another_stream_or_sink_in_the_same_output_is_refused(theirs: PipelineIdentity) -> None:
    with pytest.raises(SettingsError, match=r"setting (stream|sink) .*give another output"):
        settle(FRESH, theirs, theirs, in_use=True)


def test_mark_round_trips_and_a_torn_one_is_none() -> None:
    assert PipelineIdentity.from_json(FIRST.to_json()) == FIRST
    assert FIRST.stream == "orders"
    for text in ("", FIRST.to_json()[:20], "[]", "{}", '{"id": "x", "stream": "y", "sink": "z"}'):
        assert PipelineIdentity.from_json(text) is None


OF_02 = '{"id": "first", "stream": "orders", "sink": "parquet"}'


def test_mark_of_02_belongs_to_the_pipeline_that_continues_it() -> None:
    old = PipelineIdentity.from_json(OF_02)
    assert old is not None
    assert old.is_of_02
    assert settle(FRESH, old, old, in_use=True) == old
    assert old.renewed() == FIRST
    assert settle(FRESH, old, FIRST, in_use=True).is_of_02, "the crash came before the output's mark was renewed"
    assert not settle(FRESH, FIRST, old, in_use=True).is_of_02, "a checkpoint from before was put back"


def test_mark_is_refused_by_02_with_a_plain_word() -> None:
    """0.2 compares the stream, and shows what it finds."""
    assert json.loads(FIRST.to_json())["stream"] == "orders as of a newer sublet, which 0.2 cannot continue"


def test_leftovers_of_02_are_the_places_in_its_journal() -> None:
    text = '{"batch": 17, "places": ["raw/batch=17", "parsed/batch=17"]}'
    journal = BatchJournal.from_json(text)
    assert left_over(journal, 17) == ("raw/batch=17", "parsed/batch=17")
    assert left_over(journal, 18) == ()
    for torn in (None, "", text[:-5], "[]", "7"):
        assert left_over(BatchJournal.from_json(torn), 17) == ()


@pytest.mark.parametrize(
    "place",
    [
        "",
        "/",
        ".",
        "..",
        "raw",
        "../batch=17",
        "raw/../../elsewhere/batch=17",
        "/etc/batch=17",
        "raw/batch=18",
        "s3://bucket/raw/batch=17",
        "raw/batch=17/..",
        "raw//batch=17",
        "raw/arrivalDate=../batch=17",
        "raw/x/batch=17",
    ],
)
def test_no_journal_has_anything_deleted_that_its_batch_does_not_write(place: str) -> None:
    with pytest.raises(SettingsError, match="a folder that no batch writes to"):
        left_over(BatchJournal(17, ("raw/batch=17", place)), 17)


def test_leftovers_of_an_unfinished_batch_are_its_places() -> None:
    dated = BatchJournal(17, ("raw/arrivalDate=2026-01-01/shardId=shardId-000000000003/batch=17", "by_day/batch=17"))
    assert left_over(dated, 17) == dated.places


NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)


def tally() -> RunTally:
    counted = RunTally()
    counted.add(BatchDone(0, {"raw": 1200, "parsed": 1199, "rejected": 1}, timedelta(seconds=2)))
    counted.add(BatchDone(1, {"raw": 10, "parsed": 10, "rejected": 0, "carriers": 3}, timedelta(seconds=12)))
    counted.lag, counted.planned_at = timedelta(milliseconds=400), NOW - timedelta(seconds=25)
    return counted


def test_the_summary_has_rows_rejected_lag_and_duration() -> None:
    assert summary_lines(tally(), timedelta(seconds=60), "lake", NOW) == [
        "1,210 rows in 2 batches, 1 min 0 s (20 a second)",
        "rejected: 1 (why: lake/rejected)",
        "behind the stream's tip: at most 25 s",
        "parsed: 1,209 rows",
        "carriers: 3 rows",
    ]
    assert summary_lines(RunTally(), timedelta(0), "lake", NOW) == [
        "0 rows in 0 batches, 0.0 s (0 a second)",
        "rejected: 0",
        "behind the stream's tip: not known",
    ]


def test_a_line_for_each_batch() -> None:
    said: list[str] = []
    PlainLines(said.append).batch_done(tally())
    assert said == ["batch 1: raw 10, parsed 10, rejected 0, carriers 3 rows in 12 s"]


def test_a_line_names_the_shards_that_reparse_has_to_bring() -> None:
    counted, said = RunTally(), list[str]()
    counted.add(BatchDone(0, {"raw": 5}, timedelta(seconds=1), frozenset({"orders/b", "orders/a"})))
    PlainLines(said.append).batch_done(counted)
    assert said[1:] == summary_lines(counted, timedelta(0), "lake", NOW)[-1:]
    assert "lack records of orders/a, orders/b" in said[1]
    assert "or because these tables are new" in said[1]
    assert "sublet pipeline reparse --from raw" in said[1]


def test_durations_are_for_people() -> None:
    texts = [seconds(timedelta(seconds=s)) for s in (0.04, 9.4, 59, 61, 3599, 3600, 90000)]
    assert texts == ["0.0 s", "9.4 s", "59 s", "1 min 1 s", "59 min 59 s", "1 h 0 min", "25 h 0 min"]


def test_the_bar_on_a_terminal_fills_as_the_lag_goes() -> None:
    screen = io.StringIO()
    bar = ProgressBar(Console(file=screen, force_terminal=True, width=100), "orders")
    counted = RunTally(lag=timedelta(minutes=10))
    bar.lag_known(counted)
    counted.add(BatchDone(0, {"raw": 5, "rejected": 2}, timedelta(seconds=1)))
    counted.lag = timedelta(minutes=5)
    bar.lag_known(counted)
    bar.batch_done(counted)
    assert bar.done == pytest.approx(0.5)
    bar.close()
    assert "orders: 5 rows, 2 rejected, 5 min 0 s behind" in screen.getvalue()
