"""People whom a proxy in front of the console has signed in: it says who sends a request in a header.

Anybody can write a header. So it counts only if the request comes from the proxy's address and has the secret that the
proxy and the console share; a request without these is refused, whatever it says. The console has no other way in then.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple, Protocol

SECRET_HEADER = "X-Sublet-Proxy-Secret"  # noqa: S105 -- its name
SECRET_LENGTH_MIN = 20
NAME_MAX = 256
LOOPBACK = ("127.0.0.1/32", "::1/128")

Network = IPv4Network | IPv6Network


class Person(NamedTuple):
    """Who sends a request.

    may_move  whether they may change an application, on a console that allows changes
    """

    name: str
    may_move: bool


class Refused(NamedTuple):
    """Why a request is not taken for anybody's. It says nothing of what the proxy should have sent."""

    why: str


class Headers(Protocol):
    def getlist(self, key: str) -> list[str]: ...


def networks_of(texts: Sequence[str]) -> tuple[Network, ...]:
    """Raises ValueError."""
    return tuple(ip_network(text) for text in texts or LOOPBACK)


@dataclass(frozen=True, slots=True)
class TrustedProxy:
    """The proxy, and what its people may do.

    header           names the person
    networks         where the proxy's requests come from
    secret           what they have in SECRET_HEADER
    movers           the names of those who may change applications; all others only look
    groups_header    names the person's groups, with commas between; "" if the proxy says none
    moving_groups    the groups whose members may change applications
    """

    header: str
    networks: Sequence[Network]
    secret: str
    movers: frozenset[str] = frozenset()
    groups_header: str = ""
    moving_groups: frozenset[str] = frozenset()

    def person(self, peer: str | None, headers: Headers) -> Person | Refused:
        """`peer`: the address at the other end of the connection, not one that a header names."""
        if not self._is_trusted(peer):
            return Refused("its address is not the proxy's")
        secrets = headers.getlist(SECRET_HEADER)
        if len(secrets) != 1 or not hmac.compare_digest(secrets[0].encode(), self.secret.encode()):
            return Refused("it does not have the proxy's secret")
        names = headers.getlist(self.header)
        if len(names) != 1:
            return Refused(f"it has the header {self.header} {len(names)} times instead of once")
        name = _text(names[0])
        if not name or len(name) > NAME_MAX or not name.isprintable():
            return Refused(f"its header {self.header} has no name")
        return Person(name, name in self.movers or self._is_in_a_moving_group(headers))

    def _is_trusted(self, peer: str | None) -> bool:
        try:
            address = ip_address(peer or "")
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self.networks)

    def _is_in_a_moving_group(self, headers: Headers) -> bool:
        """With the header twice, it is not known which one is the proxy's."""
        lists = headers.getlist(self.groups_header) if self.groups_header else []
        groups = {group.strip() for group in _text(lists[0]).split(",")} if len(lists) == 1 else set()
        return not self.moving_groups.isdisjoint(groups)


def _text(value: str) -> str:
    """A header's value, of which each character is a byte: proxies send names in UTF-8."""
    try:
        return value.encode("latin-1").decode().strip()
    except UnicodeError:
        return ""
