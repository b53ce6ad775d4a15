"""What a consumer in this process is made of: where its ports come from, and what it goes by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple

from sublet.account import Account
from sublet.consumer.delivery import BufferLimits
from sublet.decisions.consumer_definition import (
    Options,
    Terms,
    by_definition,
    checked_terms,
    given_options,
)
from sublet.decisions.pull_events import Event
from sublet.ports import Clock, Ports, Signal, Tasks
from sublet.settings import Settings


class Joined(NamedTuple):
    """`defined`: the consumer's definition, which `terms` go by; None where there is none."""

    ports: Ports
    terms: Terms
    defined: Options | None


@dataclass(frozen=True, slots=True)
class World:
    """`given`: the options that this program was given. `ports`: None where the account makes them. `tell` is told of events,
    from any thread.
    """

    account: Account | None
    ports: Ports | None
    terms: Terms
    given: Options
    tell: Callable[[Event], None]

    @property
    def settings(self) -> Settings:
        return self.terms.settings

    @property
    def clock(self) -> Clock:
        return self._of.clock

    @property
    def tasks(self) -> Tasks:
        return self._of.tasks

    @property
    def _of(self) -> Ports | Account:
        of = self.ports or self.account
        assert of is not None
        return of

    def compose(self, stop: Signal, *, may_create: bool = False) -> tuple[Ports, Settings]:
        """The ports, and the settings with what is known then. It may take long, and the signal cuts it short."""
        if self.ports is not None:
            return self.ports, self.settings
        assert self.account is not None
        return self.account.compose(self.settings, stop, may_create=may_create)

    def join(self, stop: Signal, *, may_create: bool = False) -> Joined:
        """By the consumer's definition, if it has one. Raises SettingsInConflict."""
        ports, settings = self.compose(stop, may_create=may_create)
        defined = ports.sightings.load().definition
        terms = by_definition(self.terms._replace(settings=settings), self.given, defined)
        return Joined(ports, terms, defined)

    def without_stealing(self) -> World:
        """As a call outside of a `with` block is."""
        settings = replace(self.settings, max_leases_to_steal_at_one_time=0)
        return replace(self, terms=self.terms._replace(settings=settings))


def world_of(
    settings: Settings,
    given: Mapping[str, Any],
    ports: Ports | None,
    account: Account | None,
    on_event: Callable[[Event], object] | None = None,
    *,
    ack_wait: timedelta | float | None = None,
    max_ack_pending: int | None = None,
) -> World:
    """Over this machine's AWS without ports and account; its clients are made when it joins."""

    def tell(event: Event) -> None:
        if on_event is not None:
            on_event(event)

    terms = checked_terms(settings, ack_wait, max_ack_pending)
    wait = None if ack_wait is None else terms.ack_wait
    options = given_options({**given, "ack_wait": wait, "max_ack_pending": max_ack_pending})
    if ports is None and account is None:
        from sublet.aws.account import AwsAccount  # noqa: PLC0415 - boto3, which memory does without

        account = AwsAccount()
    return World(account, ports, terms, options, tell)


def limits_of(terms: Terms) -> BufferLimits:
    return BufferLimits(terms.max_ack_pending, terms.settings.max_bytes_in_flight, terms.ack_wait)
