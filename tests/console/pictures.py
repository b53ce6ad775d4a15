"""The pictures of docs/: `python -m tests.console.pictures`, on a machine with Chromium."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.console.chromium import PHONE, chromium, opened, served
from tests.console.fleet_story import HOT, STALLED, after_an_hour

FOLDER = Path(__file__).resolve().parents[2] / "docs"
SIZE_MAX = 150_000
NAMES = ("orders-audit", "billing-kcl", "fraud-scores")

SHARD = f"shardId-{STALLED:012}"
PAGES = {
    "console": "/a/orders-audit",
    "console-applications": "/",
    "console-shard": f"/a/orders-audit/shards/{SHARD}",
    "console-hot-shard": f"/a/orders-audit/shards/shardId-{HOT:012}",
    "console-workers": "/a/orders-audit/workers",
    "console-hash-keys": "/a/orders-audit/hash-keys",
    "console-failures": "/a/orders-audit/failures",
    "console-records": f"/a/orders-audit/records?shard={SHARD}",
    "console-control": "/a/orders-audit/control",
    "console-positions": "/a/orders-audit/positions",
}


DESK = {"width": 1440, "height": 860}
PICTURES = (
    ("console", "console", DESK, "light"),
    ("console-dark", "console", DESK, "dark"),
    ("console-phone", "console", PHONE, "light"),
    ("console-plan", "plan", DESK, "light"),
)
"""A file's name, the page, the window and the colours."""


def take(browser: Browser, folder: Path) -> None:
    with served(after_an_hour(*NAMES)) as console:
        for name, shown, window, scheme in PICTURES:
            with opened(browser, console, width=window, scheme=scheme) as page:
                if shown == "plan":
                    plan(page, console.origin)
                else:
                    page.goto(console.origin + PAGES[shown])
                page.screenshot(path=folder / f"{name}.png")


def plan(page: Page, origin: str) -> None:
    page.goto(f"{origin}/a/orders-audit/positions")
    page.get_by_label("How long ago").fill("10m")
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_text("The same in a terminal").wait_for()


if __name__ == "__main__":
    with chromium() as started:
        take(started, FOLDER)
