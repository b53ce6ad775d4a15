"""The machine's own Chromium, and a console for it to open."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from sublet.operate.console.server import listen, origin_of, server_of

from tests.doubles.console_world import ConsoleWorld

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = "No Chromium here: the console is not tested in a browser (apt-get install chromium)"
AXE = Path(__file__).resolve().parents[2] / "node_modules" / "axe-core" / "axe.min.js"
WIDE, PHONE = {"width": 1440, "height": 1000}, {"width": 390, "height": 844}


def found() -> str | None:
    """The path of the browser."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Playwright's loop runs in this thread as long as the browser does, so that no other loop can."""
    path = found()
    assert path is not None, MISSING
    with sync_playwright() as playwright:
        # A container's root and some CI machines may not use the sandbox; nothing is opened but our own pages.
        options = ["--no-sandbox"] if os.geteuid() == 0 or "CI" in os.environ else []
        browser = playwright.chromium.launch(executable_path=path, args=[*options, "--disable-gpu"])
        yield browser
        browser.close()


@dataclass(frozen=True)
class Served:
    """A console that can be opened at `origin`."""

    world: ConsoleWorld
    origin: str

    def link(self) -> str:
        return f"{self.origin}/open?link={self.world.console.access.new_link()}"


@contextmanager
def served(world: ConsoleWorld) -> Iterator[Served]:
    listening = listen("127.0.0.1", 0)
    listening.listen()
    server = server_of(world.console, listening)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield Served(world, origin_of(listening))
    finally:
        server.should_exit = True
        thread.join()
        world.console.watching.stop()
        listening.close()


@contextmanager
def opened(
    browser: Browser, console: Served, *, width: dict[str, int] | None = None, scheme: str = "light"
) -> Iterator[Page]:
    """A signed-in page. Whatever a script or the policy of a page complains of is an error."""
    context = browser.new_context(
        viewport=width or WIDE,  # type: ignore[arg-type]
        color_scheme=scheme,  # type: ignore[arg-type]
        reduced_motion="reduce",
    )
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda line: complaints.append(line.text) if line.type in ("error", "warning") else None,
    )
    page.goto(console.link())
    yield page
    context.close()
    # A refused request is one too: which status a page has is for each test to say.
    assert not [each for each in complaints if not each.startswith("Failed to load resource")]


def violations(page: Page) -> list[str]:
    """In words. The policy of our pages lets no script in, so axe-core is evaluated by the browser's own protocol."""
    page.evaluate(AXE.read_text())
    result: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{rule['id']}: {rule['help']}: {node['html'][:200]}" for rule in result["violations"] for node in rule["nodes"]
    ]
