"""Whether a shard's reads are answered. One warning says that they are not, with the failure's own text, and one line
that they are again: a reader goes on asking for ever, and otherwise its shard would only be silent.
"""

from __future__ import annotations

from sublet.decisions.session.process_health import Outage
from sublet.engine.lease.held import instant
from sublet.ports import Ports, Refusal, Unanswered
from sublet.protocol.lease_attributes import whole_milliseconds
from sublet.protocol.records import Page

SAID_AFTER = 3
"""Unanswered reads in a row. One or two are usual in a network, and after some seconds of backoff a third one is
not.
"""


class ReadAnswers:
    """For the thread that reads. Others may ask for `outage`."""

    def __init__(self, shard_id: str, ports: Ports) -> None:
        self._shard_id = shard_id
        self._clock, self._log = ports.clock, ports.log
        self.outage: Outage | None = None
        """From SAID_AFTER failures in a row until the next answer."""
        self._failures = 0
        self._since = instant(ports.clock)

    def got(self, reply: Page | Refusal) -> None:
        """Only a page ends an outage: another refusal may come in between."""
        if isinstance(reply, Page):
            self._answered()
        if not isinstance(reply, Unanswered):
            return
        self._failures += 1
        if self._failures == 1:
            self._since = instant(self._clock)
        is_new = self.outage is None
        if self._failures >= SAID_AFTER:
            self.outage = Outage(reply.problem, self._since.steady, whole_milliseconds(self._since.wall))
            if is_new:
                self._log.warning(
                    "reads of a shard get no answer",
                    shard_id=self._shard_id,
                    failures=self._failures,
                    problem=reply.problem,
                )

    def _answered(self) -> None:
        outage, self.outage = self.outage, None
        failures, self._failures = self._failures, 0
        if outage is not None:
            seconds = (self._clock.steady() - outage.since).total_seconds()
            self._log.info(
                "reads of a shard are answered again",
                shard_id=self._shard_id,
                failures=failures,
                seconds=round(seconds),
            )
