"""The console in a real browser: live, by keyboard, for screen readers, and with what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import monotonic

import pytest
from playwright.sync_api import Browser, Page, expect
from sublet.handler import Batch
from sublet.handlers.batch import HandlerFunctions
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.snapshot import Snapshot
from sublet.runtimes.process import ConsumerProcess
from sublet.settings import Mode
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks

from tests.console import pictures
from tests.console.chromium import PHONE, WIDE, Served, opened, served, violations
from tests.console.fleet_story import HOT, STALLED, STOPPED, after_an_hour
from tests.doubles.console_world import ConsoleWorld
from tests.exploring import explores

pytestmark = pytest.mark.slow

HOT_SHARD = f"shardId-{HOT:012}"
STALLED_SHARD, STOPPED_SHARD = f"shardId-{STALLED:012}", f"shardId-{STOPPED:012}"


@pytest.fixture
def console() -> Iterator[Served]:
    with served(after_an_hour("orders-audit", "billing-kcl", shards=16, has_hot_shard=True)) as made:
        yield made


@pytest.fixture
def page(browser: Browser, console: Served) -> Iterator[Page]:
    with opened(browser, console) as made:
        yield made


def lease(world: ConsoleWorld, shard: str) -> Lease:
    row = world.applications["orders-audit"].table.get(shard)
    assert isinstance(row, Lease)
    return row


def test_the_map_leads_to_why_a_shard_is_hot_by_keyboard(page: Page, console: Served) -> None:
    page.goto(f"{console.origin}/a/orders-audit/hash-keys")
    link = page.get_by_role("row", name=HOT_SHARD).get_by_role("link", name="one key")
    link.focus()
    page.keyboard.press("Enter")
    load = page.get_by_role("region", name="Load")
    expect(load).to_contain_text("one partition key brings at least")
    expect(load.get_by_role("row", name="customer-9")).to_be_visible()
    expect(load).to_be_in_viewport()


def refresh(page: Page) -> None:
    """What the script also does each few seconds."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_a_change_in_the_fleet_shows_without_a_reload(page: Page, console: Served) -> None:
    page.goto(f"{console.origin}/a/orders-audit?q={STOPPED_SHARD}")
    row = page.get_by_role("row", name=STOPPED_SHARD)
    expect(row).to_contain_text("STOPPED")
    page.evaluate("document.body.dataset.mark = 'not loaded again'")
    world, orders = console.world, console.world.applications["orders-audit"]
    last = orders.stream.logs[STOPPED].read(0, 100, None)[0][-1].sequence_number
    orders.table.put_row(encode_row(Lease(STOPPED_SHARD, Checkpoint(last), 99, "worker-that-came")))
    world.console.watching.look("orders-audit")
    refresh(page)
    expect(row).to_contain_text("worker-that-came", timeout=15_000)
    expect(row).to_contain_text("OK")
    assert page.evaluate("document.body.dataset.mark") == "not loaded again"


def test_a_split_shows_the_children(page: Page, console: Served) -> None:
    page.goto(f"{console.origin}/a/orders-audit?sort=shard")
    orders = console.world.applications["orders-audit"]
    first, second = orders.stream.split(STALLED_SHARD)
    for child in (first, second):
        orders.table.put_row(
            encode_row(
                Lease(child, Checkpoint.parse("TRIM_HORIZON", 0), 0, parent_shard_ids=frozenset({STALLED_SHARD}))
            )
        )
    console.world.console.watching.look("orders-audit")
    refresh(page)
    for child in (first, second):
        expect(page.get_by_role("row", name=child)).to_contain_text("WAITING", timeout=15_000)


@contextmanager
def consuming(world: ConsoleWorld) -> Iterator[list[bytes]]:
    """A process of ours on the application's leases, in real time; what its handler got."""
    opened, got, tasks = world.orders.opened, list[bytes](), ThreadTasks()
    settings = replace(
        opened.settings,
        worker_id="process-1",
        mode=Mode.CONTINUOUS,
        failover_time=timedelta(seconds=3),
        heartbeat_interval=timedelta(seconds=1),
        checkpoint_interval=timedelta(seconds=1),
    )

    def handle(batch: Batch) -> None:
        got.extend(record.data for record in batch.records)

    stop = tasks.signal()
    running = tasks.spawn(ConsumerProcess(opened.ports, HandlerFunctions(handle), settings, stop).run)
    try:
        yield got
    finally:
        stop.set()
        running.result()


def shown_within(seconds: float, page: Page, world: ConsoleWorld, shard: str, text: str) -> None:
    """That the shard's row has the text. The console looks all the time meanwhile, instead of every ten seconds."""
    row, deadline = page.locator("tbody tr").filter(has_text=shard), monotonic() + seconds
    while text not in "".join(row.all_text_contents()):
        assert monotonic() < deadline, (shard, text, page.locator("tbody").inner_text())
        world.console.watching.look("orders")
        refresh(page)
        page.wait_for_timeout(200)


def test_console_follows_a_fleet_through_a_split_and_a_seek(
    browser: Browser,
) -> None:
    world = ConsoleWorld(shards=1, clock=SystemClock())
    parent, stream = "shardId-000000000000", world.orders.stream
    with served(world) as console, consuming(world) as got, opened(browser, console) as page:
        stream.put("a", b"before", 0)
        page.goto(f"{console.origin}/a/orders?sort=tree")
        shown_within(30, page, world, parent, "process-1")
        low, _ = stream.split(parent)
        stream.put("a", b"after", 0)
        shown_within(30, page, world, low, "process-1")
        shown_within(30, page, world, parent, "ENDED")
        while b"after" not in got:
            page.wait_for_timeout(100)
        page.wait_for_timeout(1100)
        stream.put("a", b"last", 0)  # a checkpoint that is due is written with the next batch
        shown_within(30, page, world, low, "…")
        assert got == [b"before", b"after", b"last"]

        page.goto(f"{console.origin}/a/orders/positions")
        page.get_by_label("the earliest record that is kept").check()
        page.get_by_role("button", name="Show the plan").click()
        expect(page.get_by_text("2 repeats, 1 reopens")).to_be_visible(timeout=20_000)
        page.get_by_role("button", name="Move").click()
        expect(page.get_by_text("3 leases moved.")).to_be_visible(timeout=20_000)
        deadline = monotonic() + 30
        while got != [b"before", b"after", b"last"] * 2:
            assert monotonic() < deadline, got
            page.wait_for_timeout(100)


def test_live_updates_can_be_paused_and_leave_focus_and_filter_alone(page: Page, console: Served) -> None:
    page.goto(f"{console.origin}/a/orders-audit")
    search = page.get_by_role("searchbox")
    page.keyboard.press("/")
    expect(search).to_be_focused()
    search.fill("half a wo")
    with page.expect_response(lambda reply: "x-sublet-live" in reply.request.headers, timeout=15_000):
        pass
    page.wait_for_timeout(100)
    expect(search).to_be_focused()
    expect(search).to_have_value("half a wo")
    button = page.locator("#live-button")
    button.click()
    expect(button).to_have_text("Paused")
    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    expect(button).to_have_text("Live")


def test_a_seek_and_its_undo_from_the_page_by_keyboard_alone(page: Page, console: Served) -> None:
    before = lease(console.world, STALLED_SHARD).checkpoint
    page.goto(f"{console.origin}/a/orders-audit/positions?shard={STALLED_SHARD}")
    page.get_by_label("the earliest record that is kept").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Show the plan").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 repeats")).to_be_visible(timeout=15_000)
    assert lease(console.world, STALLED_SHARD).checkpoint == before
    page.get_by_role("button", name="Move").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 lease moved.")).to_be_visible(timeout=15_000)
    assert str(lease(console.world, STALLED_SHARD).checkpoint) == "TRIM_HORIZON"

    page.goto(f"{console.origin}/a/orders-audit/positions")
    page.get_by_role("button", name="Show what undoes it").click()
    page.get_by_role("button", name="Undo the last seek").click(timeout=15_000)
    expect(page.get_by_text("1 lease moved.")).to_be_visible(timeout=15_000)
    assert lease(console.world, STALLED_SHARD).checkpoint == before


def test_a_payload_that_is_a_script_does_not_run(page: Page, console: Served) -> None:
    orders = console.world.applications["orders-audit"]
    orders.stream.put("<img src=x onerror=document.title=1>", b"<script>document.title='ran'</script>", 0)
    page.goto(f"{console.origin}/a/orders-audit/records?shard=shardId-000000000000&from=5s")
    page.locator("details.record summary").first.click()
    expect(page.locator("pre").first).to_contain_text("<script>document.title='ran'</script>")
    assert page.title() == "Records of orders-audit · sublet console"


def test_a_page_of_another_site_can_neither_frame_it_nor_send_its_forms(browser: Browser, console: Served) -> None:
    before = lease(console.world, STALLED_SHARD)
    with opened(browser, console) as page:
        reply = page.context.request.post(
            f"{console.origin}/a/orders-audit/positions/undo", headers={"Origin": "http://evil.example"}
        )
        assert reply.status == 403
        stranger = page.context.new_page()
        stranger.set_content(f'<iframe src="{console.origin}/a/orders-audit"></iframe>')
        deadline = monotonic() + 30
        while not (framed := stranger.frames[1:]) or not framed[0].url.startswith("chrome-error:"):
            assert monotonic() < deadline, [frame.url for frame in framed]
            stranger.wait_for_timeout(100)
        stranger.close()
    assert lease(console.world, STALLED_SHARD) == before


@pytest.mark.parametrize(("width", "scheme"), [(WIDE, "light"), (PHONE, "dark")], ids=["wide", "phone"])
def test_axe_finds_nothing_on_any_page(browser: Browser, console: Served, scheme: str, width: dict[str, int]) -> None:
    """WCAG 2.2 A and AA, and axe-core's best practices."""
    with opened(browser, console, width=width, scheme=scheme) as page:
        for path in (*pictures.PAGES.values(), "/nowhere"):
            page.goto(console.origin + path)
            assert (path, violations(page)) == (path, [])
        pictures.plan(page, console.origin)
        assert violations(page) == []
        page.get_by_role("button", name="Sign out").click()
        assert violations(page) == []


@pytest.mark.parametrize("width", [WIDE, PHONE], ids=["wide", "phone"])
def test_no_page_is_wider_than_the_window(browser: Browser, console: Served, width: dict[str, int]) -> None:
    """Whatever snapshots are called: Positions offers them all."""
    orders, long = console.world.applications["orders-audit"], "before-the-release-of-" * 4
    for name in (long, "seek-20261122T080000.123456Z"):
        orders.opened.snapshots.keep_snapshot(Snapshot(name, console.world.clock.now(), long, {}, (HOT_SHARD,)))
    with opened(browser, console, width=width) as page:
        for path in pictures.PAGES.values():
            page.goto(console.origin + path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width["width"], path


def test_a_phone_says_too_that_changes_are_allowed_and_of_which_application(browser: Browser, console: Served) -> None:
    with opened(browser, console, width=PHONE) as page:
        page.goto(f"{console.origin}/a/orders-audit")
        expect(page.get_by_text("Changes allowed")).to_be_visible()
        name = page.get_by_role("banner").get_by_role("link", name="orders-audit", exact=True)
        assert name.evaluate("each => each.scrollWidth <= each.clientWidth"), "it is not cut"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_turns_grey_with_its_age_without_a_connection_and_recovers(
    browser: Browser, console: Served, scheme: str
) -> None:
    with opened(browser, console, scheme=scheme) as page:
        page.goto(f"{console.origin}/a/orders-audit")
        state = page.locator(".tile .chip")
        expect(state).to_be_visible(timeout=30_000)
        colour = "each => getComputedStyle(each).color"
        before = state.evaluate(colour)
        page.evaluate("(() => { window.kept = fetch; window.fetch = () => Promise.reject(new Error()); })()")
        refresh(page)
        expect(page.get_by_role("button", name="No connection")).to_have_text(re.compile(r"No connection, \d+s old"))
        assert state.evaluate(colour) != before
        assert violations(page) == []
        page.evaluate("(() => { window.fetch = window.kept; })()")
        refresh(page)
        expect(page.get_by_role("button", name="Live")).to_be_visible()
        assert state.evaluate(colour) == before


def test_a_time_is_picked_in_utc(page: Page, console: Served) -> None:
    page.goto(f"{console.origin}/a/orders-audit/positions")
    page.get_by_role("textbox", name="Time, UTC").fill("2026-01-31T08:30:05")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_text("sublet seek 2026-01-31T08:30:05Z")).to_be_visible()


@explores
def test_the_pictures_of_the_documents_can_be_taken_and_are_small(browser: Browser, tmp_path: Path) -> None:
    pictures.take(browser, tmp_path)
    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in pictures.FOLDER.glob("console*.png")}
    assert max(sizes) < 1.2 * pictures.SIZE_MAX, "fonts differ from machine to machine"
