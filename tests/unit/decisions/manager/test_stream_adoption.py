"""Which leases look like those of another stream."""

from __future__ import annotations

import pytest
from sublet.decisions.manager.stream_adoption import ForeignLeaseEvidence, SuspectLease, suspects
from sublet.protocol.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.shard import FULL_RANGE, Shard

SHARD = Shard("shardId-0", FULL_RANGE, None, None, "100", is_open=True)


@pytest.mark.parametrize(
    ("lease", "why"),
    [
        (Lease("shardId-0", Checkpoint("100")), None),
        (Lease("shardId-0", Checkpoint("99")), ForeignLeaseEvidence.BEFORE_ITS_SHARD),
        (Lease("shardId-0", TRIM_HORIZON), None),
        (Lease("shardId-1", TRIM_HORIZON), ForeignLeaseEvidence.NOT_LISTED),
        (Lease("shardId-1", SHARD_END), None),
    ],
    ids=[
        "at its first record",
        "before it",
        "not begun",
        "of no shard",
        "ended: Kinesis forgets the shard first",
    ],
)
def test_a_lease_is_suspected_by_its_shard_and_its_checkpoint(lease: Lease, why: ForeignLeaseEvidence | None) -> None:
    well = Lease("shardId-0", Checkpoint("101"))
    expected = () if why is None else (SuspectLease(lease, why),)
    assert suspects([lease, well], [SHARD]) == expected
