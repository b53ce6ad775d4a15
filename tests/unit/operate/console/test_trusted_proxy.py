"""A console behind a proxy that signs people in, over real HTTP: each has a name, and nobody can take another's."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from html import unescape
from time import monotonic, sleep

import httpx
import pytest
from sublet.errors import LeaseTableError
from sublet.operate.console.change_audit import MemoryChangeAudit
from sublet.operate.console.server import listen, origin_of, server_of
from sublet.operate.console.trusted_proxy import SECRET_HEADER, TrustedProxy, networks_of
from sublet.operate.rules.change_audit import AuditEntry
from sublet.testing.memory import FakeClock

from tests.doubles.console_world import ConsoleWorld

SECRET = "a-secret-of-more-than-twenty-characters"
HEADER = "X-Forwarded-Email"
GROUPS = "X-Forwarded-Groups"
HOST = "console.example.com"
PAGE = "/a/orders/workers"
ADA, BOB = "ada@example.com", "bob@example.com"


def world_behind(*networks: str, allows_changes: bool = True, groups: str = "") -> ConsoleWorld:
    proxy = TrustedProxy(HEADER, networks_of(networks), SECRET, frozenset({ADA}), groups, frozenset({"operators"}))
    world = ConsoleWorld(allows_changes=allows_changes, proxy=proxy)
    for key in "abcd":
        world.orders.stream.put(key, b"an order")
    assert isinstance(world.clock, FakeClock)
    world.clock.advance(timedelta(minutes=1))
    return world


@contextmanager
def served(world: ConsoleWorld) -> Iterator[httpx.Client]:
    """Requests as the proxy makes them, without a person."""
    listening = listen("127.0.0.1", 0)
    server = server_of(world.console, listening, frozenset({HOST}))
    listening.listen()
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
    thread.start()
    try:
        headers = {"Host": HOST, "Origin": f"https://{HOST}", SECRET_HEADER: SECRET}
        with httpx.Client(base_url=origin_of(listening), headers=headers, timeout=30) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()
        world.console.watching.stop()
        listening.close()


def of(person: str, **more: str) -> dict[str, str]:
    return {HEADER: person, **more}


def form_key(client: httpx.Client, headers: Mapping[str, str]) -> str:
    found = re.search(r'name="form_key" value="([^"]+)"', client.get("/a/orders/positions", headers=headers).text)
    assert found is not None
    return found[1]


def post(client: httpx.Client, headers: Mapping[str, str], path: str, **fields: str) -> httpx.Response:
    return client.post(path, data={"form_key": form_key(client, headers), **fields}, headers=headers)


def planned(client: httpx.Client, headers: Mapping[str, str]) -> str:
    """The path of a seek's plan, once it is ready."""
    path = post(client, headers, "/a/orders/positions/seek", to="latest").headers["location"]
    deadline = monotonic() + 10
    while "plan-act" not in client.get(path, headers=headers).text:
        assert monotonic() < deadline
        sleep(0.02)
    return path


def refusals(world: ConsoleWorld) -> list[str]:
    return [str(line.fields["why"]) for line in world.log.lines if line.message == "console request refused"]


def test_person_of_the_proxy_is_named_and_needs_no_cookie() -> None:
    with served(world_behind()) as client:
        page = client.get(PAGE, headers=of(ADA))
        assert (page.status_code, ADA in page.text, "Sign out" in page.text) == (200, True, False)
        assert "set-cookie" not in page.headers
        assert "Looking only" in client.get(PAGE, headers=of(BOB)).text


@pytest.mark.parametrize("path", ["/", "/a/orders", "/static/console.js", "/open?link=x", "/sign-in"])
@pytest.mark.parametrize(
    "headers",
    [
        {SECRET_HEADER: ""},
        {SECRET_HEADER: SECRET[:-1]},
        {SECRET_HEADER: SECRET + "x"},
        {SECRET_HEADER: SECRET, HEADER: ""},
    ],
)
def test_request_without_the_secret_or_a_name_is_refused(path: str, headers: dict[str, str]) -> None:
    world = world_behind()
    with served(world) as client:
        reply = client.get(path, headers={HEADER: ADA, **headers})
        assert (reply.status_code, reply.text) == (
            403,
            "This console answers only through its proxy, which signs you in.\n",
        )
    (why,) = refusals(world)
    assert SECRET[:-1] not in why


def test_request_from_another_address_is_refused_whatever_it_says() -> None:
    """X-Forwarded-For may name the proxy's address: only the connection's own counts."""
    world = world_behind("10.0.0.7/32")
    with served(world) as client:
        for more in ({}, {"X-Forwarded-For": "10.0.0.7"}, {"Forwarded": "for=10.0.0.7"}, {"X-Real-IP": "10.0.0.7"}):
            assert client.get(PAGE, headers=of(ADA, **more)).status_code == 403
    assert set(refusals(world)) == {"its address is not the proxy's"}


@pytest.mark.parametrize("doubled", [HEADER, SECRET_HEADER])
def test_header_that_a_person_sent_too_is_refused(doubled: str) -> None:
    """A proxy that adds its header to the person's own, instead of replacing that."""
    world = world_behind()
    sent = [(HEADER, BOB), (SECRET_HEADER, SECRET), ("Host", HOST)]
    more = (doubled, ADA if doubled == HEADER else SECRET)
    with served(world) as client, httpx.Client(base_url=client.base_url) as bare:
        assert bare.get(PAGE, headers=sent).status_code == 200
        for both in ([more, *sent], [*sent, more]):
            assert bare.get(PAGE, headers=both).status_code == 403


def test_link_token_and_cookie_let_nobody_in_beside_the_proxy() -> None:
    world = world_behind()
    link = world.console.access.new_link()
    session = world.console.access.session_of(ADA)
    with served(world) as client, httpx.Client(base_url=client.base_url, headers={"Host": HOST}) as bare:
        assert bare.get(f"/open?link={link}").status_code == 403
        bare.cookies.set("sublet_console_", session.key)
        assert bare.get("/").status_code == 403
        assert client.get(f"/open?link={link}", headers=of(BOB)).headers["location"] == "/"


def test_only_who_may_move_changes_something() -> None:
    world = world_behind()
    with served(world) as client:
        before = world.orders.table.rows()
        plan = planned(client, of(BOB))
        assert "You may look, and change nothing" in unescape(client.get(plan, headers=of(BOB)).text)
        refused = post(client, of(BOB), plan)
        assert (refused.status_code, "not among" in refused.text or "without your name" in refused.text) == (403, True)
        assert post(client, of(BOB), "/a/orders/positions/snapshot", name="mine").status_code == 403
        assert world.orders.table.rows() == before
        assert world.orders.opened.snapshots.snapshots() == ()
        assert post(client, of(ADA), "/a/orders/positions/snapshot", name="mine").status_code == 303
    assert [each.by for each in world.orders.opened.snapshots.snapshots()] == [ADA]


def test_change_is_logged_and_kept_with_the_persons_name() -> None:
    world = world_behind()
    with served(world) as client:
        plan = planned(client, of(ADA))
        assert post(client, of(ADA), plan, name="orders").status_code == 303
        deadline = monotonic() + 10
        while "console change ended" not in [line.message for line in world.log.lines]:
            assert monotonic() < deadline
            sleep(0.02)
        page = unescape(client.get("/a/orders/control", headers=of(BOB)).text)
        assert (f"{ADA} through the proxy at 127.0.0.1" in page, "Move all shards to latest" in page) == (True, True)
    (kept,) = world.orders.opened.audit.entries()
    assert (kept.state, kept.command.split()[:3]) == ("done", ["sublet", "seek", "latest"])
    (change,) = (line for line in world.log.lines if line.message == "console change")
    assert change.fields["who"] == f"{ADA} through the proxy at 127.0.0.1"
    assert {each.by for each in world.orders.opened.snapshots.snapshots()} == {ADA}


def test_plan_of_another_person_is_not_carried_out() -> None:
    """What it keeps would name its maker."""
    with served(world_behind()) as client:
        plan = planned(client, of(BOB))
        refused = post(client, of(ADA), plan, name="orders")
        assert (refused.status_code, f"{BOB} has made this plan" in refused.text) == (409, True)


def test_form_needs_the_key_of_its_person_and_its_origin() -> None:
    with served(world_behind()) as client:
        path, own = "/a/orders/positions/snapshot", form_key(client, of(ADA))
        for key in ("", "wrong", form_key(client, of(BOB))):
            reply = client.post(path, data={"form_key": key, "name": "mine"}, headers=of(ADA))
            assert (reply.status_code, "not from this session" in reply.text) == (403, True)
        for origin in ("https://evil.example", "null", ""):
            reply = client.post(path, data={"form_key": own, "name": "mine"}, headers=of(ADA, Origin=origin))
            assert (reply.status_code, reply.text) == (403, "The request comes from another site.\n")
        assert client.get(PAGE, headers=of(ADA, Host="evil.example")).status_code == 421


def test_members_of_a_group_may_move() -> None:
    with served(world_behind(groups=GROUPS)) as client:
        for groups, may in (("staff, operators", True), ("staff", False), ("", False), ("operators-not", False)):
            page = client.get(PAGE, headers=of(BOB, **{GROUPS: groups})).text
            assert (groups, "Changes allowed" in page) == (groups, may)
        twice = [(HEADER, BOB), (GROUPS, "operators"), (GROUPS, "staff")]
        assert "Looking only" in client.get(PAGE, headers=twice).text


def test_header_of_groups_counts_only_if_the_console_was_told_its_name() -> None:
    with served(world_behind()) as client:
        assert "Looking only" in client.get(PAGE, headers=of(BOB, **{GROUPS: "operators"})).text


def test_console_without_changes_is_read_only_for_everybody() -> None:
    with served(world_behind(allows_changes=False)) as client:
        assert "Read-only" in client.get(PAGE, headers=of(ADA)).text
        refused = post(client, of(ADA), "/a/orders/control/pause")
        assert refused.status_code == 303, "a plan changes nothing"
        assert (
            "This console is read-only"
            in client.post(
                "/a/orders/positions/snapshot",
                data={"form_key": form_key(client, of(ADA)), "name": "mine"},
                headers=of(ADA),
            ).text
        )


def test_name_is_shown_as_text_and_may_have_any_letters() -> None:
    with served(world_behind()) as client:
        name = "<b>žofie@example.com".encode()
        page = client.get(PAGE, headers=[(HEADER.encode(), name)]).text
        assert "&lt;b&gt;žofie@example.com" in page
        assert client.get(PAGE, headers=[(HEADER.encode(), b"\xff@example.com")]).status_code == 403
        assert client.get(PAGE, headers={HEADER: "x" * 257}).status_code == 403


def test_address_may_be_an_ipv4_address_within_ipv6() -> None:
    proxy = world_behind("127.0.0.0/8").console.proxy
    assert proxy is not None
    assert [proxy._is_trusted(peer) for peer in ("::ffff:127.0.0.1", "127.9.9.9", "::1", "unknown", None, "")] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


def test_change_that_cannot_be_written_down_is_not_made() -> None:
    class FullAudit(MemoryChangeAudit):
        def keep(self, entry: AuditEntry) -> None:
            raise LeaseTableError(f"no room for {entry.what}")

    world = world_behind()
    world.orders.opened = replace(world.orders.opened, audit=FullAudit())
    with served(world) as client:
        before, plan = world.orders.table.rows(), planned(client, of(ADA))
        refused = post(client, of(ADA), plan, name="orders")
        assert (refused.status_code, "cannot be written down: no room for" in refused.text) == (409, True)
        assert post(client, of(ADA), "/a/orders/positions/snapshot", name="mine").status_code == 400
    assert world.orders.table.rows() == before
    assert world.orders.opened.snapshots.snapshots() == ()
