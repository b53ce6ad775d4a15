"""Adds payments up in Postgres, each exactly once: the shard's position is in the same transaction as the sums.

* A crash between the commit and sublet's checkpoint: the records come again, lie before the position, and are skipped.
* A worker that was suspended, and whose lease another has by now (a zombie): `FOR UPDATE` lets one transaction of a
  shard run at a time, and the second reads the position that the first has committed. Comparing at the end
  (`UPDATE positions ... WHERE sequence_number < new`) would not do: a zombie with records 5 to 9 would pass it after
  its successor has committed 5 to 7, and add these three again.
* A reshard: the children begin after the parent's last record is checkpointed, with positions of their own.

A redriven record lies before the position, so it is known by its place instead. To replay a stream into new balances,
empty all three tables, then `sublet seek`. A record that was set aside just before a crash comes again from the shard
too; if it may then succeed there, put every record's place into `redriven`. Where each record is a row of its own, its
place as the primary key and INSERT ... ON CONFLICT DO NOTHING are enough.

Needs the tables of balances.sql, and POSTGRES, a connection string. Waits for another transaction's lock, and for a
statement, are shorter than `handler_timeout`: a call that hangs could not be ended otherwise.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import cache

from psycopg import Connection
from psycopg_pool import ConnectionPool
from sublet import Batch, UserRecord

LIMITS = "-c lock_timeout=10s -c statement_timeout=60s -c idle_in_transaction_session_timeout=60s"


def handle(batch: Batch) -> None:
    """Returns once the batch is committed. If it raises, everything is rolled back, and the batch comes again."""
    with pool().connection() as transaction:
        new = (not_redriven if batch.is_redrive else beyond_position)(transaction, batch)
        amounts: Counter[str] = Counter()
        for record in new:
            payment = json.loads(record.data)
            amounts[payment["customer"]] += payment["cents"]
        with transaction.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO balances VALUES (%s, %s)"
                " ON CONFLICT (customer) DO UPDATE SET cents = balances.cents + excluded.cents",
                sorted(amounts.items()),  # in one order everywhere, so that two shards' transactions cannot deadlock
            )


def beyond_position(transaction: Connection, batch: Batch) -> list[UserRecord]:
    """The records that are not in the balances yet. Moves the position to the batch's last."""
    shard = (batch.stream, batch.shard_id)
    transaction.execute("INSERT INTO positions VALUES (%s, %s) ON CONFLICT DO NOTHING", shard)
    position = transaction.execute(
        "SELECT sequence_number, sub_sequence_number FROM positions WHERE stream = %s AND shard_id = %s FOR UPDATE",
        shard,
    ).fetchone()
    assert position is not None
    new = [record for record in batch.records if place(record) > position]
    if new:
        transaction.execute(
            "UPDATE positions SET sequence_number = %s, sub_sequence_number = %s WHERE stream = %s AND shard_id = %s",
            (*place(new[-1]), *shard),
        )
    return new


def not_redriven(transaction: Connection, batch: Batch) -> list[UserRecord]:
    """The records that no earlier redrive has added."""
    insert = "INSERT INTO redriven VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
    shard = (batch.stream, batch.shard_id)
    return [record for record in batch.records if transaction.execute(insert, (*shard, *place(record))).rowcount]


def place(record: UserRecord) -> tuple[int, int]:
    return int(record.sequence_number), record.sub_sequence_number


@cache
def pool() -> ConnectionPool:
    """A connection for each call that runs at once; one that the server has closed is replaced before it is used."""
    return ConnectionPool(
        os.environ["POSTGRES"],
        kwargs={"options": os.environ.get("POSTGRES_LIMITS", LIMITS)},
        min_size=1,
        max_size=10,
        check=ConnectionPool.check_connection,
        open=True,
    )
