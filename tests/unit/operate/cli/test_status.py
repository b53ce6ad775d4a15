"""`sublet status`: its lines, its JSON and its exit code."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import replace
from datetime import timedelta
from io import StringIO

import msgspec
import pytest
from sublet.decisions.status.fleet_status import FleetStatus
from sublet.decisions.status.shard_status import ShardState, ShardStatus
from sublet.decisions.status.status_rules import Status, StatusReason
from sublet.operate.cli.main import main
from sublet.operate.cli.monitor.status import Screen, exit_code, judged, text_of
from sublet.operate.cli.text.last_hour import bars
from sublet.operate.last_hour_metrics import HourRecorder
from sublet.operate.rules.last_hour import RecordedHour
from sublet.operate.rules.set_aside_waiting import SetAsideWaiting
from sublet.protocol.control import Order, Pause
from sublet.protocol.handler_failure import HandlerFailure
from sublet.protocol.lease import MalformedRow
from sublet.testing.memory import FakeClock

from tests.doubles.fleet import NOW, fleet_of, shard_status
from tests.doubles.traffic import Traffic, sketch_of

MINUTE = timedelta(minutes=1)
ALL = Namespace(json=False, watch=False, unhealthy=False, behind=None, owner=None, fail_behind=None, strict=False)


OK = shard_status(0, Status.OK, StatusReason.NOTHING_WAITS, lag=timedelta(0))
BEHIND = shard_status(
    1, Status.BEHIND, StatusReason.LAG_NEVER_FELL, since=NOW - 9 * MINUTE, lag=41 * MINUTE, trend=0.3, attempts=3
)
CATCHING_UP = shard_status(
    2,
    Status.OK,
    StatusReason.LAG_FALLS,
    lag=20 * MINUTE,
    trend=-0.5,
    caught_up_in=40 * MINUTE,
    owner="host:java-1",
)
LOST = shard_status(3, Status.OK, StatusReason.WAS_CAUGHT_UP, lost=3 * MINUTE, owner=None)
STOPPED = shard_status(
    4, Status.STOPPED, StatusReason.NO_SIGN_OF_LIFE, lag=30 * MINUTE, state=ShardState.EXPIRED, crashes=2
)
FAILING = shard_status(
    7,
    Status.STALLED,
    StatusReason.POSITION_STANDS,
    attempts=14,
    failing=HandlerFailure("ValueError", 14, NOW - 9 * MINUTE),
)
ENDED = shard_status(5, Status.ENDED, StatusReason.READ_TO_ITS_END, state=ShardState.ENDED)
PAUSED = shard_status(
    6, Status.PAUSED, StatusReason.PAUSED, lag=50 * MINUTE, pause=Pause(Order.DRAIN, NOW, "jo", NOW + MINUTE)
)
FOUND = fleet_of(OK, BEHIND, CATCHING_UP, LOST, STOPPED, ENDED, PAUSED, retention=timedelta(hours=24))


def lines(**options: object) -> list[str]:
    return text_of(FOUND, Namespace(**{**vars(ALL), **options}), "orders-audit").splitlines()


def test_the_worst_comes_first_with_its_lag_its_trend_and_why() -> None:
    head, titles, *shards = lines()
    assert head == (
        "orders-audit at 2026-11-22T08:00:00Z: 1 STOPPED, 1 BEHIND, 1 PAUSED, 3 OK, 1 ENDED; worst lag 50m; "
        "the oldest record that waits is trimmed in 23h"
    )
    assert titles.split() == ["shard", "status", "lag", "trend", "caught", "up", "owner", "why"]
    assert [" ".join(line.partition("shardId-00000000000")[2].split()) for line in shards] == [
        f"4 STOPPED 30m - - orders-audit-lambda-0 (gone) {StatusReason.NO_SIGN_OF_LIFE}; owners died there: 2",
        "1 BEHIND 41m +0.30 s/s - orders-audit-lambda-0 lag has never fallen; failed calls: 3",
        "6 PAUSED 50m - - orders-audit-lambda-0 paused by an operator to drain (jo, until 2026-11-22T08:01:00Z)",
        "2 OK 20m -0.50 s/s in 40m host:java-1 lag is falling",
        "0 OK 0s - - orders-audit-lambda-0 nothing waits",
        "3 OK - - - - records of 3m are past retention, unread; recently caught up",
    ]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("ValueError", "handler raises ValueError"),
        ("HandlerOverdue", "handler does not return in time"),
        ("BatchItemsFailed", "handler returns item failures"),
    ],
)
def test_a_handler_that_fails_is_named_with_its_attempt_and_since_when(error: str, said: str) -> None:
    failing = replace(FAILING, failing=HandlerFailure(error, 14, NOW - 9 * MINUTE))
    shown = text_of(fleet_of(failing), ALL, "orders-audit").splitlines()[-1]
    assert " STALLED " in shown
    assert shown.endswith(f" {StatusReason.POSITION_STANDS}; {said}, attempt 14, since 2026-11-22T07:51:00Z")
    (as_json,) = json.loads(text_of(fleet_of(failing), Namespace(**{**vars(ALL), "json": True}), "x"))["shards"]
    assert as_json["failing"] == {"error": error, "attempt": 14, "since": "2026-11-22T07:51:00+00:00"}


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"unhealthy": True}, [4, 1, 3]),
        ({"behind": 30 * MINUTE}, [4, 1, 6]),
        ({"owner": "java"}, [2]),
    ],
)
def test_filters(options: dict[str, object], shown: list[int]) -> None:
    assert [line[:20] for line in lines(**options)[2:]] == [f"shardId-{number:012}" for number in shown]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"owner": "ruby\x1b"}, "no shard matches --owner 'ruby\\x1b'; 6 are hidden"),
        (
            {"behind": 300 * MINUTE, "unhealthy": True},
            "no shard matches --unhealthy --behind 5h; 6 are hidden",
        ),
    ],
)
def test_filters_that_match_nothing_say_so(options: dict[str, object], said: str) -> None:
    _, line = lines(**options)
    assert line == said
    assert text_of(fleet_of(ENDED), Namespace(**{**vars(ALL), **options}), "x").splitlines()[1:] == []


def test_status_json_has_seconds_and_times() -> None:
    text = text_of(FOUND, Namespace(**{**vars(ALL), "json": True, "unhealthy": True}), "orders-audit")
    assert '"lag": 2460.0' in text
    assert '"since": "2026-11-22T07:51:00+00:00"' in text


@pytest.mark.parametrize(
    ("shards", "malformed", "code"),
    [
        ((OK, CATCHING_UP, ENDED, PAUSED), (), 0),
        ((OK, BEHIND), (), 1),
        ((OK, LOST), (), 1),
        ((OK,), (MalformedRow("x", "half a row"),), 1),
        ((), (), 0),
    ],
)
def test_a_script_can_use_the_exit_code(
    shards: tuple[ShardStatus, ...], malformed: tuple[MalformedRow, ...], code: int
) -> None:
    assert exit_code(fleet_of(*shards, malformed=malformed)) == code


def test_status_escapes_control_characters_of_a_row() -> None:
    found = fleet_of(replace(OK, owner="own\x1b[2Jer"), malformed=(MalformedRow("r\x1b", "p\x1b"),))
    assert all(line.isprintable() for line in text_of(found, ALL, "orders-audit").splitlines())


def test_status_refuses_an_invalid_duration(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["status", "--behind", "long"])
    assert "'long' is not" in capsys.readouterr().err


class Terminal(StringIO):
    """Of six lines."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch, columns: int, rows: int) -> list[str]:
    for name, value in (("COLUMNS", columns), ("LINES", rows)):
        monkeypatch.setenv(name, str(value))
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    Screen(Namespace(**{**vars(ALL), "watch": True}), "orders-audit").show(FOUND)
    cleared, _, shown = terminal.getvalue().rpartition("\x1b[J")
    assert cleared == "\x1b[H"
    lines = shown.splitlines()
    assert max(map(len, lines)) < columns
    assert len(lines) < rows
    return lines


def test_status_watch_shows_the_worst_shards_and_the_last_hour_on_one_screen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head, rest, titles, worst, reason, more, graph = watched(monkeypatch, 90, 8)
    assert head.startswith("orders-audit at")
    assert rest == "    lag 50m; the oldest record that waits is trimmed in 23h"
    assert titles.startswith("shard")
    assert "STOPPED" in worst
    assert reason.endswith("; owners died there: 2")
    assert more == "... and 5 more"
    assert graph == f"lag   |{' ' * 59}█| at most 50m in the last hour"[:89]


def test_status_wraps_a_reason_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = watched(monkeypatch, 80, 40)
    whole = " ".join(" ".join(shown).split())
    for reason in (StatusReason.LAG_NEVER_FELL, StatusReason.NO_SIGN_OF_LIFE, "(jo, until 2026-11-22T08:01:00Z)"):
        assert reason in whole
    assert "... and" not in whole


def test_status_exit_code_follows_fail_behind_and_strict() -> None:
    def code(found: FleetStatus, **options: object) -> int:
        return judged(found, Namespace(**{**vars(ALL), **options}))

    fine = fleet_of(OK, CATCHING_UP, ENDED)
    unknown = fleet_of(OK, shard_status(9, Status.UNKNOWN, StatusReason.WATCHED_BRIEFLY))
    assert code(fine) == 0
    assert code(fine, fail_behind=21 * MINUTE) == 0
    assert code(fine, fail_behind=20 * MINUTE) == 1
    assert code(fine, strict=True) == 0
    assert code(unknown) == 0
    assert code(unknown, strict=True) == 1
    assert code(fleet_of()) == 0
    assert code(fleet_of(), strict=True) == 1
    assert code(fleet_of(BEHIND), strict=True) == 1


def test_the_last_hour_is_as_metrics_have_it_with_a_line_for_moves_if_there_were_any(
    capsys: pytest.CaptureFixture[str],
) -> None:
    recorded = RecordedHour({NOW - 30 * MINUTE: 7200.0}, {NOW - 30 * MINUTE: 9.0}, {NOW - 30 * MINUTE: 3.0})
    recorder = HourRecorder(lambda: recorded, FakeClock())
    Screen(Namespace(**{**vars(ALL), "watch": True}), "orders-audit", recorder).show(FOUND)
    lag, rate, moves = capsys.readouterr().out.splitlines()[-3:]
    assert lag.endswith("| at most 2h in the last hour")
    assert rate.endswith("| at most 9.0 in the last hour")
    assert moves.endswith("| 3 changes of owners in the last hour")


def test_status_prints_all_lines_unless_watched_on_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Screen(ALL, "orders-audit").show(FOUND)
    assert capsys.readouterr().out.splitlines() == lines()
    Screen(Namespace(**{**vars(ALL), "watch": True}), "orders-audit").show(FOUND)
    *shown, graph = capsys.readouterr().out.splitlines()
    assert shown == lines()
    assert graph.startswith("lag   |")


def test_bars_scale_to_the_maximum_and_are_empty_when_unknown() -> None:
    assert bars([None, 0, 1, 4, 8], plain=False) == " ▁▂▅█"
    assert bars([None, 0, 1, 4, 8], plain=True) == " ._+#"
    assert bars([0, 0], plain=False) == "▁▁"


def test_probing_needs_the_stream(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUBLET_STREAM", raising=False)
    assert main(["status", "--application", "orders-audit", "--probe"]) == 2
    assert "give --stream" in capsys.readouterr().err


def test_status_shows_set_aside_batches_and_their_deletion() -> None:
    day = timedelta(days=1)
    aside = SetAsideWaiting(12, NOW - 12 * day, NOW + 2 * day)
    _, line, *_ = text_of(FOUND, ALL, "orders-audit", aside).splitlines()
    since = f"{NOW - 12 * day:%Y-%m-%dT%H:%M:%SZ}"
    assert line == f"set aside: about 12 batches wait; the oldest since {since}, which its destination deletes in 48 h"
    in_json = Namespace(**{**vars(ALL), "json": True})
    assert json.loads(text_of(FOUND, in_json, "orders-audit", aside))["set_aside"] == {
        "batches": 12,
        "oldest": (NOW - 12 * day).isoformat(),
        "forgotten_at": (NOW + 2 * day).isoformat(),
    }
    assert "set_aside" not in json.loads(text_of(FOUND, in_json, "orders-audit"))


def test_hot_shards_have_their_worst_second_and_heaviest_key_and_name_the_command() -> None:
    hot = [sketch_of("shardId-7", [Traffic("big", 970, 1000)], seconds=1)]
    _, line, command, *_ = text_of(FOUND, ALL, "orders-audit", None, hot).splitlines()
    assert line == (
        "hot: shardId-7, worst second: 0.93 of 1 MiB, 970 of 1,000 records, at 2026-01-31T08:00:00Z; "
        "at least 100% of its load: big"
    )
    assert command == "`sublet hot --application orders-audit` says what helps, and at what price"
    in_json = Namespace(**{**vars(ALL), "json": True})
    assert json.loads(text_of(FOUND, in_json, "orders-audit", None, hot))["hot"] == {
        "shardId-7": {
            "heat": 0.97,
            "peak": {"at": "2026-01-31T08:00:00+00:00", "bytes": 972_910, "records": 970},
            "keys": [{"md5": "d861877da56b8b4ceb35c8cbfdf65bb4", "name": "big", "at_least": 1.0, "at_most": 1.0}],
        }
    }
    assert "hot" not in json.loads(text_of(FOUND, in_json, "orders-audit"))


def test_a_hot_shard_whose_keys_are_not_known_has_its_worst_second_alone() -> None:
    hot = [msgspec.structs.replace(sketch_of("shardId-7", [Traffic("big", 970, 10)], seconds=1), keys=())]
    _, line, *_ = text_of(FOUND, ALL, "orders-audit", None, hot).splitlines()
    assert line.startswith("hot: shardId-7, worst second: ")
    assert "load" not in line


def test_leases_that_cannot_be_shown_are_counted() -> None:
    (_, line) = text_of(replace(fleet_of(), multi_stream=12), ALL, "orders-audit").splitlines()
    assert line.startswith("12 leases of several streams not shown")


def test_leases_of_deleted_streams_are_counted() -> None:
    (_, line) = text_of(replace(fleet_of(), of_gone=2), ALL, "orders-audit").splitlines()
    assert line == "2 leases of deleted streams not shown; `sublet streams` names these streams"


def test_the_last_word_of_a_silent_owner_is_shown_with_its_time() -> None:
    silent = shard_status(0, Status.OK, StatusReason.NOTHING_WAITED, since=NOW - 3 * MINUTE)
    shown = text_of(fleet_of(silent), ALL, "orders-audit").splitlines()[-1]
    assert shown.endswith(" nothing waited at the lease row's last report, at 2026-11-22T07:57:00Z")
