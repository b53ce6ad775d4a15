"""A model of how Lambda's event source mapping treats a failing batch, by AWS's documents. It is the oracle of
decisions.failure_policy.

Written from AWS's rules and not from our code. Their sources:

  D   the Lambda Developer Guide: "Configuring partial batch response with Kinesis", "on-failure destination",
      "with-kinesis"
  S   recordings of the real service in LocalStack's tests (test_lambda_integration_kinesis.snapshot.json)
  ?   AWS says nothing; a choice of ours

  1 (D) a call that raises, or a response that names no record of the batch, fails the whole batch
  2 (D) of several failures the lowest counts: records before it are done, and the rest is retried
  3 (S) after progress the rest has all its retries again
  4 (D) bisect: each half by itself, the first half first; splitting uses up no retry
  5 (?) a batch of several that raises is split at once: only a single record is retried. The first half is the smaller
  one 6 (D) with bisect and a partial response the batch is cut at the returned number, and nowhere else
  7 (D) once the retries are used up, the batch as it then is goes to the destination
  8 (D) records older than the limit go to the destination instead of the function; the others of their batch go to the
  function
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

RAISES = "raises"

EsmAnswer = str | Sequence[int] | None
"""RAISES, or the records that the function reports as failed; None: success."""

FOR_EVER = -1


@dataclass
class Esm:
    """The result of one batch by ESM's rules."""

    retries: int = FOR_EVER
    bisects: bool = False
    reports: bool = True
    calls: list[list[int]] = field(default_factory=list)
    set_aside: list[tuple[list[int], int, str]] = field(default_factory=list)
    """Records, how often they were called, and the condition."""

    def run(
        self,
        records: Sequence[int],
        function: Callable[[Sequence[int], int], EsmAnswer],
        too_old: Callable[[int, int], bool] = lambda *_: False,
        most_calls: int = 200,
    ) -> None:
        """`function` takes the records and the call's number; `too_old` a record and the number of calls so far."""
        waiting: deque[tuple[list[int], int]] = deque([(list(records), 0)])
        while waiting and len(self.calls) < most_calls:
            batch, tried = waiting.popleft()
            number = len(self.calls)
            old = 0
            while old < len(batch) and too_old(batch[old], number):
                old += 1
            if old:
                self.set_aside.append((batch[:old], tried, "RecordAgeExceeded"))
                batch = batch[old:]
            if not batch:
                continue
            if self.retries != FOR_EVER and tried > self.retries:
                self.set_aside.append((batch, tried, "RetryAttemptsExhausted"))
                continue
            answer = function(batch, number)
            self.calls.append(batch)
            waiting.extendleft(reversed(self._left(batch, tried + 1, answer)))

    def _left(self, batch: list[int], tried: int, answer: EsmAnswer) -> list[tuple[list[int], int]]:
        if answer is None or answer == [] or (answer != RAISES and not self.reports):
            return []
        if answer != RAISES and all(named in batch for named in answer):
            lowest = batch.index(min(int(named) for named in answer))
            return [(batch[lowest:], 0 if lowest else tried)]
        if answer == RAISES and self.bisects and len(batch) > 1:
            half = len(batch) // 2
            return [(batch[:half], 0), (batch[half:], 0)]
        return [(batch, tried)]
