"""The keeper as a process: `python -m sublet.spark.keeper.keeper_process`, started by the source's reader on the driver.

In a session of its own, so that what ends a query does not end it: it outlives the query by as long as it takes to give the
leases back. Its settings come in the environment (SUBLET_*), questions on standard input; the end of that is the end of the
source's process.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from queue import Empty, SimpleQueue
from random import SystemRandom

from sublet.aws.clients import dynamodb_client, kinesis_client, kinesis_poll_client
from sublet.aws.dynamodb import DynamoDbLeaseTable
from sublet.aws.kinesis import KinesisStream
from sublet.settings import Settings
from sublet.spark.keeper.checkpoint_folder import commits_in
from sublet.spark.keeper.keeper import Keeper
from sublet.spark.keeper.keeper_messages import answer
from sublet.spark.keeper.query_life import wait_for_end
from sublet.spark.python_log import PythonLog
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks

CHECKS_PER_INTERVAL = 10
"""Due heartbeats are looked for this often within a heartbeat_interval."""

OVER = None
"""In the inbox: the query is over."""

Inbox = SimpleQueue[str | None]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--region")
    parser.add_argument("--endpoint-url")
    parser.add_argument("--checkpoint-location")
    parser.add_argument("--fail-on-data-loss", action="store_true")
    parser.add_argument("--query", type=int, help="the descriptor of a copy of the query's connection")
    arguments = parser.parse_args()
    for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)  # it ends with its query, and soon after: not before
    settings = Settings.from_environment(os.environ)
    keeper = _keeper(settings, arguments)
    inbox: Inbox = SimpleQueue()
    ThreadTasks().spawn(lambda: _listen(inbox, arguments.query))
    keep(keeper, inbox, _say, settings.heartbeat_interval / CHECKS_PER_INTERVAL)


def keep(keeper: Keeper, inbox: Inbox, say: Callable[[str], None], pause: timedelta) -> None:
    """Answer, and see to what is due, until the query is over; then give everything back."""
    try:
        while True:
            with suppress(Empty):
                question = inbox.get(timeout=pause.total_seconds())
                if question is OVER:
                    break
                say(answer(keeper, question))
            keeper.work()
    finally:
        keeper.finish()


def _listen(inbox: Inbox, query: int | None) -> None:
    for line in sys.stdin:
        inbox.put(line)
    if query is not None:
        wait_for_end(socket.socket(fileno=query))
    inbox.put(OVER)


def _say(line: str) -> None:
    with suppress(BrokenPipeError):  # the source's process has died since it asked
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def _keeper(settings: Settings, given: argparse.Namespace) -> Keeper:
    clients = (
        kinesis_client(given.region, given.endpoint_url),
        kinesis_poll_client(given.region, given.endpoint_url),
    )
    return Keeper(
        DynamoDbLeaseTable(dynamodb_client(given.region), settings.lease_table),
        KinesisStream(*clients, settings),
        commits_in(given.checkpoint_location, given.region),
        SystemClock(),
        ThreadTasks().signal().wait,
        SystemRandom(),
        PythonLog("sublet.spark.keeper"),
        settings,
        holder=f"spark/{uuid.uuid4()}",
        fail_on_data_loss=given.fail_on_data_loss,
    )


if __name__ == "__main__":
    main()
