"""A browser of few words: cookies, forms with their key, and no script."""

from __future__ import annotations

import re
import warnings
from html import unescape
from time import monotonic, sleep

from httpx import Response
from sublet.operate.console.routes import console_app

from tests.doubles.console_world import ConsoleWorld

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette prefers another client than httpx
    from starlette.testclient import TestClient

ORIGIN = "http://127.0.0.1:8470"


class ConsoleClient:
    """Signed in by a link."""

    def __init__(self, world: ConsoleWorld) -> None:
        self.world = world
        self.http = stranger(world)
        opened = self.http.get(f"/open?link={world.console.access.new_link()}")
        assert opened.url.path != "/open", opened.text

    def get(self, path: str, **headers: str) -> Response:
        reply: Response = self.http.get(path, headers=headers)
        return reply

    def form_key(self) -> str:
        found = re.search(r'name="form_key" value="([^"]+)"', self.http.get("/").text)
        assert found is not None
        return found[1]

    def post(self, path: str, **fields: str) -> Response:
        form = {"form_key": self.form_key(), **fields}
        reply: Response = self.http.post(path, data=form, headers={"Origin": ORIGIN})
        return reply

    def until(self, path: str, text: str) -> str:
        """The page, once it says so: plans are made beside the requests."""
        deadline = monotonic() + 10
        while text not in (page := unescape(self.http.get(path).text)):
            assert monotonic() < deadline, page
            sleep(0.01)
        return page


def stranger(world: ConsoleWorld) -> TestClient:
    """A browser without a session."""
    return TestClient(console_app(world.console), base_url=ORIGIN)
