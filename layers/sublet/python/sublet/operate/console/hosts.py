"""Decides which Host headers are ours, because another site's name may be made to resolve to this machine (DNS
rebinding).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import ip_address

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_HOST = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?")


def name_of(header: str) -> str | None:
    """The name or address in a Host header, without the port: a tunnel may end at another one. None if it is
    malformed.
    """
    found = _HOST.fullmatch(header)
    return None if found is None else (found["six"] or found["name"]).lower()


def port_of(header: str) -> str:
    """The port in a Host header; empty if it states none."""
    found = _HOST.fullmatch(header)
    return "" if found is None else found["port"] or ""


def is_loopback(address: str) -> bool:
    return address == "localhost" or (_is_address(address) and ip_address(address).is_loopback)


def is_ours(header: str, named: Collection[str], *, is_public: bool) -> bool:
    """True if a request with this Host header is for us.

    named      names that the operator has given
    is_public  the console listens on more than loopback. Any address is then ours, since only a name can be made to
               resolve to another address
    """
    name = name_of(header)
    if name is None:
        return False
    return name in LOOPBACK or name in named or (is_public and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
