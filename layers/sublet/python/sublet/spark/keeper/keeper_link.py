"""The reader's side of its keeper: starts the process, and asks it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence

from sublet.protocol.lease import Lease
from sublet.settings import PREFIX
from sublet.spark.keeper.keeper_messages import (
    ask_held,
    ask_planned,
    ask_rows,
    ask_settle,
    gone,
    leases_in,
)
from sublet.spark.keeper.query_life import query_connection
from sublet.spark.options import Leases, Options
from sublet.spark.plan.offsets import Offset

KEEPER_MODULE = "sublet.spark.keeper.keeper_process"


class KeeperLink:
    """A keeper in another process, asked one thing at a time. It ends by itself, when this process and the query have ended."""

    def __init__(self, options: Options, query: socket.socket | None) -> None:
        """`query`: a copy of the query's connection, by which the keeper sees that it is over; it is closed here. None: the query
        counts as over when this process ends."""
        command = [sys.executable, "-m", KEEPER_MODULE, *_arguments(options)]
        if query is not None:
            command += ["--query", str(query.fileno())]
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and a module of ours
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(options),
            pass_fds=() if query is None else (query.fileno(),),
            start_new_session=True,
            text=True,
        )
        if query is not None:
            query.close()

    def held(self, committed: Offset) -> Mapping[str, Lease]:
        return self._ask(ask_held(committed))

    def rows(self, shard_ids: Sequence[str]) -> Mapping[str, Lease]:
        return self._ask(ask_rows(shard_ids))

    def planned(self, end: Offset) -> None:
        self._ask(ask_planned(end))

    def settle(self) -> None:
        self._ask(ask_settle())

    def _ask(self, question: str) -> Mapping[str, Lease]:
        """Raises what the keeper refuses with, and LeaseKeeperGone."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{question}\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise gone(self._process.wait())
        return leases_in(line)


def connect_keeper(options: Options) -> KeeperLink | None:
    """A keeper of the query's own, before any other connection of this process; None when it holds no leases."""
    return KeeperLink(options, query_connection()) if options.leases is Leases.HOLD else None


def _arguments(options: Options) -> list[str]:
    given = {
        "--region": options.region,
        "--endpoint-url": options.endpoint_url,
        "--checkpoint-location": options.checkpoint_location,
    }
    flags = ["--fail-on-data-loss"] if options.fail_on_data_loss else []
    return [part for name, value in given.items() if value is not None for part in (name, value)] + flags


def _environment(options: Options) -> dict[str, str]:
    """Ours, with the keeper's settings and nobody else's, and with the modules that Spark brought here."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return (
        kept
        | options.keeper_settings.to_environment()
        | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    )
