"""The programs of `make chaos CHAOS=--produce`: two with threads, one of which puts plain records, and one on an event
loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import sublet.aio
from sublet import Producer, PutRecord, RecordsNotPut
from sublet.ports.account import Account

KEYS = 60
SIZES = (20, 100, 400, 1_200)
EVERY = 0.1
"""Seconds between two rounds of a program."""

AnyFuture = Future[PutRecord] | asyncio.Future[PutRecord]


@dataclass
class PutRecords:
    """What the programs have put. A record is `<key>:<number>:` and dots; the numbers of a key begin with 1."""

    put: Counter[str] = field(default_factory=Counter)
    """By key, the highest number."""
    acknowledged: set[bytes] = field(default_factory=set)
    given_up: dict[bytes, str] = field(default_factory=dict)
    produced: list[Any] = field(default_factory=list)
    """The counts of each producer that is closed."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, data: bytes, put: AnyFuture) -> None:
        failure = put.exception()
        with self.lock:
            if failure is None:
                self.acknowledged.add(data)
            else:
                self.given_up[data] = repr(failure)


@dataclass
class Program:
    """Puts `number` records in EVERY seconds until it is stopped, then closes its producer."""

    name: str
    stream: str
    account: Account
    known: PutRecords
    chance: Random
    number: int
    is_stopped: threading.Event

    def records(self) -> list[tuple[str, bytes]]:
        made = []
        for _ in range(self.number):
            key = f"{self.name}-{self.chance.randrange(KEYS)}"
            self.known.put[key] += 1
            data = f"{key}:{self.known.put[key]}:".encode().ljust(self.chance.choice(SIZES), b".")
            made.append((key, data))
        return made

    def run(self, **options: Any) -> None:
        producer = Producer(self.stream, account=self.account, **options)
        with suppress(RecordsNotPut), producer:  # each future says it too
            while not self.is_stopped.wait(EVERY):
                for key, data in self.records():
                    producer.put(key, data).add_done_callback(partial(self.known.note, data))
        self.known.produced.append(producer.produced)

    async def run_on_loop(self) -> None:
        producer = sublet.aio.Producer(self.stream, account=self.account)
        with suppress(RecordsNotPut):
            async with producer:
                while not self.is_stopped.is_set():
                    await asyncio.sleep(EVERY)
                    for key, data in self.records():
                        put = await producer.put(key, data)
                        put.add_done_callback(partial(self.known.note, data))
        self.known.produced.append(producer.produced)


def started(
    seed: int, stream: str, account: Account, known: PutRecords, is_stopped: threading.Event, number: int
) -> list[threading.Thread]:
    """Kinesis stores far fewer plain records than user records in aggregates, so a fifth of `number` are plain."""

    def program(name: str, number: int) -> Program:
        return Program(name, stream, account, known, Random(f"{seed} {name}"), number, is_stopped)

    packed, plain, loop = (
        program("packed", number),
        program("plain", max(number // 5, 1)),
        program("loop", number),
    )
    works: dict[str, Callable[[], object]] = {
        "packed": packed.run,
        "plain": partial(plain.run, aggregation_enabled=False),
        "loop": lambda: asyncio.run(loop.run_on_loop()),
    }
    threads = [threading.Thread(target=work, name=name, daemon=True) for name, work in works.items()]
    for thread in threads:
        thread.start()
    return threads
