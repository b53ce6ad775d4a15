"""Java's side of the fleet: KCL workers of either line, and the KPL. Sublet's side is in tests/mixed_fleet."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop.build import BUILT, Profile, command
from tests.interop.tls import in_front_of
from tests.mixed_fleet.workers import Employer, Side, Worker

SIDES = {Profile.KCL_2: Side.KCL_2, Profile.KCL_3: Side.KCL_3, Profile.KCL_3_4: Side.KCL_3_4}
KPL_LIMIT = 180.0
LEADERS_LOCK = {
    "dynamoDbLockBasedLeaderLeaseDurationInMillis": 20_000,
    "dynamoDbLockBasedLeaderHeartbeatPeriodInMillis": 5_000,
}
"""A sixth of KCL 3.x' defaults: after its leader is killed, a fleet has none until the lock expires."""


def end_by_exception() -> None:
    """Ends this process by an exception on a signal, so that none of its workers stays behind."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


@dataclass(frozen=True)
class Java:
    """Starts KCL workers where `employer` starts sublet's, with its failover time."""

    employer: Employer

    def kcl(self, profile: Profile, name: str, **settings: str | int) -> Worker:
        """`settings`: system properties of java/Consumer.java."""
        side, employer = SIDES[profile], self.employer
        pace = {} if profile is Profile.KCL_2 else LEADERS_LOCK
        given = {"failoverTimeMillis": employer.failover_seconds * 1_000, **pace, **settings}
        options = [f"-Dinterop.{key}={value}" for key, value in given.items()]
        worker_id = f"{side}-{name}"
        arguments = [employer.application, employer.stream, worker_id, employer.start_position]
        return employer.start(side, worker_id, [*command(profile, "Consumer", *options), *arguments], {})

    def kpl(self, prefix: str, *, keys: int, count: int, a_second: int) -> Sequence[str]:
        """Put `count` user records and wait until each is acknowledged. Returns their texts."""
        port = int(self.employer.aws.environment["AWS_ENDPOINT_URL_KINESIS"].rpartition(":")[2])
        unpacked = BUILT / Profile.KPL / "native"
        unpacked.mkdir(exist_ok=True)
        log = self.employer.folder / f"kpl-{prefix}.log"
        with (
            tempfile.TemporaryDirectory() as folder,
            in_front_of(port, Path(folder)) as tls,
            log.open("wb") as told,
        ):
            numbers = [str(number) for number in (keys, count, a_second)]
            program = command(Profile.KPL, "Producer")
            put = subprocess.run(
                [*program, self.employer.stream, str(tls), str(unpacked), prefix, *numbers],
                env=self.employer.environment,
                stdout=subprocess.PIPE,
                stderr=told,
                timeout=KPL_LIMIT,
                check=True,
            )
        return [line for line in put.stdout.decode().splitlines() if line.startswith(prefix)]
