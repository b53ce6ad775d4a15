"""Posts each record to a URL, in its key's order, and waits while the server is busy: at least once.

* 429 and 503 are asked again after their Retry-After, other faults of the server and of the network after a pause that
  doubles, with chance in it, so that not all shards ask again at once.
* Back-pressure: this call returns when the server has taken its records. Until then sublet hands over no more of the
  shard and polls it more slowly: what waits, waits in the stream, for up to its retention. Watch
  `millis_behind_latest`, and give the stream a longer retention than the server's longest outage.
* If it is still busy after all attempts, the call raises, and the records that were not posted come again, after
  `handler_backoff`. None is skipped. What the server refuses for good (400, 422) raises too, and waits for ever unless
  `maximum_retry_attempts`, `bisect_batch_on_function_error` and `on_failure` set it aside.
* After a crash, or a lost answer, records are posted again with the same Idempotency-Key, which is their place
  in the stream: a server that keeps these keys, as payment services do, counts each once.

`parallelization_factor=10` posts ten keys of a shard at once, each in order. A record's attempts may take eight minutes
(seven of 15 seconds, and six pauses of a minute): it gets as many of them as fit into the time that the call has left,
so that none is given up as a call that hangs, or ended with its window. The URL is POST_URL.
"""

from __future__ import annotations

import os
from functools import cache

from sublet import Batch, UserRecord
from urllib3 import PoolManager, Retry, Timeout

ATTEMPT, PAUSE_MAX = 15, 60
"""Seconds that one attempt takes at most, and one pause."""

RETRIES_MAX = 6
RETRIES = Retry(
    total=RETRIES_MAX,
    status_forcelist=(429, 500, 502, 503, 504),
    allowed_methods=None,  # POST too: the server knows a repetition by its Idempotency-Key
    backoff_factor=0.5,
    backoff_jitter=0.5,
    backoff_max=30,
    retry_after_max=PAUSE_MAX,
    redirect=0,
)
TIMEOUT = Timeout(connect=5, read=10)


class PostRefused(Exception):
    """The server will never take this record."""


class Interrupted(Exception):
    """The lease is about to be released. The records posted so far are checkpointed; the others come again."""


def handle(batch: Batch) -> None:
    for record in batch.records:
        if batch.remaining_time_in_millis() == 0:
            raise Interrupted
        post(batch, record)
        batch.checkpoint(record)


def post(batch: Batch, record: UserRecord) -> None:
    """Returns once the server has taken the record. Raises MaxRetryError, or PostRefused."""
    place = f"{batch.stream}/{batch.shard_id}/{record.checkpoint}"
    headers = {"Content-Type": "application/json", "Idempotency-Key": place}
    retries = retries_within(batch.remaining_time_in_millis() // 1000)
    answer = http().request("POST", os.environ["POST_URL"], body=record.data, headers=headers, retries=retries)
    if answer.status >= 300:
        raise PostRefused(f"{answer.status} for the record {place}")


def retries_within(seconds: int) -> Retry:
    """After the first attempt, which is made in any case."""
    fitting = (seconds - ATTEMPT) // (PAUSE_MAX + ATTEMPT)
    return RETRIES.new(total=max(0, min(fitting, RETRIES_MAX)))


@cache
def http() -> PoolManager:
    """One for all threads: a connection for each call that runs at once."""
    return PoolManager(maxsize=10, block=True, timeout=TIMEOUT)
