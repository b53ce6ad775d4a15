"""An operator acts on an application of several streams: on all of them, on one, or after a question which."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.streams.operated_streams import choice_of
from sublet.errors import SeekRefused, ShardNotFound
from sublet.operate.cli.monitor.hot import looks
from sublet.operate.cli.records.peek import wanted
from sublet.operate.doctor import Doctor
from sublet.operate.memory_inspection import MemoryInspection
from sublet.operate.pausing import ApplicationControl
from sublet.operate.positions.planned_seek import PlannedSeek, carry_out, planned, seek_of
from sublet.operate.positions.seek_target import at_application, at_place, at_positions, before_the_last
from sublet.operate.positions.seek_time import place
from sublet.operate.positions.skip import planned_skip, skip
from sublet.operate.positions.snapshots import snapshot_by_hand
from sublet.operate.rules.doctor import Check, Severity, findings_of_each
from sublet.operate.rules.doctor_account import RULES
from sublet.operate.rules.examination import Volume
from sublet.operate.rules.seek_estimate import CountedBy
from sublet.operate.status_watch import Watch
from sublet.operate.tail import Tail
from sublet.ports import Ports
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.control import Order
from sublet.protocol.lease import Lease, LeaseScan
from sublet.reading.several_streams import LeasesOfStreams, each_stream
from sublet.settings import Settings
from sublet.testing.memory import MemoryAccount, MemoryDestination, MemorySnapshotStore

from tests.doubles.several_streams import SeveralWorld

SHARD = "shardId-000000000000"
HOUR = timedelta(hours=1)


def read_world() -> SeveralWorld:
    """Two streams, each with three records that were handled."""
    world = SeveralWorld("*", "orders", "payments")
    for name in ("orders", "payments"):
        world.put(name, *(f"{name} {number}" for number in range(3)))
    world.manager().tick()
    world.read()
    return world


def meant(world: SeveralWorld, *names: str) -> tuple[Settings, Ports]:
    """As a command has them that means these streams."""
    keys = [world.key(name) for name in names]
    settings = replace(world.settings, streams=choice_of(keys))
    ports = world.ports(settings)
    return settings, replace(ports, table=LeasesOfStreams(ports.table, frozenset(keys)))


def plan(
    world: SeveralWorld,
    names: Sequence[str],
    text: str = "earliest",
    only: Sequence[str] = (),
    **given: object,
) -> PlannedSeek:
    settings, ports = meant(world, *names)
    shards = ports.stream.list_shards()
    target = at_place(place(text), shards, only, ports)
    return planned(settings.application, None, ports.table.scan(), shards, target, ports, **given)  # type: ignore[arg-type]


def positions(world: SeveralWorld) -> dict[str, str]:
    return {key: str(lease.checkpoint) for key, lease in world.leases().items()}


def test_a_seek_moves_all_streams_or_the_one_that_is_meant() -> None:
    world = read_world()
    both = {world.shard("orders"), world.shard("payments")}
    assert {move.lease_key for move in plan(world, ["orders", "payments"]).plan.moves} == both
    assert {move.lease_key for move in plan(world, ["payments"]).plan.moves} == {world.shard("payments")}
    assert {move.lease_key for move in plan(world, ["orders"], only=[SHARD]).plan.moves} == {world.shard("orders")}
    with pytest.raises(ShardNotFound, match="is ambiguous: the application reads"):
        plan(world, ["orders", "payments"], only=[SHARD])


def test_estimate_uses_each_streams_own_figures() -> None:
    world = read_world()
    inspection = MemoryInspection(
        streams={
            "orders": MemoryInspection(volume=Volume(1, 1)),
            "payments": MemoryInspection(volume=Volume(1, 10)),
        }
    )
    world.clock.advance(HOUR)
    for name in ("orders", "payments"):
        world.put(name, "later")
    world.clock.advance(HOUR)
    found = plan(world, ["orders", "payments"], "latest", inspection=inspection)
    records = {key: estimate.records for key, estimate in found.estimate.moves.items()}
    orders, payments = records[world.shard("orders")], records[world.shard("payments")]
    assert found.estimate.counted_by is CountedBy.CLOUDWATCH
    assert orders is not None
    assert payments is not None
    assert orders > 0
    assert payments == pytest.approx(10 * orders, rel=0.01)


def test_an_undo_takes_back_the_whole_seek_or_that_of_one_stream() -> None:
    world = read_world()
    before = positions(world)
    settings, ports = meant(world, "orders", "payments")
    snapshots = MemorySnapshotStore()
    found = plan(world, ["orders", "payments"])
    carry_out(found, seek_of(found, ports), snapshots)
    assert set(positions(world).values()) == {"TRIM_HORIZON"}
    for names in (["payments"], ["orders", "payments"]):
        settings, ports = meant(world, *names)
        shards = ports.stream.list_shards()
        target = before_the_last(settings.application, snapshots, shards, ports)
        back = planned(settings.application, None, ports.table.scan(), shards, target, ports)
        if names == ["payments"]:
            assert [move.lease_key for move in back.plan.moves] == [world.shard("payments")]
        else:
            seek_of(back, ports).run()
    assert positions(world) == before


def test_an_undo_of_a_stream_that_the_seek_did_not_move_is_refused() -> None:
    world = read_world()
    found = plan(world, ["orders"])
    _, ports = meant(world, "orders")
    snapshots = MemorySnapshotStore()
    carry_out(found, seek_of(found, ports), snapshots)
    _, ports = meant(world, "payments")
    with pytest.raises(SeekRefused, match=r"it moved no shard of .*:payments:"):
        before_the_last("audit", snapshots, ports.stream.list_shards(), ports)


def test_a_stream_that_a_snapshot_does_not_know_stays_where_it_is() -> None:
    world = read_world()
    _, ports = meant(world, "orders")
    kept = snapshot_by_hand("kept", ports.table.scan(), world.clock.now(), "me", None)
    world.put("orders", "more")
    world.put("payments", "more")
    world.manager().tick()
    world.read()
    settings, ports = meant(world, "orders", "payments")
    shards = ports.stream.list_shards()
    target = at_positions(kept, "to kept", shards, (), ports)
    found = planned(settings.application, None, ports.table.scan(), shards, target, ports)
    assert [move.lease_key for move in found.plan.moves] == [world.shard("orders")]
    _, ports = meant(world, "payments")
    with pytest.raises(SeekRefused, match=r"the positions are of .*:orders:.*, and none is of these streams"):
        at_positions(kept, "to kept", ports.stream.list_shards(), (), ports)


def test_positions_of_an_application_of_one_stream_are_no_positions_here() -> None:
    """Their shard ids are alike, and every shard would go to its beginning."""
    world = read_world()
    _, ports = meant(world, "orders", "payments")
    theirs = LeaseScan((Lease(SHARD, TRIM_HORIZON),))
    with pytest.raises(SeekRefused, match="the positions are of an application of one stream"):
        at_application("other", theirs, None, ports.stream.list_shards(), (), ports)


def test_a_skip_passes_over_the_next_record_of_the_shard_that_is_named() -> None:
    world = read_world()
    for name in ("orders", "payments"):
        world.put(name, f"stuck {name}", f"after {name}")
    settings, ports = meant(world, "orders", "payments")
    shards, scan = ports.stream.list_shards(), ports.table.scan()
    with pytest.raises(ShardNotFound, match="is ambiguous: the application reads"):
        planned_skip(SHARD, 1, None, scan, shards, ports, settings)
    aside = MemoryDestination()
    found = planned_skip(world.shard("payments"), 1, None, scan, shards, ports, settings)
    skip(found, aside, MemorySnapshotStore(), "me", ports, settings)
    assert [(batch.stream, batch.records[0].data) for batch in aside.taken] == [("payments", b"stuck payments")]
    world.manager().tick()
    world.read()
    assert world.handler.data()[6:].count(b"stuck payments") == 0
    assert {b"stuck orders", b"after orders", b"after payments"} <= set(world.handler.data())


def test_peek_shows_the_shard_that_is_named() -> None:
    world = read_world()
    for name in ("orders", "payments"):
        world.put(name, f"next {name}")

    def peeked(shard: str, *names: str) -> list[bytes]:
        options = Namespace(shard=shard, place=None, key=None, grep=None, application="audit")
        settings, ports = meant(world, *names)
        return [record.data for record in wanted(options, ports, settings)]

    assert peeked(SHARD, "payments") == [b"next payments"]
    assert peeked(world.shard("payments"), "orders", "payments") == [b"next payments"]
    with pytest.raises(ShardNotFound, match="is ambiguous: the application reads"):
        peeked(SHARD, "orders", "payments")


def test_tail_follows_the_shards_of_all_streams() -> None:
    world = read_world()
    _, ports = meant(world, "orders", "payments")
    found = Tail(ports, None).records()
    assert {next(found).shard_id for _ in range(6)} == {world.shard("orders"), world.shard("payments")}


def test_status_judges_no_lease_of_a_stream_that_was_created_again() -> None:
    world = read_world()
    world.delete("orders")
    world.clock.advance(timedelta(minutes=10))
    world.create("orders")
    world.manager().tick()
    ports = world.ports()
    found = Watch(ports, world.settings, probes=False).look(None)
    assert {shard.shard_id for shard in found.shards} == {world.shard("orders"), world.shard("payments")}
    assert found.of_gone == 1


def test_pause_and_release_take_a_shards_full_name() -> None:
    world = read_world()
    pausing = ApplicationControl("audit", world.ports(), world.settings)
    pause = pausing.pause(Order.PAUSE, "me")
    with pytest.raises(ShardNotFound, match="is ambiguous: the application reads"):
        pausing.order(pause, [SHARD])
    ordered = pausing.order(pause, [world.shard("orders")])
    assert [lease.lease_key for lease in ordered.leases] == [world.shard("orders")]
    with pytest.raises(ShardNotFound, match="is ambiguous: the application reads"):
        pausing.resume([SHARD])
    assert pausing.resume([world.shard("orders")]).keys() == {world.shard("orders")}
    with pytest.raises(ShardNotFound, match="is ambiguous: the application reads"):
        pausing.release("me", SHARD, timedelta(minutes=1), lambda _: None)


def test_a_pause_of_a_stream_whose_leases_are_removed_can_end() -> None:
    world = read_world()
    pausing = ApplicationControl("audit", world.ports(), world.settings)
    pausing.order(pausing.pause(Order.PAUSE, "me"), [world.shard("orders")])
    world.table.delete_row(world.shard("orders"))
    assert pausing.resume([world.shard("orders")]).keys() == {world.shard("orders")}


def account_of(world: SeveralWorld) -> MemoryAccount:
    account = MemoryAccount(clock=world.clock, tasks=world.tasks)
    for name in world.streams:
        account.create(name, 1)
    return account


def test_hot_looks_at_each_stream_and_shows_the_shards_that_are_asked_for() -> None:
    world = read_world()
    settings, ports = meant(world, "orders", "payments")

    def shown(*shards: str) -> list[tuple[str, list[str]]]:
        options = Namespace(shards=list(shards), exact=False)
        found = looks(each_stream(settings, ports), ports, ByName(account_of(world)), options)  # type: ignore[arg-type]
        return [(stream.settings.stream, [shard.shard_id for shard in hot]) for stream, hot in found]

    assert shown() == [("orders", [SHARD]), ("payments", [SHARD])]
    assert shown(world.shard("payments")) == [("payments", [SHARD])]


class ByName:
    """An Account in memory, which knows streams by name, asked by ARN as for streams of other accounts."""

    def __init__(self, real: MemoryAccount) -> None:
        self.real, self.clock, self.tasks = real, real.clock, real.tasks

    def info(self, stream: str) -> object:
        return self.real.info(stream.rpartition("/")[2])

    def limits(self) -> object:
        return self.real.limits()


def test_doctor_examines_each_stream_and_names_the_one_that_is_ill() -> None:
    world = read_world()
    settings, ports = meant(world, "orders", "payments")
    hot = MemoryInspection(by_shard={SHARD: Volume(1_000_000, 10)})
    inspection = MemoryInspection(streams={"payments": hot, "orders": MemoryInspection()})
    doctor = Doctor(ports, settings, ByName(account_of(world)), inspection)  # type: ignore[arg-type]
    examined = doctor.examine_each()
    assert [one.stream for one in examined] == ["orders", "payments"]
    found = findings_of_each(examined, RULES)
    ill = [each for each in found if each.severity in (Severity.BAD, Severity.WARNING)]
    assert [(each.check, each.stream, each.where) for each in ill if each.check is Check.HOT_SHARDS] == [
        (Check.HOT_SHARDS, "payments", world.shard("payments"))
    ]
    alike = [each for each in found if each.check is Check.AGREEMENT]
    assert [each.stream for each in alike] == [""], "what is true of all of them is said once"


def test_doctor_says_which_stream_has_a_shard_without_a_lease() -> None:
    world = SeveralWorld("*", "orders")
    world.create("payments", shards=2)
    world.manager().tick()
    settings, ports = meant(world, "orders", "payments")
    world.table.delete_row(world.shard("payments", 1))
    doctor = Doctor(ports, settings, ByName(account_of(world)), MemoryInspection())  # type: ignore[arg-type]
    found = findings_of_each(doctor.examine_each(), RULES)
    unleased = [each for each in found if each.check is Check.UNLEASED and each.severity is not Severity.WELL]
    assert [each.stream for each in unleased] == ["payments"]
