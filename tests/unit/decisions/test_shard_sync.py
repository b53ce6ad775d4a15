"""What scenario files are too small for."""

from sublet.decisions.shard_sync import CreateReason, plan_shard_sync
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.shard import FULL_RANGE, Shard
from sublet.settings import StartKind, StartPosition


def test_ten_thousand_generations_are_walked_without_recursion() -> None:
    last = 10_000
    shards = [
        Shard(str(n), FULL_RANGE, str(n - 1) if n else None, None, str(n), is_open=n == last)
        for n in range(last + 1)
    ]
    other = Lease("another-stream", Checkpoint("5"))
    plan = plan_shard_sync([other], [], shards, StartPosition(StartKind.TRIM_HORIZON))
    assert [(new.lease.lease_key, new.why) for new in plan.create] == [("0", CreateReason.ANCESTOR)]
