"""A seek, its plan and its undo from the page: nothing moves before the plan was shown and confirmed."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.errors import LeaseTableUnavailable
from sublet.operate.cli.main import parser
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.write_clauses import SEEK_LEAP
from sublet.testing.memory import FakeClock

from tests.doubles.console_client import ConsoleClient
from tests.doubles.console_world import ConsoleWorld

SHARD = "shardId-000000000000"
OTHER = "shardId-000000000001"
HOUR = timedelta(hours=1)


def handled_to_the_tip(world: ConsoleWorld, owner: str | None = "worker-1") -> list[str]:
    """Three records an hour apart in the first shard, and one in the second; both leases stand at the last."""
    orders = world.orders
    assert isinstance(world.clock, FakeClock)
    numbers = []
    for _ in range(3):
        numbers.append(orders.stream.put("a", b"x", 0))
        world.clock.advance(HOUR)
    other = orders.stream.put("b", b"y", 1 << 127)
    world.clock.advance(timedelta(minutes=1))
    orders.table.put_row(encode_row(Lease(SHARD, Checkpoint(numbers[-1]), 7, owner)))
    orders.table.put_row(encode_row(Lease(OTHER, Checkpoint(other), 3)))
    return numbers


def lease(world: ConsoleWorld, shard: str = SHARD) -> Lease:
    row = world.orders.table.get(shard)
    assert isinstance(row, Lease)
    return row


def planned(client: ConsoleClient, **fields: str) -> str:
    """The address of the plan."""
    reply = client.post("/a/orders/positions/seek", **fields)
    assert reply.status_code == 200, reply.text
    path = reply.url.path
    assert path.startswith("/a/orders/plans/"), reply.text
    return path


def command(page: str) -> list[str]:
    found = re.search(r'class="command">([^<]+)<', page)
    assert found is not None
    return shlex.split(found[1])


def test_a_seek_is_planned_shown_confirmed_done_and_undone() -> None:
    world = ConsoleWorld()
    numbers = handled_to_the_tip(world)
    client = ConsoleClient(world)
    before = world.orders.table.rows()

    path = planned(client, to="ago", ago="90m", shards=SHARD)
    page = client.until(path, "1 repeats")
    assert "worker-1" in page
    assert "<p>Repeats about 1 record of 29m in 1 shard, by a sample of the shards.</p>" in page
    assert "<p>Time to catch up not known" in page
    assert world.orders.table.rows() == before, "a plan moves nothing"

    client.post(path)
    client.until(path, "1 lease moved.")
    moved = lease(world)
    assert moved.checkpoint == Checkpoint(numbers[1])
    assert moved.lease_owner is None
    assert moved.lease_counter == 7 + SEEK_LEAP
    assert world.log.messages() == ["console change", "position moved", "console change ended"]
    change = world.log.lines[0].fields
    assert (change["application"], change["who"]) == ("orders", "ada@laptop from testclient")
    assert change["what"] == f"Move {SHARD} to 2026-01-31T09:31:00Z"

    undo = client.post("/a/orders/positions/undo").url.path
    client.until(undo, "1 skips")
    client.post(undo)
    client.until(undo, "1 lease moved.")
    assert lease(world).checkpoint == Checkpoint(numbers[-1])


def test_the_command_that_is_shown_is_one_of_ours_and_means_the_same_time() -> None:
    world = ConsoleWorld()
    handled_to_the_tip(world)
    client = ConsoleClient(world)
    page = client.until(planned(client, to="ago", ago="90m", shards=f"{SHARD}, {OTHER}"), "repeats")
    program, *arguments = command(page)
    options = parser().parse_args(arguments)
    assert (program, options.command.name, options.execute) == ("sublet", "seek", True)
    assert (options.application, options.stream, options.shards) == ("orders", "events", [SHARD, OTHER])
    assert options.place.at == world.clock.now().replace(microsecond=0) - timedelta(minutes=90)


@pytest.mark.parametrize(
    ("fields", "arguments"),
    [
        ({"to": "earliest"}, ["seek", "earliest"]),
        ({"to": "latest"}, ["seek", "latest"]),
        ({"to": "time", "time": "2026-01-31T09:00:00Z"}, ["seek", "2026-01-31T09:00:00Z"]),
        ({"to": "time", "utc": "2026-01-31T09:00:00"}, ["seek", "2026-01-31T09:00:00Z"]),
        ({"to": "time", "utc": "2026-01-31T09:00"}, ["seek", "2026-01-31T09:00Z"]),
        ({"to": "snapshot", "snapshot": "kept"}, ["seek", "--to-snapshot", "kept"]),
        ({"to": "like", "like": "billing"}, ["seek", "--like", "billing"]),
    ],
)
def test_every_target_has_its_command(fields: dict[str, str], arguments: list[str]) -> None:
    world = ConsoleWorld("orders", "billing")
    handled_to_the_tip(world)
    client = ConsoleClient(world)
    client.post("/a/orders/positions/snapshot", name="kept")
    page = client.until(planned(client, **fields), "The same in a terminal")
    shown = command(page)
    assert shown[1 : 1 + len(arguments)] == arguments
    assert parser().parse_args(shown[1:]).execute


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "choose where to move the positions"),
        ({"to": "ago", "ago": "soon"}, "'soon' is not a position"),
        ({"to": "time", "time": "2026-01-31T09:00:00"}, "a time with its zone"),
        ({"to": "earliest", "shards": "s " * 51}, "at most 50 shards"),
    ],
)
def test_invalid_seek_target_is_refused_with_the_reason(fields: dict[str, str], says: str) -> None:
    reply = ConsoleClient(ConsoleWorld()).post("/a/orders/positions/seek", **fields)
    assert reply.status_code == 400
    assert says in reply.text.replace("&#39;", "'")


def test_failed_plan_shows_the_reason_and_cannot_be_executed() -> None:
    client = ConsoleClient(ConsoleWorld())
    path = planned(client, to="earliest", shards="shardId-9")
    client.until(path, "the stream has no shard shardId-9")
    assert "not ready" in client.post(path).text


def test_skipping_two_shards_needs_the_name_of_the_application() -> None:
    world = ConsoleWorld()
    handled_to_the_tip(world)
    for shard in (SHARD, OTHER):
        world.orders.table.put_row(encode_row(Lease(shard, TRIM_HORIZON, 1)))
    client = ConsoleClient(world)
    path = planned(client, to="latest")
    page = client.until(path, "2 skips")
    assert "Records of 2 shards will be skipped: no handler gets them." in page
    for name in ("", "order"):
        assert client.post(path, name=name).status_code == 409
    assert lease(world).checkpoint == TRIM_HORIZON
    client.post(path, name="orders")
    client.until(path, "2 leases moved.")
    assert lease(world).checkpoint != TRIM_HORIZON


def test_a_plan_is_carried_out_once() -> None:
    world = ConsoleWorld()
    handled_to_the_tip(world)
    client = ConsoleClient(world)
    path = planned(client, to="earliest")
    client.until(path, "2 repeats")
    client.post(path)
    client.until(path, "leases moved")
    world.orders.table.put_row(encode_row(Lease(SHARD, Checkpoint("9"), 20, "worker-2")))
    assert "has already been carried out" in client.post(path).text
    assert lease(world).checkpoint == Checkpoint("9")


def test_a_plan_that_is_too_old_is_not_carried_out() -> None:
    world = ConsoleWorld()
    handled_to_the_tip(world)
    client = ConsoleClient(world)
    path = planned(client, to="earliest")
    client.until(path, "2 repeats")
    assert isinstance(world.clock, FakeClock)
    world.clock.advance(timedelta(minutes=11))
    before = world.orders.table.rows()
    assert "too old" in client.post(path).text
    assert world.orders.table.rows() == before


def test_a_lease_that_ended_since_the_plan_is_not_moved_and_the_page_says_so() -> None:
    world = ConsoleWorld()
    handled_to_the_tip(world)
    client = ConsoleClient(world)
    path = planned(client, to="earliest", shards=SHARD)
    client.until(path, "1 repeats")
    world.orders.table.put_row(encode_row(Lease(SHARD, Checkpoint.parse("SHARD_END", 0), 9)))
    client.post(path)
    assert "ended or began after the plan was made" in client.until(path, "It was not finished")


def test_a_plan_is_not_carried_out_on_positions_that_another_seek_has_moved_since() -> None:
    """Ours only repeats, so that no name is asked for; beyond their position it would skip what they wanted again."""
    world = ConsoleWorld()
    handled_to_the_tip(world)
    client = ConsoleClient(world)
    ours, theirs = planned(client, to="ago", ago="90m"), planned(client, to="earliest")
    client.until(ours, "repeats")
    client.until(theirs, "2 repeats")
    client.post(theirs)
    client.until(theirs, "2 leases moved.")
    client.post(ours)
    page = client.until(ours, "It was not finished")
    assert "was moved back after the plan was made. Nothing was moved. Make a new plan" in page
    assert "0 of" in page
    assert lease(world).checkpoint == TRIM_HORIZON


def test_a_read_only_console_shows_the_plan_and_the_command_and_does_nothing() -> None:
    world = ConsoleWorld(allows_changes=False)
    handled_to_the_tip(world)
    client = ConsoleClient(world)
    before = world.orders.table.rows()
    path = planned(client, to="earliest")
    page = client.until(path, "2 repeats")
    assert "This console is read-only" in page
    assert '<button class="primary">Move' not in page
    assert client.post(path).status_code == 403
    assert client.post("/a/orders/positions/snapshot", name="mine").status_code == 403
    assert world.orders.table.rows() == before
    assert world.orders.opened.snapshots.snapshots() == ()


def test_a_plan_of_one_application_is_not_another_s() -> None:
    world = ConsoleWorld("orders", "billing")
    handled_to_the_tip(world)
    client = ConsoleClient(world)
    path = planned(client, to="earliest")
    client.until(path, "repeats")
    assert client.get(path.replace("orders", "billing")).status_code == 404
    assert client.post(path.replace("orders", "billing")).status_code == 404


def test_snapshots_are_kept_and_listed() -> None:
    world = ConsoleWorld()
    client = ConsoleClient(world)
    assert "before-release" in client.post("/a/orders/positions/snapshot", name="before-release").text
    assert client.post("/a/orders/positions/snapshot", name="../mine").status_code == 400
    assert [each.name for each in world.orders.opened.snapshots.snapshots()] == ["before-release"]


def test_snapshot_that_cannot_be_kept_is_no_change_that_was_cut_off() -> None:
    world = ConsoleWorld()

    class Full:
        def keep_snapshot(self, _: object) -> None:
            raise LeaseTableUnavailable("no answer")

    world.orders.opened = replace(world.orders.opened, snapshots=Full())  # type: ignore[arg-type]
    assert ConsoleClient(world).post("/a/orders/positions/snapshot", name="before-release").status_code == 400
    (entry,) = world.orders.opened.audit.entries()
    assert (entry.state, entry.said) == ("failed", "no answer")
