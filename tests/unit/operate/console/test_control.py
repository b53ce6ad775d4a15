"""Pause, drain, resume, release and skip from the page: planned, shown, confirmed, and never for a Java worker's
lease.
"""

from __future__ import annotations

import re
import shlex
from datetime import timedelta

import pytest
from sublet.operate.cli.main import parser
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.control import Order, Pause
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.testing.memory import FakeClock

from tests.doubles.console_client import ConsoleClient
from tests.doubles.console_world import ASIDE, ConsoleWorld

SHARD, OTHER = "shardId-000000000000", "shardId-000000000001"


def held(world: ConsoleWorld, shard: str = SHARD, checkpoint: Checkpoint = TRIM_HORIZON) -> None:
    """By one of our workers."""
    lease = Lease(shard, checkpoint, 4, "worker-1", holder="item/1", holder_counter=4)
    world.orders.table.put_row(encode_row(lease))


def control_of(world: ConsoleWorld) -> object:
    assert world.orders.opened.ports.control is not None
    return world.orders.opened.ports.control.control()


def drain_of(world: ConsoleWorld) -> Pause:
    assert world.orders.opened.ports.control is not None
    pause = world.orders.opened.ports.control.control().application
    assert pause is not None
    return pause


def planned(client: ConsoleClient, what: str, says: str, **fields: str) -> str:
    path = client.post(f"/a/orders/control/{what}", **fields).url.path
    assert path.startswith("/a/orders/plans/")
    client.until(path, says)
    return path


def command(client: ConsoleClient, path: str) -> list[str]:
    found = re.search(r'class="command">([^<]+)<', client.get(path).text)
    assert found is not None
    return shlex.split(found[1])


def test_a_pause_is_planned_then_ordered_shown_and_resumed() -> None:
    world = ConsoleWorld()
    held(world)
    client = ConsoleClient(world)
    before = control_of(world)
    path = planned(client, "pause", "2 pauses, 1 of them held now")
    assert control_of(world) == before, "a plan changes nothing"
    client.post(path)
    client.until(path, "2 leases paused; 1 still held")
    assert "every shard</b>: pause by ada@laptop" in client.get("/a/orders/control").text
    world.console.watching.look("orders")
    assert "PAUSED" in client.get("/a/orders").text

    path = planned(client, "resume", "1 pause to end")
    client.post(path)
    client.until(path, "1 pause ended")
    assert "<h2>Paused</h2>" not in client.get("/a/orders/control").text


def test_single_shards_are_paused_until_a_time() -> None:
    world = ConsoleWorld()
    held(world)
    client = ConsoleClient(world)
    path = planned(client, "pause", "1 pauses", shards=SHARD, until="2h")
    client.post(path)
    client.until(path, "1 lease paused")
    assert world.orders.opened.ports.control is not None
    (pause,) = world.orders.opened.ports.control.control().leases.values()
    assert pause.order is Order.PAUSE
    assert pause.until == world.clock.now() + timedelta(hours=2)


def test_leases_of_java_are_refused_by_name() -> None:
    world = ConsoleWorld()
    world.orders.table.put_row(encode_row(Lease(OTHER, TRIM_HORIZON, 4, "java-worker")))
    before = control_of(world)
    planned(ConsoleClient(world), "pause", f"KCL or another client holds {OTHER} by java-worker")
    assert control_of(world) == before


@pytest.mark.slow
def test_a_drain_waits_until_every_lease_is_released() -> None:
    world = ConsoleWorld()
    held(world)
    client = ConsoleClient(world)
    path = planned(client, "drain", "2 drains, 1 of them held now")
    assert isinstance(world.clock, FakeClock)
    world.clock.advance(timedelta(minutes=5))
    client.post(path)
    client.until(path, "Under way")
    assert drain_of(world).since == world.clock.now(), "it waits for workers that ticks have sent up to now"
    world.orders.table.put_row(encode_row(Lease(SHARD, TRIM_HORIZON, 5)))
    world.clock.advance(timedelta(minutes=14))
    client.until(path, "Every lease is released")
    assert drain_of(world).order is Order.DRAIN


def test_a_release_of_a_free_lease_is_over_at_once_and_leaves_no_order() -> None:
    world = ConsoleWorld()
    client = ConsoleClient(world)
    path = planned(client, "release", "1 releases, 0 of them held now", shards=SHARD)
    client.post(path)
    client.until(path, "The lease is released.")
    assert world.orders.opened.ports.control is not None
    assert not world.orders.opened.ports.control.control().leases


def test_a_skip_keeps_the_record_first_then_moves_and_can_be_undone() -> None:
    world = ConsoleWorld(shards=1)
    numbers = [world.orders.stream.put("a", data) for data in (b"one", b"poison", b"three")]
    held(world, checkpoint=Checkpoint(numbers[0]))
    client = ConsoleClient(world)
    path = planned(client, "skip", "6 bytes", shards=SHARD)
    assert not world.orders.aside.taken
    client.post(path)
    client.until(path, f"1 record kept in {ASIDE}, and skipped.")
    assert [record.data for batch in world.orders.aside.taken for record in batch.records] == [b"poison"]
    row = world.orders.table.get(SHARD)
    assert isinstance(row, Lease)
    assert row.checkpoint == Checkpoint(numbers[1])
    undo = client.post("/a/orders/positions/undo").url.path
    client.until(undo, "1 repeats")


@pytest.mark.parametrize(
    ("what", "fields", "arguments"),
    [
        (
            "pause",
            {"shards": SHARD, "until": "2h"},
            ["pause", "--application", "orders", "--shard", SHARD, "--until", "2h"],
        ),
        ("drain", {}, ["drain", "--application", "orders"]),
        ("release", {"shards": SHARD}, ["release", "--application", "orders", SHARD]),
        (
            "skip",
            {"shards": SHARD, "records": "2"},
            ["skip", "--application", "orders", "--stream", "events", SHARD],
        ),
        ("resume", {"shards": SHARD}, ["resume", "--application", "orders", "--shard", SHARD]),
    ],
)
def test_every_change_shows_a_command_of_ours(what: str, fields: dict[str, str], arguments: list[str]) -> None:
    world = ConsoleWorld()
    world.orders.stream.put("a", b"x", 0)
    client = ConsoleClient(world)
    shown = command(client, planned(client, what, "The same in a terminal", **fields))
    assert shown[1 : 1 + len(arguments)] == arguments
    assert parser().parse_args(shown[1:]).command.name == what


@pytest.mark.parametrize(
    ("what", "fields", "says"),
    [
        ("release", {}, "name one shard"),
        ("skip", {"shards": f"{SHARD} {OTHER}"}, "name one shard"),
        ("skip", {"shards": SHARD, "records": "0"}, "is not a number of records"),
        ("skip", {"shards": SHARD, "records": "1000000000"}, "is not a number of records"),
        ("pause", {"until": "soon"}, "neither a time with its zone"),
    ],
)
def test_control_form_is_refused_with_the_reason(what: str, fields: dict[str, str], says: str) -> None:
    reply = ConsoleClient(ConsoleWorld()).post(f"/a/orders/control/{what}", **fields)
    assert reply.status_code == 400
    assert says in reply.text


def test_a_read_only_console_pauses_nothing() -> None:
    world = ConsoleWorld(allows_changes=False)
    client = ConsoleClient(world)
    before = control_of(world)
    path = planned(client, "pause", "2 pauses")
    assert client.post(path).status_code == 403
    assert control_of(world) == before


def test_an_application_without_a_control_says_so() -> None:
    world = ConsoleWorld()
    world.orders.without_control()
    assert "application orders has no control" in ConsoleClient(world).get("/a/orders/control").text
