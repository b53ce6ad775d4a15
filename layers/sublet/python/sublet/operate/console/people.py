"""Who a request's change is of, and whether they may make it."""

from __future__ import annotations

from starlette.requests import Request

from sublet.operate.console.console_parts import Console
from sublet.operate.console.rendering import address_of
from sublet.operate.console.trusted_proxy import Person


def person_of(request: Request) -> Person | None:
    """None without a trusted proxy: then it is the person who runs the console."""
    found: Person | None = getattr(request.state, "person", None)
    return found


def named_as(console: Console, request: Request) -> str:
    """The name that snapshots and pauses have."""
    person = person_of(request)
    return console.operator if person is None else person.name


def who(console: Console, request: Request) -> str:
    """The name and address that the log has."""
    way = "from" if person_of(request) is None else "through the proxy at"
    return f"{named_as(console, request)} {way} {address_of(request)}"


def may_change(console: Console, request: Request) -> bool:
    person = person_of(request)
    return console.allows_changes and (person is None or person.may_move)
