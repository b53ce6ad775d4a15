"""`sublet pause`, `resume`, `drain` and `release`: their arguments, and what they print."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from sublet.operate.cli.options.operated import operator
from sublet.operate.cli.pausing import until
from sublet.operate.cli.text.pause_text import ordered_json, ordered_lines, progress_text
from sublet.operate.pausing import OrderedPause
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.control import Order, Pause
from sublet.protocol.lease import Lease

NOW = datetime(2026, 11, 23, 8, tzinfo=UTC)
PAUSE = Pause(Order.PAUSE, NOW, "anna@desk", NOW + timedelta(hours=2))
LEASES = tuple(Lease(f"shardId-{n}", TRIM_HORIZON, 1, f"orders-{n}") for n in range(4))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2h", NOW + timedelta(hours=2)),
        ("2026-11-23T18:00:00Z", NOW + timedelta(hours=10)),
        ("2026-11-23T18:00:00+02:00", NOW + timedelta(hours=8)),
    ],
)
def test_an_end_is_a_time_or_in_how_long(text: str, moment: datetime) -> None:
    assert until(text)(NOW) == moment


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-11-23T18:00:00", "-2h", "18:00"])
def test_until_is_refused_with_the_allowed_forms(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="a time with its zone, such as"):
        until(text)


def test_pause_lists_the_leases_still_held() -> None:
    assert list(ordered_lines("orders", OrderedPause(PAUSE, LEASES, LEASES[:1]))) == [
        "orders: pause of 4 leases until 2026-11-23T10:00:00Z, 1 still held",
        "  shardId-0 by orders-0",
    ]
    for_ever = Pause(Order.DRAIN, NOW, "anna@desk")
    assert list(ordered_lines("orders", OrderedPause(for_ever, LEASES[:1], ()))) == [
        "orders: drain of 1 lease, none held"
    ]


def test_the_same_as_json() -> None:
    assert ordered_json("orders", OrderedPause(PAUSE, LEASES[:2], LEASES[:1])) == {
        "application": "orders",
        "order": "pause",
        "since": "2026-11-23T08:00:00+00:00",
        "until": "2026-11-23T10:00:00+00:00",
        "by": "anna@desk",
        "leases": ["shardId-0", "shardId-1"],
        "held": {"shardId-0": "orders-0"},
        "replaces": [],
    }


def test_pause_names_the_order_it_replaces_and_its_author() -> None:
    """Two operators may order something at the same time."""
    before = Pause(Order.PAUSE, NOW - timedelta(hours=1), "b\x1bo@desk")
    ordered = OrderedPause(PAUSE, LEASES, (), (before,))
    assert list(ordered_lines("orders", ordered))[1:] == [
        "  it replaces the pause by 'b\\x1bo@desk' since 2026-11-23T07:00:00Z, which had no end"
    ]
    assert ordered_json("orders", ordered)["replaces"] == [
        {"order": "pause", "since": "2026-11-23T07:00:00+00:00", "until": None, "by": "b\x1bo@desk"}
    ]
    ended = OrderedPause(PAUSE, LEASES, (), (replace(PAUSE, order=Order.DRAIN),))
    (line,) = list(ordered_lines("orders", ended))[1:]
    assert line.endswith("the drain by anna@desk since 2026-11-23T08:00:00Z until 2026-11-23T10:00:00Z")


def test_release_names_the_worker_that_still_holds_the_lease() -> None:
    request = replace(PAUSE, order=Order.RELEASE)
    assert list(ordered_lines("orders", OrderedPause(request, LEASES[:1], ()))) == ["orders: no worker holds shardId-0"]
    assert list(ordered_lines("orders", OrderedPause(request, LEASES[:1], LEASES[:1]))) == [
        "orders: orders-0 still holds shardId-0"
    ]


def test_progress_names_some_leases_still_held() -> None:
    assert progress_text(LEASES) == (
        "4 still held: shardId-0 by orders-0, shardId-1 by orders-1, shardId-2 by orders-2 and others"
    )
    on_its_way = Lease("shardId-9", TRIM_HORIZON)
    assert progress_text([on_its_way]) == "1 still held: shardId-9 by a worker on its way"
    assert progress_text([]).startswith("every lease is released")


def test_pause_escapes_control_characters_of_a_row() -> None:
    lease = Lease("shardId-0", TRIM_HORIZON, 1, "own\x1b[2Jer")
    ordered = OrderedPause(PAUSE, (lease,), (lease,))
    assert all(line.isprintable() for line in (*ordered_lines("orders", ordered), progress_text([lease])))


def test_the_operator_is_a_user_and_a_machine() -> None:
    user, _, machine = operator().partition("@")
    assert user
    assert machine
