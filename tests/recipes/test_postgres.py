"""Payments in a real Postgres count once: through crashes at any line, zombies, reshards, SIGKILL and a redrive."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from sublet import Batch
from sublet.testing import MemoryConsumer, SimulatedRun, batch, simulate

from examples.recipes.postgres import balances
from infra.local import EmbeddedAws
from tests.exploring import explores
from tests.recipes.recipe_runs import RECIPES, RecipeRuns, put, wait_until

CODE = RECIPES / "postgres"
CUSTOMERS = 7

pytestmark = [pytest.mark.emulator, explores, pytest.mark.timeout(300)]


def payment(number: int) -> bytes:
    return json.dumps({"customer": f"customer-{number % CUSTOMERS}", "cents": number + 1}).encode()


PAYMENTS = [payment(number) for number in range(40)]
TOTAL = sum(range(1, 41))


def owed(payments: Iterable[bytes]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for each in map(json.loads, payments):
        sums[each["customer"]] += each["cents"]
    return dict(sums)


@pytest.fixture
def database(postgres: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection]:
    """Empty tables. A simulated worker may pause with a lock in its hand, so the others wait only briefly."""
    monkeypatch.setenv("POSTGRES", postgres)
    monkeypatch.setenv("POSTGRES_LIMITS", "-c lock_timeout=20ms -c statement_timeout=10s")
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS balances, positions, redriven")
        connection.execute((CODE / "balances.sql").read_text())
        balances.pool.cache_clear()
        yield connection
        balances.pool().close()
        balances.pool.cache_clear()


def stored(database: psycopg.Connection) -> dict[str, int]:
    return dict(database.execute("SELECT customer, cents FROM balances").fetchall())


def test_payments_count_once_through_crashes_zombies_and_reshards(database: psycopg.Connection) -> None:
    def check(run: SimulatedRun) -> None:
        payments = {delivery.record.data for delivery in run.deliveries}
        assert len(payments) == run.records
        assert stored(database) == owed(payments)
        database.execute("TRUNCATE balances, positions")

    simulation = simulate(balances.handle, seeds=5, data=payment, check=check)
    assert len(simulation.repeating) >= 3, "records came again in most worlds"


def test_payments_count_once_when_killed_between_commit_and_checkpoint(
    aws: EmbeddedAws, stream: str, postgres: str, database: psycopg.Connection, tmp_path: Path
) -> None:
    keyed = [(f"key-{number}", each) for number, each in enumerate(PAYMENTS)]
    put(aws, stream, keyed[:20])
    runs = RecipeRuns(aws, stream, CODE, "balances:handle", tmp_path, {"POSTGRES": postgres}, {"batch_size": "5"})
    runs.run_until_killed()
    assert stored(database), "something is committed"
    put(aws, stream, keyed[20:])
    runs.run_until(lambda: sum(stored(database).values()) >= TOTAL)
    assert stored(database) == owed(PAYMENTS)


def test_zombie_s_transaction_waits_and_then_adds_nothing(
    database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls with the same records are held at the position, which another program shares: the second must not have
    read it before the first has moved it."""
    monkeypatch.setenv("POSTGRES_LIMITS", "-c lock_timeout=30s")
    balances.handle(batch([payment(0)]))
    with psycopg.connect(os.environ["POSTGRES"]) as another, ThreadPoolExecutor(2) as workers:
        another.execute("SELECT * FROM positions FOR SHARE")
        both = batch([payment(0), payment(CUSTOMERS)])
        calls = [workers.submit(balances.handle, both) for _ in range(2)]
        wait_until(lambda: waiting(database) == 2)
        another.rollback()
        for call in calls:
            call.result(30)
    assert stored(database) == owed([payment(0), payment(CUSTOMERS)])


def waiting(database: psycopg.Connection) -> int:
    """How many transactions wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    ((count,),) = database.execute(query).fetchall()
    return int(count)


def test_redriven_payment_counts_once_however_often_it_comes(database: psycopg.Connection) -> None:
    consumer = MemoryConsumer(
        batch_size=1, maximum_retry_attempts=0, on_failure="arn:aws:sqs:eu-central-1:123456789012:given-up"
    )
    consumer.put(payment(0), payment(1), payment(2))

    def refuses_one(given: Batch) -> None:
        if given.records[0].data == payment(1):
            raise ValueError("not today")
        balances.handle(given)

    consumer.consume(refuses_one)
    assert sum(stored(database).values()) == 1 + 3

    def fails_after_commit(given: Batch) -> None:
        balances.handle(given)
        raise ConnectionError("after the commit")

    assert consumer.redrive(fails_after_commit).failed == 1
    assert consumer.redrive(balances.handle).done == 1
    assert stored(database) == owed(PAYMENTS[:3])
