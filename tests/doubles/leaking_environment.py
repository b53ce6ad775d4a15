"""A warm Lambda environment as a process of its own, whose handler leaks a descriptor with each call.

python -m tests.doubles.leaking_environment
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass, replace

from sublet.runtimes.ending import end_process
from sublet.runtimes.serverless import run_invocation

from tests.doubles.engine_world import MINUTE, NO_WAITING, EngineWorld

DESCRIPTORS = 64
INVOCATIONS = 200


@dataclass(frozen=True)
class Context:
    aws_request_id: str

    def get_remaining_time_in_millis(self) -> int:
        return 900_000


def main() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    world = EngineWorld(replace(NO_WAITING, handler_attempts=2))
    worker = world.worker(replaced_at_once=True)
    world.handler.script = lambda _: void(os.open(os.devnull, os.O_RDONLY))

    def end(status: int) -> None:
        print(f"{len(world.handler.finished)} records, owner {world.table.lease().lease_owner}")
        end_process(status)

    for number in range(INVOCATIONS):
        world.put(str(number))
        run_invocation(worker, world.item(), Context(f"request-{number}"), world.settings, end)
        world.clock.advance(MINUTE)


def void(_: int) -> None:
    """Leaves open what is opened."""


if __name__ == "__main__":
    main()
