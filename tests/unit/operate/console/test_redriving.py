"""A redrive from the page: planned without receiving anything, carried out with the console's handler, and once at a
time.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from html import unescape
from threading import Event

import pytest
from sublet.handler import Batch
from sublet.handlers.load import handler_of
from sublet.operate.cli.main import parser
from sublet.operate.console.applications import ConsoleRedriver
from sublet.operate.rules.set_aside_waiting import SetAsideWaiting
from sublet.protocol.failure_document import SetAsideBatch
from sublet.protocol.records import StreamRecord, UserRecord

from tests.doubles.console_client import ConsoleClient
from tests.doubles.console_world import ASIDE, ConsoleWorld

PLAN = "/a/orders/failures/redrive"


def set_aside(world: ConsoleWorld, *numbers: int, application: str = "orders") -> None:
    """A batch of one record each."""
    at = world.clock.now()
    for number in numbers:
        record = UserRecord(str(number).encode(), "key", 0, StreamRecord(str(number), b"", "key", at))
        world.orders.aside.put(
            SetAsideBatch(
                application,
                "events",
                None,
                "shardId-000000000000",
                (record,),
                "RetryAttemptsExhausted",
                3,
                at,
                "item/1",
                "orders:handle",
            )
        )


def with_handler(handle: Callable[[Batch], None], *, allows_changes: bool = True) -> ConsoleWorld:
    world = ConsoleWorld(allows_changes=allows_changes)
    opened = world.orders.opened
    settings = replace(opened.settings, handler="orders:handle")
    world.orders.opened = replace(opened, settings=settings, redriver=ConsoleRedriver(handler_of(handle, settings)))
    return world


def planned(client: ConsoleClient, **fields: str) -> str:
    path = client.post(PLAN, **fields).url.path
    assert path.startswith("/a/orders/plans/")
    return path


def test_redrive_page_plans_redrives_and_removes_handled_batches() -> None:
    got: list[bytes] = []

    def handle(batch: Batch) -> None:
        assert batch.is_redrive
        got.extend(record.data for record in batch.records)

    world = with_handler(handle)
    set_aside(world, 1, 2, 3)
    client = ConsoleClient(world)
    path = planned(client, max_rate="500")
    page = client.until(path, "3 batches to orders:handle")
    assert "At most 500 records a second, on average." in page
    assert "it must check batch.is_redrive" in page
    assert 'title="3 batches"' in page
    assert (got, world.orders.aside.counted().available) == ([], 3), "a plan handles nothing"
    shown = re.search(r'class="command">([^<]+)<', client.get(path).text)
    assert shown is not None
    command = shlex.split(unescape(shown[1]))
    assert command[:4] == ["sublet", "redrive", "--application", "orders"]
    assert command[-6:] == ["--from", ASIDE, "--handler", "orders:handle", "--max-rate", "500"]
    assert parser().parse_args(command[1:]).command.name == "redrive"
    client.post(path)
    client.until(path, "3 records in 3 batches handled and removed.")
    assert got == [b"1", b"2", b"3"]
    assert world.orders.aside.counted().available == 0
    (line,) = [each for each in world.log.lines if each.message == "console change"]
    assert line.fields["what"] == f"Redrive {ASIDE}"
    assert str(line.fields["who"]).startswith("ada@laptop from ")
    assert line.fields["command"] == shlex.join(command)


def test_redrive_page_counts_batches_that_failed_again() -> None:
    def handle(batch: Batch) -> None:
        if batch.records[0].data == b"2":
            raise ValueError(batch.records[0].data)

    world = with_handler(handle)
    set_aside(world, 1, 2)
    client = ConsoleClient(world)
    path = planned(client)
    client.until(path, "2 batches to")
    client.post(path)
    page = client.until(path, "1 record in 1 batch handled and removed; 1 batch failed again and stays.")
    assert "As fast as the handler." not in page, "it is done"
    assert world.orders.aside.counted().available == 1


def test_redrive_page_shows_progress_and_refuses_a_second_redrive() -> None:
    goes_on, is_in = Event(), Event()

    def handle(batch: Batch) -> None:
        if batch.records[0].data == b"2":
            is_in.set()
            assert goes_on.wait(10)

    world = with_handler(handle)
    set_aside(world, 1, 2)
    client = ConsoleClient(world)
    first, second = planned(client), planned(client)
    for path in (first, second):
        client.until(path, "2 batches to")
    client.post(first)
    assert is_in.wait(10)
    client.until(first, "1 of 2")
    client.post(second)
    client.until(second, "another redrive of this console is under way")
    goes_on.set()
    client.until(first, "2 records in 2 batches handled and removed.")


def test_a_read_only_console_shows_the_plan_and_redrives_nothing() -> None:
    world = with_handler(lambda _: pytest.fail("it was called"), allows_changes=False)
    set_aside(world, 1)
    client = ConsoleClient(world)
    path = planned(client)
    assert "This console is read-only" in client.until(path, "1 batch to")
    assert client.post(path).status_code == 403
    assert world.orders.aside.counted().available == 1


def test_redrive_page_without_a_handler_says_how_to_start_the_console() -> None:
    world = ConsoleWorld()
    set_aside(world, 1)
    client = ConsoleClient(world)
    page = unescape(client.get("/a/orders/failures").text)
    assert "sublet console orders=events --handler MODULE:FUNCTION --allow-changes" in page
    assert f'action="{PLAN}"' not in page
    client.until(planned(client), "start the console with --handler MODULE:FUNCTION")
    with_one = ConsoleClient(with_handler(print))
    assert f'action="{PLAN}"' not in with_one.get("/a/orders/failures").text, "nothing waits"


def test_redrive_page_with_a_handler_has_a_form_where_batches_wait() -> None:
    world = with_handler(print)
    set_aside(world, 1)
    assert f'action="{PLAN}"' in ConsoleClient(world).get("/a/orders/failures").text


def test_redrive_does_nothing_from_a_topic_or_without_batches() -> None:
    world = with_handler(print)
    client = ConsoleClient(world)
    assert "There is nothing to change." in client.until(planned(client), "0 batches to")
    aside = replace(world.orders.opened.aside, store=None, waiting=lambda: SetAsideWaiting(2))
    other = with_handler(print)
    other.orders.opened = replace(other.orders.opened, aside=aside)
    client = ConsoleClient(other)
    assert "A topic keeps nothing, so nothing can be redriven from it." in client.get("/a/orders/failures").text
    client.until(planned(client), "is a topic, which stores nothing to redrive")


def test_the_oldest_and_when_it_is_deleted_are_in_the_plan() -> None:
    world = with_handler(print)
    waiting = SetAsideWaiting(2, world.clock.now() - timedelta(days=3), world.clock.now() + timedelta(days=11))
    world.orders.opened = replace(
        world.orders.opened, aside=replace(world.orders.opened.aside, waiting=lambda: waiting)
    )
    client = ConsoleClient(world)
    page = client.until(planned(client), "2 batches to")
    assert "the oldest is 3d old" in page
    assert "What still waits at 2026-02-11T08:00:00Z is deleted then." in page


@pytest.mark.parametrize("rate", ["0", "fast", "-1", "inf", "nan", "٣"])
def test_invalid_redrive_rate_is_refused(rate: str) -> None:
    world = with_handler(print)
    set_aside(world, 1)
    reply = ConsoleClient(world).post(PLAN, max_rate=rate)
    assert reply.status_code == 400
    assert "is not a number of records a second" in reply.text
