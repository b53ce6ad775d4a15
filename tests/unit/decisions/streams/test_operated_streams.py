from __future__ import annotations

import pytest
from sublet.decisions.streams.operated_streams import choice_of, shard_named, streams_meant, streams_of
from sublet.errors import ShardNotFound, StreamNotFound
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.stream_key import StreamKey

ACCOUNT, SHARD = "123456789012", "shardId-000000000003"
ORDERS, ORDERS_BEFORE, BILLS = (
    StreamKey(ACCOUNT, name, epoch) for name, epoch in (("orders", 20), ("orders", 3), ("bills", 7))
)


def test_the_streams_are_those_of_the_leases_and_of_one_created_again_the_newer() -> None:
    leases = tuple(Lease(f"{key}:{SHARD}", TRIM_HORIZON) for key in (ORDERS, ORDERS_BEFORE, ORDERS))
    broken = MalformedRow(f"{BILLS}:{SHARD}", "no checkpoint")
    assert streams_of(LeaseScan(leases, (broken,))) == (BILLS, ORDERS)
    assert streams_of(LeaseScan((Lease(SHARD, TRIM_HORIZON),))) == ()


def test_a_stream_is_meant_by_its_name_or_all_are() -> None:
    assert streams_meant([BILLS, ORDERS], "orders", "audit") == (ORDERS,)
    assert streams_meant([BILLS, ORDERS], None, "audit") == (BILLS, ORDERS)
    with pytest.raises(StreamNotFound, match="audit has no leases of stream order; it reads bills, orders"):
        streams_meant([BILLS, ORDERS], "order", "audit")
    assert str(choice_of([BILLS, ORDERS])) == f"{BILLS},{ORDERS}"


@pytest.mark.parametrize(
    ("text", "streams", "meant"),
    [
        (SHARD, [], SHARD),
        (SHARD, [ORDERS], f"{ORDERS}:{SHARD}"),
        (f"{BILLS}:{SHARD}", [BILLS, ORDERS], f"{BILLS}:{SHARD}"),
    ],
)
def test_a_shard_by_its_own_id_or_in_full(text: str, streams: list[StreamKey], meant: str) -> None:
    assert shard_named(text, streams) == meant


@pytest.mark.parametrize(
    ("text", "streams", "said"),
    [
        (
            SHARD,
            [BILLS, ORDERS],
            f"shard {SHARD} is ambiguous.*reads 2 streams.*such as {BILLS}:{SHARD}, {ORDERS}:{SHARD}$",
        ),
        (f"{BILLS}:{SHARD}", [ORDERS], f"belongs to stream {BILLS}, which is not among {ORDERS}$"),
    ],
)
def test_shard_name_is_refused_when_ambiguous_or_of_another_stream(
    text: str, streams: list[StreamKey], said: str
) -> None:
    with pytest.raises(ShardNotFound, match=said):
        shard_named(text, streams)
