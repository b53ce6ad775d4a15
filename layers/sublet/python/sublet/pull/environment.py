"""A consumer's surroundings in this process: its ports, clock and threads, and the terms that it follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from sublet.decisions.manager.joins_and_drains import joins_again_after
from sublet.decisions.patience import RefusalStreak
from sublet.decisions.pull.consumer_definition import (
    Options,
    PullSettings,
    by_definition,
    checked_terms,
    given_options,
)
from sublet.decisions.pull.pull_events import Event
from sublet.errors import CallFailed, TransientError
from sublet.ports import Clock, Log, Ports, Signal, Tasks
from sublet.ports.account import Account
from sublet.pull.refill import BufferLimits
from sublet.settings import Settings
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks

FOREVER = timedelta(days=366)


class JoinedGroup(NamedTuple):
    """`defined`: the consumer's definition, which `terms` follow; None if there is none."""

    ports: Ports
    terms: PullSettings
    defined: Options | None


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a consumer's ports and settings come from.

    account  returns the Account that creates the ports; None if `ports` is given. Called when first needed, because on
             AWS it loads boto3, which would block an event loop for a moment
    given    the options that the program passed
    tell     called with events, from any thread
    stopped  set when the program should get no more records
    joined   set once the consumer has joined its group
    """

    account: Callable[[], Account] | None
    ports: Ports | None
    clock: Clock
    tasks: Tasks
    terms: PullSettings
    given: Options
    tell: Callable[[Event], None]
    stopped: Signal
    joined: Signal

    @property
    def settings(self) -> Settings:
        return self.terms.settings

    def compose(self, stop: Signal, *, may_create: bool = False) -> tuple[Ports, Settings]:
        """The ports, and the settings completed by what AWS says. This may take long; setting `stop` ends it early."""
        if self.ports is not None:
            return self.ports, self.settings
        assert self.account is not None
        return self.account().compose(self.settings, stop, may_create=may_create)

    def join(
        self,
        stop: Signal,
        leaving: Signal | None = None,
        *,
        may_create: bool = False,
        on_problem: Callable[[TransientError], None] = lambda _: None,
    ) -> JoinedGroup | None:
        """Compose the ports, and take the terms from the consumer's definition if there is one. While AWS cannot be
        reached, or refuses what it has allowed before, log why, call `on_problem` and try again; return None if one of
        the signals is set first. Raises SettingsInConflict, and an error for which waiting does not help, or has not
        (`decisions.patience`).
        """
        signals = [stop] if leaving is None else [stop, leaving]
        failures, refusals = 0, RefusalStreak(has_worked=self.joined.is_set())
        while not any(signal.is_set() for signal in signals):
            try:
                joined = self._join(stop, may_create=may_create)
            except CallFailed as problem:
                now = self.clock.steady()
                failures, refusals = failures + 1, refusals.after(problem, now)
                if refusals.is_over(problem, now, self.settings.refusal_patience):
                    raise
                after = joins_again_after(failures)
                if isinstance(problem, TransientError):
                    on_problem(problem)
                self._log.warning(
                    "could not join; trying again", problem=str(problem), again_after=after.total_seconds()
                )
                wait_for_any(self.tasks, signals, after)
            else:
                self.joined.set()
                return joined
        return None

    @property
    def _log(self) -> Log:
        if self.ports is not None:
            return self.ports.log
        assert self.account is not None
        return self.account().log

    def _join(self, stop: Signal, *, may_create: bool) -> JoinedGroup:
        ports, settings = self.compose(stop, may_create=may_create)
        defined = ports.sightings.load().definition
        terms = by_definition(self.terms._replace(settings=settings), self.given, defined)
        return JoinedGroup(ports, terms, defined)


def wait_for_any(tasks: Tasks, signals: Sequence[Signal], timeout: timedelta = FOREVER) -> None:
    """Returns when one of the signals is set, or after the timeout."""
    one_is_set = tasks.signal()
    forgets = [signal.on_set(one_is_set.set) for signal in signals]
    one_is_set.wait(timeout)
    for forget in forgets:
        forget()


def environment_of(
    settings: Settings,
    given: Mapping[str, Any],
    ports: Ports | None,
    account: Account | None,
    on_event: Callable[[Event], object] | None = None,
    *,
    ack_wait: timedelta | float | None = None,
    max_ack_pending: int | None = None,
    stopped: Signal | None = None,
) -> Environment:
    """The environment of these ports or this account. Without either it is AWS, as this machine is configured. Creates
    no client yet.
    """

    def tell(event: Event) -> None:
        if on_event is not None:
            on_event(event)

    terms = checked_terms(settings, ack_wait, max_ack_pending)
    wait = None if ack_wait is None else terms.ack_wait
    options = given_options({**given, "ack_wait": wait, "max_ack_pending": max_ack_pending})
    of: Ports | Account | None = ports or account
    clock, tasks = (SystemClock(), ThreadTasks()) if of is None else (of.clock, of.tasks)
    return Environment(
        None if ports else account_of(account),
        ports,
        clock,
        tasks,
        terms,
        options,
        tell,
        stopped or tasks.signal(),
        tasks.signal(),
    )


def account_of(given: Account | None) -> Callable[[], Account]:
    """Returns the given account, or one over AWS as this machine is configured."""
    if given is not None:
        return lambda: given
    return _aws_account


def _aws_account() -> Account:
    from sublet.aws.account import AwsAccount  # noqa: PLC0415 - loads boto3, which memory does not need

    return AwsAccount()


def limits_of(terms: PullSettings) -> BufferLimits:
    return BufferLimits(terms.max_ack_pending, terms.settings.max_bytes_in_flight, terms.ack_wait)
