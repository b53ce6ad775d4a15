"""`sublet status`: what it shows, as lines and as JSON, and its exit code."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime, timedelta

import pytest
from sublet.cli.main import main
from sublet.cli.status import exit_code, text_of
from sublet.decisions.shard_verdict import Because, ShardVerdict, TimeStanding, Word
from sublet.operate.standing import ApplicationStanding, ShardStanding
from sublet.protocol.checkpoint import SHARD_END, Checkpoint
from sublet.protocol.lease import Lease, MalformedRow

NOW = datetime(2026, 11, 22, 8, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ALL = Namespace(json=False, watch=False, unhealthy=False, behind=None, owner=None)


def shard(
    number: int, standing: TimeStanding, owner: str | None = "app-lambda-0", *, gone: bool = False
) -> ShardStanding:
    lease = Lease(f"shardId-{number:012}", Checkpoint("5"), lease_owner=owner)
    return ShardStanding(lease, standing, gone)


OK = shard(0, TimeStanding(ShardVerdict(Word.OK, Because.NOTHING_WAITS), timedelta(0)))
BEHIND = shard(
    1, TimeStanding(ShardVerdict(Word.BEHIND, Because.LAG_NEVER_FELL, NOW - 9 * MINUTE), 41 * MINUTE, 0.3)
)
CATCHING_UP = shard(
    2, TimeStanding(ShardVerdict(Word.OK, Because.LAG_FALLS), 20 * MINUTE, -0.5, 40 * MINUTE), "host:java-1"
)
LOST = shard(
    3, TimeStanding(ShardVerdict(Word.OK, Because.WAS_CAUGHT_UP), None, None, None, 3 * MINUTE), None
)
STOPPED = shard(4, TimeStanding(ShardVerdict(Word.STOPPED, Because.NO_SIGN_OF_LIFE), 30 * MINUTE), gone=True)
ENDED = ShardStanding(
    Lease("shardId-000000000005", SHARD_END),
    TimeStanding(ShardVerdict(Word.ENDED, Because.READ_TO_ITS_END)),
    False,
)
FOUND = ApplicationStanding(NOW, (OK, BEHIND, CATCHING_UP, LOST, STOPPED, ENDED), ())


def lines(**options: object) -> list[str]:
    return text_of(FOUND, Namespace(**{**vars(ALL), **options}), "orders-audit").splitlines()


def test_the_worst_comes_first_with_its_lag_its_trend_and_why() -> None:
    head, titles, *shards = lines()
    assert head == "orders-audit at 2026-11-22T08:00:00Z: 1 STOPPED, 1 BEHIND, 3 OK, 1 ENDED; worst lag 41m"
    assert titles.split() == ["shard", "word", "lag", "trend", "caught", "up", "owner", "why"]
    assert [line.partition("shardId-00000000000")[2] for line in shards] == [
        f"4  STOPPED     30m          -          -  {'app-lambda-0 (gone)':<24} {Because.NO_SIGN_OF_LIFE.value}",
        "1  BEHIND      41m  +0.30 s/s          -  app-lambda-0             its lag has not fallen once",
        "2  OK          20m  -0.50 s/s     in 40m  host:java-1              its lag falls",
        "0  OK           0s          -          -  app-lambda-0             nothing waits",
        f"3  OK            -          -          -  {'-':<24} records of 3m are past retention, unread; it was caught up lately",
    ]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"unhealthy": True}, [4, 1, 3]),
        ({"behind": 30 * MINUTE}, [4, 1]),
        ({"owner": "java"}, [2]),
    ],
)
def test_filters(options: dict[str, object], shown: list[int]) -> None:
    assert [line[:20] for line in lines(**options)[2:]] == [f"shardId-{number:012}" for number in shown]


def test_as_json_it_has_seconds_and_times() -> None:
    text = text_of(FOUND, Namespace(**{**vars(ALL), "json": True, "unhealthy": True}), "orders-audit")
    assert '"lag": 2460.0' in text
    assert '"since": "2026-11-22T07:51:00+00:00"' in text


@pytest.mark.parametrize(
    ("shards", "malformed", "code"),
    [
        ((OK, CATCHING_UP, ENDED), (), 0),
        ((OK, BEHIND), (), 1),
        ((OK, LOST), (), 1),
        ((OK,), (MalformedRow("x", "half a row"),), 1),
        ((), (), 0),
    ],
)
def test_a_script_can_use_the_exit_code(
    shards: tuple[ShardStanding, ...], malformed: tuple[MalformedRow, ...], code: int
) -> None:
    assert exit_code(ApplicationStanding(NOW, shards, malformed)) == code


def test_nothing_of_a_row_reaches_the_terminal_as_a_command() -> None:
    found = ApplicationStanding(
        NOW, (shard(0, OK.standing, "own\x1b[2Jer"),), (MalformedRow("r\x1b", "p\x1b"),)
    )
    assert all(line.isprintable() for line in text_of(found, ALL, "orders-audit").splitlines())


def test_a_duration_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["status", "--behind", "long"])
    assert "'long' is not" in capsys.readouterr().err
