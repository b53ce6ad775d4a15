"""`sublet run` in a process that dies by SIGKILL between setting aside and checkpoint. Its settings come from the
environment."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field, replace

from sublet.aws.account import AwsAccount
from sublet.handlers.load import load_handler
from sublet.ports import Applied, FailureDestination, LeaseTable, Refused
from sublet.protocol.failure_document import SetAsideBatch
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_writes import LeaseWrite
from sublet.runtimes.process import ConsumerProcess
from sublet.settings import Settings
from sublet.system.threads import ThreadTasks


@dataclass
class DiesBeforeCheckpoint:
    """Both ports: the first write that moves a lease's position, after anything has been set aside, never reaches the
    table."""

    table: LeaseTable
    destination: FailureDestination
    has_set_aside: bool = field(default=False, init=False)

    def put(self, batch: SetAsideBatch) -> None:
        self.destination.put(batch)
        self.has_set_aside = True

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        if self.has_set_aside and write.moves_to is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.table.apply(write)

    def scan(self) -> LeaseScan:
        return self.table.scan()

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        return self.table.get(lease_key)


def main() -> None:
    stop = ThreadTasks().signal()
    ports, settings = AwsAccount().compose(Settings.from_environment(os.environ), stop, may_create=True)
    assert ports.destination is not None
    dies = DiesBeforeCheckpoint(ports.table, ports.destination)
    ports = replace(ports, table=dies, destination=dies)
    ConsumerProcess(ports, load_handler(settings.handler, settings), settings, stop).run()


if __name__ == "__main__":
    main()
