"""docs/console.md's configuration of nginx, run by nginx itself in front of a console. A few lines stand in for
oauth2-proxy: its answer to `/oauth2/auth`.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from sublet.operate.console.server import listen, server_of
from sublet.operate.console.trusted_proxy import TrustedProxy, networks_of

from tests.doubles.console_world import ConsoleWorld

DOCUMENT = Path(__file__).parents[2] / "docs/console.md"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
NAME, SECRET, PATIENCE = "console.example.com", "5f2c8d17a9e04b6c8a1d3f70", 30
ADA, EVE = "ada@example.com", "eve@example.com"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NGINX is None and not os.environ.get("CI"), reason="needs nginx, as Debian has it"),
]


class SignedIn(BaseHTTPRequestHandler):
    """As oauth2-proxy with --set-xauthrequest: its cookie says who it is."""

    def do_GET(self) -> None:
        found = re.search(r"_oauth2_proxy=([^;]+)", self.headers.get("Cookie", ""))
        is_asked = self.path == "/oauth2/auth"
        self.send_response(200 if not is_asked else 401 if found is None else 202)
        if is_asked and found is not None:
            self.send_header("X-Auth-Request-Email", found[1])
        body = b"" if is_asked else b"sign in"
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


def configured(folder: Path, port: int, console: int, signs_in: int) -> str:
    found = re.search(r"```nginx\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found is not None
    server = found[1]
    for documented, here in (
        ("listen 443 ssl;", f"listen 127.0.0.1:{port};"),
        ("the text in proxy-secret.txt", SECRET),
        ("127.0.0.1:4180", f"127.0.0.1:{signs_in}"),
        ("127.0.0.1:8470", f"127.0.0.1:{console}"),
    ):
        assert documented in server
        server = server.replace(documented, here)
    temporary = "".join(
        f"{name}_temp_path {folder}/{name}; " for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root; " if os.geteuid() == 0 else ""
    return (
        f"{user}daemon off; worker_processes 1; error_log stderr; pid {folder}/pid; events {{}}\n"
        f"http {{ access_log off; {temporary}\n{server} }}\n"
    )


@pytest.fixture
def world() -> ConsoleWorld:
    return ConsoleWorld(proxy=TrustedProxy("X-Forwarded-Email", networks_of(()), SECRET, frozenset({ADA})))


@pytest.fixture
def behind_nginx(world: ConsoleWorld, tmp_path: Path) -> Iterator[str]:
    """The address that browsers know."""
    signs_in = ThreadingHTTPServer(("127.0.0.1", 0), SignedIn)
    listening = listen("127.0.0.1", 0)
    listening.listen()
    server = server_of(world.console, listening, {NAME})
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    threads = [
        threading.Thread(target=signs_in.serve_forever),
        threading.Thread(target=server.run, kwargs={"sockets": [listening]}),
    ]
    for thread in threads:
        thread.start()
    written = tmp_path / "nginx.conf"
    written.write_text(configured(tmp_path, port, listening.getsockname()[1], signs_in.server_port))
    assert NGINX is not None
    nginx = subprocess.Popen([NGINX, "-e", "stderr", "-c", str(written)], stderr=subprocess.DEVNULL)
    try:
        ends = time.monotonic() + PATIENCE
        while not answers(port) and time.monotonic() < ends:
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        nginx.terminate()
        nginx.wait(PATIENCE)
        server.should_exit = True
        signs_in.shutdown()
        for thread in threads:
            thread.join(PATIENCE)
        signs_in.server_close()
        listening.close()


def answers(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


class Browser:
    """`who`: as whom it has signed in; None: as nobody."""

    def __init__(self, address: str, who: str | None, **headers: str) -> None:
        host = f"{NAME}:{address.rpartition(':')[2]}"
        cookie = {} if who is None else {"Cookie": f"_oauth2_proxy={who}"}
        self._address = address
        self._headers = {"Host": host, "Origin": f"http://{host}", **cookie, **headers}

    def get(self, path: str) -> str:
        return httpx.get(self._address + path, headers=self._headers, trust_env=False).text

    def keeps_snapshot(self) -> int:
        """The status of the answer."""
        key = re.search(r'name="form_key" value="([^"]+)"', self.get("/a/orders/positions"))
        assert key is not None
        form, path = {"form_key": key[1], "name": "before"}, "/a/orders/positions/snapshot"
        return httpx.post(self._address + path, data=form, headers=self._headers, trust_env=False).status_code


def test_nginx_as_documented_lets_each_person_do_what_they_may(behind_nginx: str, world: ConsoleWorld) -> None:
    assert Browser(behind_nginx, None).get("/") == "sign in"
    ada, eve = Browser(behind_nginx, ADA), Browser(behind_nginx, EVE)
    assert ADA in ada.get("/a/orders")
    assert ada.keeps_snapshot() == 303, "its Origin is the Host, with a port that is not the usual one"
    assert eve.keeps_snapshot() == 403
    assert Browser(behind_nginx, ADA, Origin="http://elsewhere.example.com").keeps_snapshot() == 403
    (snapshot,) = world.orders.opened.snapshots.snapshots()
    assert snapshot.by == ADA


def test_nginx_as_documented_replaces_what_a_browser_says_of_itself(behind_nginx: str) -> None:
    spoofing = Browser(behind_nginx, EVE, **{"X-Forwarded-Email": ADA, "X-Sublet-Proxy-Secret": SECRET})
    page = spoofing.get("/a/orders")
    assert EVE in page
    assert ADA not in page
    assert spoofing.keeps_snapshot() == 403
    stranger = Browser(behind_nginx, None, **{"X-Forwarded-Email": ADA, "X-Sublet-Proxy-Secret": SECRET})
    assert stranger.get("/a/orders") == "sign in"
