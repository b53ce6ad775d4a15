"""A buffer of the pull API by itself, on a clock that moves when all threads wait; records offers, takes and
checkpoints.
"""

from __future__ import annotations

from datetime import timedelta

from sublet.decisions.pull.pull_request import consume_of
from sublet.handler import Batch
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.pull.buffer import Buffer
from sublet.pull.prefetch import Delivery
from sublet.pull.pull_state import PullRequest
from sublet.pull.refill import BufferLimits
from sublet.testing.memory import FakeClock
from sublet.testing.turn_taking import TurnTaking

MINUTE = timedelta(minutes=1)
LIMITS = BufferLimits(max_ack_pending=1000, max_bytes=1_000_000, ack_wait=5 * MINUTE)


class BufferWorld:
    """A buffer with batches offered by threads that wait for room, and the checkpoints made."""

    def __init__(self, limits: BufferLimits = LIMITS) -> None:
        self.clock = FakeClock()
        self.tasks = TurnTaking(self.clock)
        self.buffer = Buffer(self.clock, self.tasks, limits, lambda _: None)
        self.checkpointed: dict[str, str] = {}

    def offer(self, shard: str, *data: str) -> None:
        """Each with its first letter as its key."""
        self.buffer.open_shard(shard)
        records = [self._record(number, one) for number, one in enumerate(data)]

        def checkpoint(record: UserRecord) -> bool:
            self.checkpointed[shard] = record.data.decode()
            return True

        batch = Batch("orders", shard, records, 0, checkpoint, remaining_time_in_millis=lambda: 1)
        self.tasks.spawn(lambda: self.buffer.offer(batch))

    def _record(self, number: int, data: str) -> UserRecord:
        of = StreamRecord(str(number), data.encode(), data[0], self.clock.now())
        return UserRecord(data.encode(), data[0], 0, of)

    def messages(self, *, acks: bool = False, max_records: int = 500) -> PullRequest:
        pull = PullRequest(consume_of(max_records=max_records), acks=acks)
        self.buffer.begin(pull)
        self.tasks.sleep(timedelta(0))  # lets the offers be admitted
        return pull

    def ask(self, pull: PullRequest) -> Delivery:
        found = self.buffer.take(pull, None)
        assert isinstance(found, Delivery)
        return found

    def rest(self, pull: PullRequest) -> list[str]:
        """The rest, fetched one by one."""
        found = []
        while isinstance(one := self.buffer.take(pull, None), Delivery):
            found.append(one.record.data.decode())
        return found
