"""`sublet workers`: each worker's load beside an even share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sublet.decisions.status.work_distribution import GroupLoad, WorkDistribution, WorkerLoad
from sublet.operate.cli.monitor.workers import distribution_lines

NOW = datetime(2026, 11, 22, 8, tzinfo=UTC)


def test_leases_and_throughput_are_shown_by_group_by_worker_and_in_all() -> None:
    seconds, hour = timedelta(seconds=3), timedelta(hours=1)
    of = WorkDistribution(
        (GroupLoad("zone-a", 2, 1_000, 1_000.5, 7.25, 8.0), GroupLoad("zone-b", 1, 1, 0.5, None)),
        (
            WorkerLoad("zone-a:1", "zone-a", 1_000, 7.25, seconds, NOW - hour / 2),
            WorkerLoad("zone-b\x1b:1", "zone-b", 1, None),
        ),
        target=334,
        unowned=3,
        expired=2,
        moved=1,
        target_kbps=4.0,
    )
    lines = list(distribution_lines(of, NOW))
    assert [" ".join(line.split()) for line in lines] == [
        "group workers leases share KB/s share",
        "zone-a 2 1000 1000.5 7.2 8.0",
        "zone-b 1 1 0.5 - -",
        "",
        "worker leases KB/s wrote took",
        "zone-a:1 1000 7.2 3s ago 30m ago",
        "'zone-b\\x1b:1' 1 - - -",
        "",
        "target: 334 leases and 4.0 KB/s a worker; 3 unowned, 2 expired, 1 moved in the last hour",
    ]


def test_workers_prints_one_line_without_a_live_worker() -> None:
    (line,) = distribution_lines(WorkDistribution((), (), 0, 4, 0, 0), NOW)
    assert line.startswith("target: 0 leases a worker; 4 unowned")


def test_whether_owners_are_gone_is_a_dash_if_it_is_not_known() -> None:
    (line,) = distribution_lines(WorkDistribution((), (), 0, 4, None, 0), NOW)
    assert "; 4 unowned, - expired, 0 moved" in line
