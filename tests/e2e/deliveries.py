"""Reads what the recorder handler wrote down, and checks that it adds up."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol


class Delivery(NamedTuple):
    """One record in one handler call. `text` is `<key>/<running number of the key>`."""

    at: int
    shard_id: str
    sequence_number: str
    sub_sequence_number: int
    partition_key: str | None
    text: str


class Place(Protocol):
    """Where the recorder handler and the test communicate: files by name, each with one JSON line per record in the
    end."""

    def names(self) -> list[str]: ...
    def read(self, name: str) -> str: ...
    def write(self, name: str, text: str) -> None: ...
    def remove(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder on this machine, if functions run as its processes (handlers/recorder.py)."""

    path: Path

    def names(self) -> list[str]:
        return [each.name for each in self.path.iterdir()]

    def read(self, name: str) -> str:
        return (self.path / name).read_text()

    def write(self, name: str, text: str) -> None:
        """In one step: a handler may read it at this moment."""
        new = self.path / f".{name}"
        new.write_text(text)
        new.replace(self.path / name)

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket of the AWS under test, if functions run out of reach (handlers/bucket_recorder.py)."""

    s3: Any
    name: str

    def names(self) -> list[str]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def read(self, name: str) -> str:
        text: str = self.s3.get_object(Bucket=self.name, Key=name)["Body"].read().decode()
        return text

    def write(self, name: str, text: str) -> None:
        self.s3.put_object(Bucket=self.name, Key=name, Body=text.encode())

    def remove(self, name: str) -> None:
        self.s3.delete_object(Bucket=self.name, Key=name)


class Recorder:
    """The recorder handler, from the test's side."""

    def __init__(self, where: Path | Place) -> None:
        self.place: Place = Folder(where) if isinstance(where, Path) else where
        self.dawdle(0)

    def dawdle(self, seconds: float) -> None:
        """From now on each handler call takes this long."""
        self.place.write("delay", str(seconds))

    @contextmanager
    def holding(self) -> Iterator[None]:
        """No handler call ends in the block."""
        self.place.write("hold", "")
        try:
            yield
        finally:
            self.place.remove("hold")

    def fail(self, times: int) -> None:
        for number in range(times):
            self.place.write(f"fail-{number:03}", "")

    def failures_left(self) -> int:
        return len([name for name in self.place.names() if name.startswith("fail-")])

    def kill(self) -> None:
        """End the slow worker: from outside if it is a process on this machine, otherwise it ends itself."""
        if isinstance(self.place, Folder):
            alive = [pid for pid in self.pids() if _ended_by_us(pid)]
            assert alive, "no worker was at work"
        else:
            self.place.write("kill", "")
            wait_until(lambda: "kill" not in self.place.names(), 30, lambda: "no worker was at work")

    def pids(self) -> set[int]:
        """Of every worker process that has handled anything."""
        return {int(name.removesuffix(".jsonl").split("-")[0]) for name in self._records()}

    def ended(self) -> set[str]:
        """The shards whose end the handler was told of."""
        return {name.removeprefix("ended-") for name in self.place.names() if name.startswith("ended-")}

    def deliveries(self) -> list[Delivery]:
        """Sorted by time. A line cut short by a kill was not handled."""
        lines = [line for name in self._records() for line in self.place.read(name).splitlines(keepends=True)]
        return sorted(Delivery(*json.loads(line)) for line in lines if line.endswith("]\n"))

    def _records(self) -> list[str]:
        return [name for name in self.place.names() if name.endswith(".jsonl")]

    def wait_for(self, texts: Iterable[str], seconds: float) -> list[Delivery]:
        """All deliveries, once every one of `texts` has been delivered."""
        wanted = set(texts)

        def missing() -> set[str]:
            return wanted - {delivery.text for delivery in self.deliveries()}

        wait_until(
            lambda: not missing(),
            seconds,
            lambda: f"{len(missing())} of {len(wanted)} never came: {sorted(missing())[:5]}",
        )
        return self.deliveries()


def _ended_by_us(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def wait_until(done: Callable[[], bool], seconds: float, problem: Callable[[], str]) -> None:
    """A generous bound for failures, not a measurement; returns as soon as it is done."""
    give_up = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < give_up, problem()
        time.sleep(0.1)


def out_of_order(deliveries: Iterable[Delivery]) -> list[str]:
    """First deliveries that came after a later one of the same key. A redelivery may go back; a first delivery may
    not."""
    seen: set[str] = set()
    furthest: dict[str, int] = {}
    wrong = []
    for delivery in deliveries:
        key, number = delivery.text.rsplit("/", 1)
        if delivery.text not in seen and int(number) < furthest.get(key, -1):
            wrong.append(delivery.text)
        seen.add(delivery.text)
        furthest[key] = max(int(number), furthest.get(key, -1))
    return wrong
