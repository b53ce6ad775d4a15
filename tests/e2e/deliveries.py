"""What the recorder handler wrote down, and what it must add up to."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple


class Delivery(NamedTuple):
    """One record in one handler call. `text` is `<key>/<running number of the key>`."""

    at: int
    shard_id: str
    sequence_number: str
    sub_sequence_number: int
    partition_key: str
    text: str


class Recorder:
    """The recorder handler's directory, from the test's side."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.dawdle(0)

    def dawdle(self, seconds: float) -> None:
        """From now on each handler call takes so long."""
        (self.directory / "delay").write_text(str(seconds))

    def fail(self, times: int) -> None:
        for number in range(times):
            (self.directory / f"fail-{number:03}").touch()

    def failures_left(self) -> int:
        return len(list(self.directory.glob("fail-*")))

    def pids(self) -> set[int]:
        """Of every worker process that has handled anything."""
        return {int(path.stem) for path in self.directory.glob("*.jsonl")}

    def deliveries(self) -> list[Delivery]:
        """In the order of time. A line cut short by a kill was not handled."""
        lines = [
            line
            for path in self.directory.glob("*.jsonl")
            for line in path.read_text().splitlines(keepends=True)
        ]
        return sorted(Delivery(*json.loads(line)) for line in lines if line.endswith("]\n"))

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


def wait_until(done: Callable[[], bool], seconds: float, problem: Callable[[], str]) -> None:
    """A bound for what never comes, not a measurement: generous, and passed at once when it is done."""
    give_up = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < give_up, problem()
        time.sleep(0.1)


def out_of_order(deliveries: Iterable[Delivery]) -> list[str]:
    """First deliveries that came after a later one of the same key. A redelivery may go back; a first one may not."""
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
