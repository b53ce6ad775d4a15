"""Iterators over records, for plain Python: a fetch that ends, and messages that go on."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from sublet.consumer.membership import Membership
from sublet.consumer.puller import Puller
from sublet.consumer.record import Record
from sublet.consumer.turn import LASTS, Delivery
from sublet.ports import Tasks


class Records:
    """An iterator over records as they come: in order within a shard, in turn across shards. For one thread at a time, but for
    `stop` and `drain`.

    auto_ack  a record is done when the next one is asked for
    """

    def __init__(self, puller: Puller, tasks: Tasks, *, auto_ack: bool = False) -> None:
        self._puller = puller
        self._tasks = tasks
        self._auto_ack = auto_ack
        self._buffer = puller.membership.buffer
        self._steady = puller.clock.steady
        self._last: Delivery | None = None
        self._taken = puller.pull.ahead.popleft
        """The next of the turn, out of what the buffer has left to be taken (see Turn)."""
        self._turn_ends: datetime = self._steady()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        """Waits for it. Raises what has ended the consumer, such as LeaseTableNotFound or StreamNotFound.

        A signal handler's exception, such as KeyboardInterrupt, may keep a record from whoever asked: it comes again after
        `ack_wait`.
        """
        try:
            if self._steady() < self._turn_ends:
                try:
                    self._last = self._taken()
                except IndexError:
                    pass
                else:
                    return Record(self._buffer, self._last)
            return Record(self._buffer, self._wait())
        except (
            BaseException
        ):  # if a record was taken for it, asking for the next one does not say that it is done
            self._last = None
            self._buffer.end_turn()
            raise

    def _wait(self) -> Delivery:
        last, self._last = self._last, None
        if self._auto_ack and last is not None:
            self._buffer.ack(last)
        found = self._puller.look()
        while isinstance(found, timedelta):
            changed = self._tasks.signal()
            try:
                found = self._puller.look(changed)
                if isinstance(found, timedelta):
                    changed.wait(found)
            finally:
                self._buffer.leave(changed)
        if found is None:
            raise StopIteration
        self._last, self._turn_ends = found, self._steady() + LASTS
        self._taken = self._puller.pull.ahead.popleft
        return found

    @property
    def closed(self) -> bool:
        return self._puller.is_over

    @property
    def membership(self) -> Membership:
        return self._puller.membership

    def stop(self) -> None:
        """At once: nothing more comes, and what is buffered goes back. From a signal handler too."""
        self._puller.stop()
        self._turn_ends = self._steady()

    def drain(self) -> None:
        """Nothing new comes: what is buffered is handed out, and it is over when all of that is acknowledged. From a signal
        handler too.
        """
        self._puller.drain()

    def close(self) -> None:
        """Over. Outside of `with consumer:` the leases are released when this returns, and what is out then comes again."""
        self._puller.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        """Nobody will ask for more: a loop was left."""
        with suppress(AttributeError):  # not made whole
            self._puller.abandon()
