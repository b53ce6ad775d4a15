"""The guard before every request: it shows nothing without a session or under another name, and lets no other site
change anything.
"""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from sublet.operate.console.guard import HEADERS, Guard
from sublet.operate.console.routes import console_app

from tests.doubles.console_client import ORIGIN, ConsoleClient, stranger
from tests.doubles.console_world import ConsoleWorld

PAGES = ("/", "/a/orders", "/a/orders/records", "/a/orders/positions", "/a/orders/plans/none")


def routes(world: ConsoleWorld) -> list[Route]:
    guard = console_app(world.console)
    assert isinstance(guard, Guard)
    assert isinstance(guard.app, Starlette)
    return [route for route in guard.app.routes if isinstance(route, Route)]


def posts(world: ConsoleWorld) -> list[str]:
    """Every address that takes a form, but the one that begins a session."""
    found = [
        route.path.format(application="orders", number="1", shard="shardId-000000000000")
        for route in routes(world)
        if "POST" in (route.methods or ()) and route.path != "/sign-in"
    ]
    assert len(found) >= 4
    return found


@pytest.mark.parametrize("path", PAGES)
def test_page_redirects_to_the_sign_in_without_a_session(path: str) -> None:
    reply = stranger(ConsoleWorld()).get(path, follow_redirects=False)
    assert (reply.status_code, reply.headers["location"]) == (303, "/sign-in")
    assert "orders" not in reply.text


def test_the_script_without_a_session_is_refused_without_a_page() -> None:
    reply = stranger(ConsoleWorld()).get("/a/orders", headers={"X-Sublet-Live": "1"})
    assert (reply.status_code, reply.text) == (401, "Sign in first.\n")


def test_a_link_works_once() -> None:
    world = ConsoleWorld()
    link = f"/open?link={world.console.access.new_link()}"
    assert stranger(world).get(link, follow_redirects=False).status_code == 303
    again = stranger(world).get(link)
    assert again.status_code == 401
    assert "has been used" in again.text


@pytest.mark.parametrize("path", ["/open?link=", "/open", "/open?link=wrong"])
def test_a_wrong_link_opens_nothing(path: str) -> None:
    assert stranger(ConsoleWorld()).get(path).status_code == 401


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:8470",
        "",
        "a b",
        "127.0.0.1:999999",
        "127.0.0.1:x",
    ],
)
def test_another_name_for_this_machine_is_refused_even_with_a_session(host: str) -> None:
    client = ConsoleClient(ConsoleWorld())
    assert client.get("/", Host=host).status_code == 421
    assert client.get("/static/console.js", Host=host).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8470", "localhost:9000", "[::1]:8470", "LOCALHOST", "127.0.0.1:99999"])
def test_loopback_hosts_are_answered_on_any_port(host: str) -> None:
    assert stranger(ConsoleWorld()).get("/sign-in", headers={"Host": host}).status_code == 401


@pytest.mark.parametrize("path", ["/sign-in", "/static/console.js", "/", "/nowhere"])
def test_every_reply_has_the_headers(path: str) -> None:
    client = ConsoleClient(ConsoleWorld())
    for reply in (client.get(path), stranger(client.world).get(path, follow_redirects=False)):
        assert {name: reply.headers[name] for name in HEADERS} == HEADERS


def test_the_policy_allows_no_inline_script_or_style_and_nothing_from_elsewhere() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    assert policy.startswith("default-src 'none'")


def test_pages_are_not_stored_by_the_browser() -> None:
    assert ConsoleClient(ConsoleWorld()).get("/a/orders").headers["cache-control"] == "no-store"


def test_a_form_without_the_key_of_the_session_is_refused_everywhere() -> None:
    world = ConsoleWorld()
    client = ConsoleClient(world)
    for path in posts(world):
        for key in (
            {},
            {"form_key": ""},
            {"form_key": "wrong"},
            {"form_key": ConsoleClient(world).form_key()},
        ):
            reply = client.http.post(path, data=key, headers={"Origin": ORIGIN}, follow_redirects=False)
            assert (path, reply.status_code) == (path, 403)
            assert "not from this session" in reply.text


@pytest.mark.parametrize(
    "origin", [{}, {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:9"}]
)
def test_a_form_from_another_site_is_refused_everywhere(origin: dict[str, str]) -> None:
    world = ConsoleWorld()
    client = ConsoleClient(world)
    key = client.form_key()
    for path in [*posts(world), "/sign-in"]:
        reply = client.http.post(path, data={"form_key": key}, headers=origin, follow_redirects=False)
        assert (path, reply.status_code, reply.text) == (path, 403, "The request comes from another site.\n")


def test_a_form_without_a_session_is_refused_everywhere() -> None:
    world = ConsoleWorld()
    for path in posts(world):
        reply = stranger(world).post(path, data={"form_key": ""}, headers={"Origin": ORIGIN})
        assert (path, reply.status_code) == (path, 401)


def test_get_and_head_change_nothing() -> None:
    world = ConsoleWorld()
    client = ConsoleClient(world)
    before = world.orders.table.rows()
    for route in routes(world):
        path = route.path.format(application="orders", number="1", shard="shardId-000000000000")
        client.get(path)
        client.http.head(path)
    assert world.orders.table.rows() == before
    assert world.orders.opened.snapshots.snapshots() == ()


def test_a_form_that_is_too_large_is_not_read_on() -> None:
    client = ConsoleClient(ConsoleWorld())
    reply = client.post("/a/orders/positions/seek", ago="1" * 70_000)
    assert reply.status_code == 413


def test_the_cookie_is_for_this_site_and_not_for_scripts() -> None:
    world = ConsoleWorld()
    reply = stranger(world).get(f"/open?link={world.console.access.new_link()}", follow_redirects=False)
    cookie = reply.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_consoles_on_one_machine_keep_separate_sessions() -> None:
    """A browser sends cookies to every port of a host."""
    first, second = (stranger(ConsoleWorld()) for _ in range(2))
    names = []
    for client, port in ((first, 8470), (second, 8471)):
        link = client.app.access.new_link()  # type: ignore[attr-defined]
        reply = client.get(f"http://127.0.0.1:{port}/open?link={link}", follow_redirects=False)
        names.append(reply.headers["set-cookie"].partition("=")[0])
    assert names == ["sublet_console_8470", "sublet_console_8471"]


def test_signing_out_ends_the_session() -> None:
    client = ConsoleClient(ConsoleWorld())
    cookies = dict(client.http.cookies)
    assert client.post("/sign-out").url.path == "/sign-in"
    other = stranger(client.world)
    other.cookies.update(cookies)
    assert other.get("/", follow_redirects=False).headers["location"] == "/sign-in"


def test_a_token_signs_in_and_a_wrong_one_is_written_down_without_itself() -> None:
    world = ConsoleWorld(token="a-token-of-twenty-letters")
    client = stranger(world)
    wrong = client.post("/sign-in", data={"token": "a-token-of-twenty-lettert"}, headers={"Origin": ORIGIN})
    assert wrong.status_code == 401
    assert [line.message for line in world.log.lines] == ["console sign-in refused"]
    assert "lettert" not in repr(world.log.lines)
    right = client.post("/sign-in", data={"token": "a-token-of-twenty-letters"}, headers={"Origin": ORIGIN})
    assert right.status_code == 200
    assert "Sign out" in right.text


def test_empty_token_does_not_sign_in() -> None:
    reply = stranger(ConsoleWorld()).post("/sign-in", data={"token": ""}, headers={"Origin": ORIGIN})
    assert reply.status_code == 401


def test_unknown_page_or_application_is_not_found() -> None:
    client = ConsoleClient(ConsoleWorld())
    assert "There is no such page" in client.get("/nowhere").text
    other = client.get("/a/<script>alert(1)</script>x")
    assert other.status_code == 404
    unknown = client.get("/a/%3Cscript%3E")
    assert unknown.status_code == 404
    assert "This console does not show &lt;script&gt;." in unknown.text
