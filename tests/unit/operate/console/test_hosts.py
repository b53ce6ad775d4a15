"""Which Host headers are ours, on loopback and on other addresses."""

from __future__ import annotations

import socket

import pytest
from sublet.errors import SettingsError
from sublet.operate.console.hosts import is_loopback, is_ours, name_of, port_of
from sublet.operate.console.server import listen, origin_of


@pytest.mark.parametrize(
    ("header", "name", "port"),
    [
        ("LocalHost:8470", "localhost", "8470"),
        ("[::1]:8470", "::1", "8470"),
        ("127.0.0.1", "127.0.0.1", ""),
        ("a b", None, ""),
        ("localhost:8470, evil", None, ""),
        ("user@localhost", None, ""),
    ],
)
def test_a_header_is_a_name_and_a_port_or_malformed(header: str, name: str | None, port: str) -> None:
    assert (name_of(header), port_of(header)) == (name, port)


@pytest.mark.parametrize(
    ("header", "named", "is_public", "ours"),
    [
        ("192.0.2.7:8470", (), False, False),
        ("192.0.2.7:8470", (), True, True),
        ("console.example.com", (), True, False),
        ("console.example.com", ("console.example.com",), True, True),
        ("evil.example", ("console.example.com",), True, False),
        ("localhost", (), True, True),
    ],
)
def test_other_addresses_are_ours_only_for_a_public_console_and_names_only_if_stated(
    header: str, named: tuple[str, ...], is_public: bool, ours: bool
) -> None:
    assert is_ours(header, named, is_public=is_public) is ours


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104 - nothing is bound
        ("::", False),
        ("example.com", False),
    ],
)
def test_loopback_is_this_machine_alone(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback


def test_a_port_that_is_taken_says_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SettingsError, match="give another --port"):
            listen("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize(
    ("address", "origin"),
    [("127.0.0.1", "http://127.0.0.1:"), ("localhost", "http://127.0.0.1:"), ("::1", "http://[::1]:")],
)
def test_the_address_that_a_browser_opens(address: str, origin: str) -> None:
    try:
        listening = listen(address, 0)
    except SettingsError:
        pytest.skip("no IPv6 here")
    with listening:
        assert origin_of(listening).startswith(origin)
