"""Every application of an account, over memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from sublet.decisions.manager.liveness import Sighting
from sublet.decisions.status.status_rules import Status
from sublet.errors import LeaseTableAccessDenied
from sublet.operate.applications import applications
from sublet.operate.cli.monitor.applications import as_json, lines_of, reads
from sublet.operate.rules.application_status import ApplicationStatus
from sublet.ports import Clock, Remembered, Tasks
from sublet.ports.account import ALL, ApplicationRows, Tags
from sublet.protocol.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.control import Control, Order, Pause
from sublet.protocol.handler_failure import HandlerFailure
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.settings import Settings
from sublet.testing.memory import FakeClock, MemoryAccount
from sublet.testing.turn_taking import TurnTaking

CLOCK = FakeClock()
NOW = CLOCK.now()
MINUTE = timedelta(minutes=1)
SETTINGS = Settings(application="any", stream="-")
LEASE = Lease("shardId-000000000000", Checkpoint("5"), 7, "host:java-1")
WELL = Lease("shardId-000000000000", Checkpoint("5"), 7, "app-lambda-0", lag_report=LagReport(NOW, 0 * MINUTE))


@dataclass
class Tables:
    """What is asked of an account, with these tables and their sightings."""

    found: Mapping[str, ApplicationRows | LeaseTableAccessDenied | None]
    clock: Clock = CLOCK
    tasks: Tasks = field(default_factory=lambda: TurnTaking(CLOCK))

    def tables(self, tags: Tags = ALL) -> Iterator[str]:  # noqa: ARG002 - none has any
        return iter(sorted([*self.found, *(f"{name}-sightings" for name in self.found)]))

    def application_rows(self, table: str) -> ApplicationRows | None:
        rows = self.found[table]
        if isinstance(rows, Exception):
            raise rows
        return rows


def look(
    **found: ApplicationRows | LeaseTableAccessDenied | None,
) -> list[ApplicationStatus]:
    """`found`: by table, with _ for -."""
    account: Any = Tables({name.replace("_", "-"): rows for name, rows in found.items()})
    return list(applications(account, SETTINGS))


def test_applications_list_the_worst_first_and_only_lease_tables() -> None:
    found = look(
        well=ApplicationRows(LeaseScan((WELL,))),
        java=ApplicationRows(LeaseScan((LEASE,))),
        users=None,
        malformed=ApplicationRows(LeaseScan((WELL,), (MalformedRow("x", "half a row"),))),
        secret=LeaseTableAccessDenied("not allowed on lease table secret"),
        none=ApplicationRows(LeaseScan(())),
        failing=ApplicationRows(LeaseScan((replace(WELL, failing=HandlerFailure("ValueError", 2, NOW - MINUTE)),))),
    )
    assert [(one.name, one.worst_status, one.is_bad) for one in found] == [
        ("secret", None, True),
        ("failing", Status.FAILING, True),
        ("malformed", Status.OK, True),
        ("none", None, False),
        ("java", Status.UNKNOWN, False),
        ("well", Status.OK, False),
    ]
    assert found[0].problem == "not allowed on lease table secret"


def test_last_write_comes_from_rows_and_sightings() -> None:
    seen = Remembered({LEASE.lease_key: Sighting(7, "host:java-1", NOW - MINUTE)})
    java, known, well = look(
        java=ApplicationRows(LeaseScan((LEASE,))),
        known=ApplicationRows(LeaseScan((LEASE,)), seen),
        well=ApplicationRows(LeaseScan((WELL,)), seen),
    )
    assert [one.last_write for one in (java, known, well)] == [None, NOW - MINUTE, NOW]


def test_application_is_shown_as_paused() -> None:
    control = Control(Pause(Order.PAUSE, NOW, "jo"))
    ended = Lease("shardId-000000000001", SHARD_END)
    (one,) = look(a_b=ApplicationRows(LeaseScan((WELL, ended)), Remembered({}), control))
    assert one.status is not None
    assert (one.name, one.worst_status) == ("a-b", Status.PAUSED)
    assert one.status.statuses == {Status.PAUSED: 1, Status.ENDED: 1}


def test_a_table_whose_name_no_application_can_have_is_named() -> None:
    (one,) = look(**{"x" * 250: ApplicationRows(LeaseScan((Lease("shard", TRIM_HORIZON),)))})
    assert one.problem is not None
    assert "application" in one.problem


def test_an_account_in_memory_has_its_consumers() -> None:
    account = MemoryAccount(clock=CLOCK, tasks=TurnTaking(CLOCK))
    account.create("orders", 1)
    settings = Settings(application="orders-audit", stream="orders")
    account.compose(settings, account.tasks.signal(), may_create=True)
    (one,) = applications(account, SETTINGS)
    assert (one.name, one.worst_status, one.is_bad) == ("orders-audit", None, False)


def test_a_line_for_each_and_its_problem_below() -> None:
    found = look(
        well=ApplicationRows(LeaseScan((WELL,)), problem="not allowed on sightings table well-sightings\x1b"),
        secret=LeaseTableAccessDenied("not allowed on lease table secret"),
    )
    lines = [" ".join(line.split()) for line in lines_of(found)]
    assert lines == [
        "application worst lag workers last write shards stream",
        "secret cannot be read",
        "not allowed on lease table secret",
        f"well OK 0s 1 {NOW:%Y-%m-%dT%H:%M:%SZ} 1 OK -",
        "'not allowed on sightings table well-sightings\\x1b'",
    ]
    assert json.loads(json.dumps([as_json(one) for one in found]))[1]["statuses"] == {"OK": 1}


def test_leases_of_a_multi_stream_kcl_are_counted() -> None:
    (one,) = look(java=ApplicationRows(LeaseScan((), (), ("123456789012:orders:1700000000:shardId-0",))))
    assert list(lines_of([one]))[1].split()[-5:] == ["1", "of", "several", "streams", "-"]
    assert as_json(one)["multi_stream"] == 1


def test_an_application_is_of_the_stream_that_it_is_known_to_read() -> None:
    arn = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
    one = ApplicationStatus("audit", stream=arn)
    assert all(reads(one, stream) for stream in (None, "orders", arn))
    assert not any(reads(one, stream) for stream in ("order", arn.replace("123456789012", "210987654321")))
    several = Lease("123456789012:payments:1700000000:shardId-000000000000", Checkpoint("5"))
    (found,) = look(many=ApplicationRows(LeaseScan((several,))))
    assert reads(found, "payments") is bool(found.status and found.status.shards)
    assert not reads(found, "orders")
