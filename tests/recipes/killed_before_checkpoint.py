"""`sublet run` in a process that dies by SIGKILL in place of its first checkpoint: what its handler has written is
there, and the lease table does not know. Its settings come from the environment."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace

from sublet.aws.account import AwsAccount
from sublet.handlers.load import load_handler
from sublet.ports import Applied, LeaseTable, Refused
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_writes import LeaseWrite
from sublet.runtimes.process import ConsumerProcess
from sublet.settings import Settings
from sublet.system.threads import ThreadTasks


@dataclass
class DiesBeforeCheckpoint:
    """The first write that moves a lease's position never reaches the table."""

    table: LeaseTable

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        if write.moves_to is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.table.apply(write)

    def scan(self) -> LeaseScan:
        return self.table.scan()

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        return self.table.get(lease_key)


def main() -> None:
    stop = ThreadTasks().signal()
    ports, settings = AwsAccount().compose(Settings.from_environment(os.environ), stop, may_create=True)
    ports = replace(ports, table=DiesBeforeCheckpoint(ports.table))
    ConsumerProcess(ports, load_handler(settings.handler, settings), settings, stop).run()


if __name__ == "__main__":
    main()
