"""The console's parts as one value."""

from __future__ import annotations

from dataclasses import dataclass

from sublet.operate.console.applications import OpenApplication, VisibleApplications
from sublet.operate.console.browser_sessions import SignIn
from sublet.operate.console.plans import ChangePlans
from sublet.operate.console.trusted_proxy import TrustedProxy
from sublet.operate.console.watching import ApplicationWatcher
from sublet.payloads.decoding import Decoder
from sublet.ports import Clock, Log


@dataclass(frozen=True, slots=True)
class Console:
    """What a page needs.

    allows_changes  if False, every form that changes more than the session is refused
    operator        the person who runs the console, as its changes name them
    proxy           signs people in, each by name; None: a link or the token signs in as the operator
    decode          reads the records' data by the format that the console was started with; None: JSON. A page cannot
                    name a format, because that reads files and imports modules
    """

    applications: VisibleApplications
    access: SignIn
    watching: ApplicationWatcher
    plans: ChangePlans
    clock: Clock
    log: Log
    allows_changes: bool
    operator: str
    version: str
    decode: Decoder | None = None
    proxy: TrustedProxy | None = None


class NoSuchApplication(Exception):
    """The address names an application that this console does not show."""


def opened(console: Console, name: str) -> OpenApplication:
    """Returns the application. Raises NoSuchApplication."""
    found = console.watching.opened(name)
    if found is None:
        raise NoSuchApplication(name)
    return found
